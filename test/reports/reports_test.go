// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reports_test writes reports to a running server, by the definitions that their projects
// publish.
package reports_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/internal/review/policyreport"
	"gatehouse.dev/test/charts"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

// A cluster that has the definitions takes the reports as they are written, and loses nothing.
func TestReports(t *testing.T) {
	needs.NotShort()
	dir := t.TempDir()
	if err := charts.PutReports(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	c := servertest.Start(t)
	kubectl := c.Kubectl(t, "default")
	kubectl.OK("", "create", "--recursive", "--filename="+dir)
	kubectl.OK("", "wait", "--for=condition=Established", "crd", "--all")
	var findings []policyreport.Finding
	for i, result := range []policyreport.Result{policyreport.Pass, policyreport.Fail, policyreport.Warn,
		policyreport.Error, policyreport.Skip} {
		for _, namespace := range []string{"", "default"} {
			findings = append(findings, policyreport.Finding{Policy: "p", Rule: "r", Result: result, Message: "m",
				Time: time.Unix(int64(i), 1), Object: corev1.ObjectReference{APIVersion: "v1", Kind: "K", Name: "n",
					Namespace: namespace}, Properties: map[string]string{"by": "alice"}})
		}
	}
	for format, resources := range map[policyreport.Format]string{
		policyreport.OpenReports:   "reports.openreports.io/audit clusterreports.openreports.io/audit",
		policyreport.PolicyReports: "policyreports.wgpolicyk8s.io/audit clusterpolicyreports.wgpolicyk8s.io/audit",
	} {
		reports, err := policyreport.New(format, "audit", "gatehouse", findings)
		if err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "reports")
		if _, err := policyreport.WriteFiles(out, reports); err != nil {
			t.Fatal(err)
		}
		// Discovery shows them a moment after they are established.
		kinds := strings.ReplaceAll(strings.ReplaceAll(resources, "/audit", ""), " ", ",")
		servertest.Retry(t, kinds+" to be served", func() error {
			if _, stderr, code := kubectl.Run("", "get", kinds); code != 0 {
				return errors.New(stderr)
			}
			return nil
		})
		kubectl.OK("", "create", "--validate=strict", "--filename="+out)
		for _, resource := range strings.Fields(resources) {
			if got := kubectl.OK("", "get", resource,
				"--output=jsonpath={.summary.fail} {.results[4].properties.by} {.results[1].message}"); got != "1 alice m" {
				t.Errorf("%s says %q", resource, got)
			}
		}
	}
}
