// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/internal/drill"
	"gatehouse.dev/internal/lint"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/remote/registration"
	"gatehouse.dev/test/charts"
	"gatehouse.dev/test/needs"
)

// The findings of gatehouse lint in charts that people use are those that docs/lint.md judges one by one.
func TestLintOfCharts(t *testing.T) {
	needs.Nightly(t)
	dir := t.TempDir()
	if err := charts.Put(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../docs/lint.md")
	if err != nil {
		t.Fatal(err)
	}
	_, judged, _ := strings.Cut(string(text), "## Charts, judged")
	for _, name := range []string{"gatekeeper", "kyverno", "cert-manager"} {
		out, err := exec.CommandContext(t.Context(), helm, "template", name, filepath.Join(dir, name), "--namespace",
			name+"-system").Output()
		if err != nil {
			t.Fatal(err)
		}
		documents, errs := input.Read([]string{"-"}, strings.NewReader(string(out)))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		report, err := lint.Check(t.Context(), lint.Options{Documents: documents})
		if err != nil {
			t.Fatal(err)
		}
		if report.Summary.Unread > 0 {
			t.Errorf("%s: unread: %v", name, report.Unread)
		}
		var got []string
		for _, f := range report.Findings {
			row := fmt.Sprintf("| %s | `%s` | %s | ", name, f.ID, f.Severity)
			if !slices.Contains(got, row) {
				got = append(got, row)
			}
			if !strings.Contains(judged, row) {
				t.Errorf("docs/lint.md doesn't judge %s%s: %s", row, f.Part, f.Message)
			}
		}
		for line := range strings.Lines(judged) {
			if strings.HasPrefix(line, "| "+name+" | ") &&
				!slices.ContainsFunc(got, func(row string) bool { return strings.HasPrefix(line, row) }) &&
				!strings.Contains(line, "| none |") {
				t.Errorf("docs/lint.md judges what isn't found: %s", line)
			}
		}
	}
}

// The configurations of gatehouse webhook have no findings, whatever the plugins are, and their backend comes
// back by itself. Rules that some plugins break by their nature are ignored for these, with a reason.
func TestLintOfOwnConfigurations(t *testing.T) {
	check := func(o *registration.Options) *lint.Report {
		o.Name, o.Namespace = "gatehouse", "gatehouse-system"
		o.Service = &registration.Service{Namespace: o.Namespace, Name: o.Name}
		o.User = "system:serviceaccount:gatehouse-system:gatehouse"
		var documents []input.Document
		for kind, object := range map[string]any{"MutatingWebhookConfiguration": registration.Mutating(o, nil),
			"ValidatingWebhookConfiguration": registration.Validating(o, nil)} {
			encoded, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			u := &unstructured.Unstructured{}
			if string(encoded) == "null" {
				continue // no plugin has the phase
			}
			fields := map[string]any{}
			if err := json.Unmarshal(encoded, &fields); err != nil {
				t.Fatal(err)
			}
			fields["apiVersion"], fields["kind"] = "admissionregistration.k8s.io/v1", kind
			if encoded, err = json.Marshal(fields); err != nil {
				t.Fatal(err)
			}
			if err := u.UnmarshalJSON(encoded); err != nil {
				t.Fatal(err)
			}
			documents = append(documents, input.Document{Object: u})
		}
		report, err := lint.Check(t.Context(), lint.Options{Documents: documents})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range report.Findings {
			t.Errorf("%s %s: %s: %s", f.Object, f.Part, f.ID, f.Message)
		}
		if report.Summary.Unread > 0 {
			t.Errorf("unread: %v", report.Unread)
		}
		drilled, err := drill.Run(t.Context(), drill.Options{Documents: documents, Namespace: "default"})
		if err != nil {
			t.Fatal(err)
		}
		for _, outage := range drilled.Outages {
			if outage.Heals != drill.Yes {
				t.Errorf("%s doesn't come back by itself: %v", outage.Backends, outage.Blocked)
			}
		}
		if n := len(drilled.Outages); n != 1 && len(documents) > 0 {
			t.Errorf("%d outages were drilled", n)
		}
		return report
	}
	for _, apart := range []bool{false, true} {
		check(&registration.Options{Plugins: outside(), PerPlugin: apart})
	}
	for _, d := range outside() {
		report := check(&registration.Options{Plugins: named(t, d.Name)})
		if len(d.Resources) > 0 && slices.ContainsFunc(report.Ignored, func(i lint.Ignored) bool {
			return i.ID == "fail-everything"
		}) {
			t.Errorf("%s ignores that it judges everything, and doesn't", d.Name)
		}
	}
}
