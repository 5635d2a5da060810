// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policyreport_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/internal/review/policyreport"
)

var findings = []policyreport.Finding{
	{Policy: "replicas", Rule: "at most 3", Result: policyreport.Fail, Message: "at most 3", Time: time.Unix(1, 2),
		Object:     corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"},
		Properties: map[string]string{"operation": "CREATE"}},
	{Policy: "zones", Result: policyreport.Error, Message: "no such key: zone", Time: time.Unix(1, 0),
		Object: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "a"}},
	{Policy: "replicas", Result: policyreport.Warn, Time: time.Unix(3, 0),
		Object: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "big"}},
}

const written = `---
apiVersion: openreports.io/v1alpha1
kind: ClusterReport
metadata:
  labels:
    app.kubernetes.io/managed-by: gatehouse
  name: audit
results:
- message: 'no such key: zone'
  policy: zones
  resources:
  - apiVersion: v1
    kind: Node
    name: a
  result: error
  scored: true
  source: gatehouse
  timestamp:
    nanos: 0
    seconds: 1
source: gatehouse
summary:
  error: 1
  fail: 0
  pass: 0
  skip: 0
  warn: 0
---
apiVersion: openreports.io/v1alpha1
kind: Report
metadata:
  labels:
    app.kubernetes.io/managed-by: gatehouse
  name: audit
  namespace: shop
results:
- message: at most 3
  policy: replicas
  properties:
    operation: CREATE
  resources:
  - apiVersion: apps/v1
    kind: Deployment
    name: web
    namespace: shop
  result: fail
  rule: at most 3
  scored: true
  source: gatehouse
  timestamp:
    nanos: 2
    seconds: 1
- policy: replicas
  resources:
  - apiVersion: apps/v1
    kind: Deployment
    name: big
    namespace: shop
  result: warn
  scored: false
  source: gatehouse
  timestamp:
    nanos: 0
    seconds: 3
source: gatehouse
summary:
  error: 0
  fail: 1
  pass: 0
  skip: 0
  warn: 1
`

func TestWrite(t *testing.T) {
	reports, err := policyreport.New(policyreport.OpenReports, "audit", "gatehouse", findings)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := policyreport.Write(&got, reports); err != nil {
		t.Fatal(err)
	}
	if got.String() != written {
		t.Errorf("got\n%s\nwant\n%s", got.String(), written)
	}
}

func TestWriteFiles(t *testing.T) {
	reports, err := policyreport.New(policyreport.PolicyReports, "audit", "gatehouse", findings)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "reports")
	if _, err := policyreport.WriteFiles(dir, reports); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v, and %v", f.Name(), info.Mode(), err)
		}
	}
	if want := []string{"ClusterPolicyReport.yaml", "PolicyReport-shop.yaml"}; !slices.Equal(names, want) {
		t.Errorf("the files are %q, want %q", names, want)
	}
	if _, err := policyreport.WriteFiles(filepath.Join(dir, names[0]), reports); err == nil {
		t.Error("reports are written into a file as if it were a directory")
	}
}

func TestUnknownFormat(t *testing.T) {
	_, err := policyreport.New("html", "audit", "gatehouse", findings)
	if err == nil || !strings.Contains(err.Error(), `"html"`) {
		t.Errorf("the error is %v", err)
	}
}
