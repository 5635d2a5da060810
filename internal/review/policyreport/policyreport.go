// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policyreport writes findings as the reports that policy engines keep in clusters, and that
// dashboards and compliance tools read: Report and ClusterReport of openreports.io/v1alpha1, and
// PolicyReport and ClusterPolicyReport of wgpolicyk8s.io/v1alpha2, from which those descend.
package policyreport

import (
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/internal/wholefile"
)

// A Format is a kind of reports.
type Format string

const (
	// OpenReports has Report and ClusterReport.
	OpenReports Format = "openreports"
	// PolicyReports has PolicyReport and ClusterPolicyReport.
	PolicyReports Format = "policyreports"
)

// A Result says what came of a policy for an object.
type Result string

// The results. Both formats have these alone.
const (
	Pass  Result = "pass"
	Fail  Result = "fail"
	Warn  Result = "warn"
	Error Result = "error"
	Skip  Result = "skip"
)

// A Finding is one result of a report.
type Finding struct {
	// Policy is the name of the policy or plugin, and Rule that of what in it decided. Rule may be
	// empty.
	Policy, Rule string
	Result       Result
	Message      string
	// Time is when the result was found.
	Time time.Time
	// Object is the object that the policy judged; empty if the finding is about none. It goes to the report of its
	// namespace.
	Object corev1.ObjectReference
	// Properties are further facts.
	Properties map[string]string
}

// A Report is a report of one namespace, or of the objects without a namespace. Its fields are those
// that both formats have.
//
// Source: github.com/openreports/reports-api v0.2.1, apis/openreports.io/v1alpha1/report_types.go.
type Report struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        Metadata `json:"metadata"`
	// Source is the program that made the report. PolicyReports have it in each result instead.
	Source  string         `json:"source,omitempty"`
	Summary map[Result]int `json:"summary"`
	Results []entry        `json:"results"`
}

// Metadata is the part of an object's metadata that reports have.
type Metadata struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// entry is a finding as both formats write it.
type entry struct {
	Source     string                   `json:"source"`
	Policy     string                   `json:"policy"`
	Rule       string                   `json:"rule,omitempty"`
	Result     Result                   `json:"result"`
	Scored     bool                     `json:"scored"`
	Message    string                   `json:"message,omitempty"`
	Timestamp  metav1.Timestamp         `json:"timestamp"`
	Resources  []corev1.ObjectReference `json:"resources,omitempty"`
	Properties map[string]string        `json:"properties,omitempty"`
}

// New returns the reports of the findings: one for each namespace, and first, if there are any, one
// for the objects without a namespace. All have the same name. source is the program that makes
// them.
func New(format Format, name, source string, findings []Finding) ([]Report, error) {
	kinds := map[Format][3]string{
		OpenReports:   {"openreports.io/v1alpha1", "Report", "ClusterReport"},
		PolicyReports: {"wgpolicyk8s.io/v1alpha2", "PolicyReport", "ClusterPolicyReport"},
	}
	kind, ok := kinds[format]
	if !ok {
		return nil, fmt.Errorf("writing a report: format %q is none of %s, %s", format, OpenReports, PolicyReports)
	}
	byNamespace := map[string]*Report{}
	for i := range findings {
		f := &findings[i]
		r := byNamespace[f.Object.Namespace]
		if r == nil {
			r = &Report{TypeMeta: metav1.TypeMeta{APIVersion: kind[0], Kind: kind[1]},
				Metadata: Metadata{Name: name, Namespace: f.Object.Namespace,
					Labels: map[string]string{"app.kubernetes.io/managed-by": source}},
				Summary: map[Result]int{Pass: 0, Fail: 0, Warn: 0, Error: 0, Skip: 0}}
			if f.Object.Namespace == "" {
				r.Kind = kind[2]
			}
			if format == OpenReports {
				r.Source = source
			}
			byNamespace[f.Object.Namespace] = r
		}
		r.Summary[f.Result]++
		var objects []corev1.ObjectReference
		if f.Object != (corev1.ObjectReference{}) {
			objects = []corev1.ObjectReference{f.Object}
		}
		r.Results = append(r.Results, entry{Source: source, Policy: f.Policy, Rule: f.Rule, Result: f.Result,
			Scored: f.Result != Warn, Message: f.Message,
			Timestamp: metav1.Timestamp{Seconds: f.Time.Unix(), Nanos: int32(f.Time.Nanosecond())},
			Resources: objects, Properties: f.Properties})
	}
	var reports []Report
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		reports = append(reports, *byNamespace[namespace])
	}
	return reports, nil
}

// Write writes the reports as YAML documents, such as kubectl apply reads.
func Write(w io.Writer, reports []Report) error {
	for i := range reports {
		text, err := yaml.Marshal(&reports[i])
		if err != nil {
			return fmt.Errorf("writing the report of namespace %q: %w", reports[i].Metadata.Namespace, err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

// WriteFiles writes each report to a file of its own in the directory, which it makes if it isn't
// there. The files are named by kind and namespace. New ones are readable by their owner alone. The notes say
// which files could not be replaced as a whole.
func WriteFiles(dir string, reports []Report) (notes []string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the reports: %w", err)
	}
	for i := range reports {
		r := &reports[i]
		text, err := yaml.Marshal(r)
		if err != nil {
			return notes, fmt.Errorf("writing the report of namespace %q: %w", r.Metadata.Namespace, err)
		}
		name := r.Kind + ".yaml"
		if r.Metadata.Namespace != "" {
			// A file may name a namespace with slashes, which no server has.
			name = r.Kind + "-" + url.PathEscape(r.Metadata.Namespace) + ".yaml"
		}
		note, err := wholefile.Replace(filepath.Join(dir, name), text, 0o600)
		if err != nil {
			return notes, fmt.Errorf("writing the report of namespace %q: %w", r.Metadata.Namespace, err)
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	return notes, nil
}
