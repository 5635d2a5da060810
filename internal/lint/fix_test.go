// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"strings"
	"testing"

	"gatehouse.dev/internal/review/input"
)

const commented = `# what comes before
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: c
webhooks:
# the first one
- name: a.example.com # in its line
  clientConfig:
    service: {namespace: hooks, name: hook}
  rules:
  - operations: [CREATE]
    apiGroups: ["*"]
    apiVersions: ["*"]
    resources: ["*"] # all
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions:
  - v1
  timeoutSeconds: 5

# the second one
- name: b.example.com
  clientConfig: {service: {namespace: hooks, name: hook}}
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
      - hooks # its own
    # nothing more
  rules:
  - operations:
    - CREATE
    apiGroups:
    - networking.k8s.io
    apiVersions:
    - v1
    - v1beta1 # an old one
    resources: [ingresses]
  - {operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 5
---
# another object
apiVersion: v1
kind: ConfigMap
metadata: {name: a} # stays
`

const commentedFixed = `# what comes before
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: c
webhooks:
# the first one
- name: a.example.com # in its line
  clientConfig:
    service: {namespace: hooks, name: hook}
  rules:
  - operations: [CREATE]
    apiGroups: ["*"]
    apiVersions: ["*"]
    resources: ["*"] # all
  failurePolicy: Ignore
  sideEffects: None
  admissionReviewVersions:
  - v1
  timeoutSeconds: 5
`

// The safe patches are written into the text, and everything else stays as it is, comments above all.
func TestFix(t *testing.T) {
	const file = "webhooks.yaml"
	documents, errs := parseText(file, []byte(commented))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	o := Options{Documents: documents, Texts: map[string][]byte{file: []byte(commented)}, Now: now}
	before, err := Check(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := Fix(t.Context(), &o)
	if err != nil {
		t.Fatal(err)
	}
	after, err := Check(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	text := string(fixed.Texts[file])
	for _, f := range after.Findings {
		if f.Safe {
			t.Errorf("not fixed: %s %s: %s", f.ID, f.Source, f.Message)
		}
	}
	if len(fixed.Notes) > 0 || fixed.Count < 4 || len(after.Findings) >= len(before.Findings) {
		t.Errorf("%d fixed, notes %q, %d findings before and %d after", fixed.Count, fixed.Notes, len(before.Findings),
			len(after.Findings))
	}
	rest := text
	for line := range strings.Lines(commented) {
		if strings.Contains(line, "v1beta1") {
			continue // which is removed
		}
		at := strings.Index(rest, line)
		if at < 0 {
			t.Fatalf("%q is gone, or in another place:\n%s", line, text)
		}
		rest = rest[at+len(line):]
	}
	if !strings.HasPrefix(text, commentedFixed) {
		t.Errorf("the first webhook is\n%s", text)
	}
	if !strings.Contains(text, "      - hooks # its own\n      - kube-system\n") {
		t.Errorf("kube-system isn't excluded in\n%s", text)
	}
}

// Text in brackets, in lists and without a last line's end is patched, too.
func TestFixLayouts(t *testing.T) {
	for name, text := range map[string]string{
		"flow":  lockingFlow,
		"list":  "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(lockingFlow), "\n", "\n  ") + "\n",
		"empty": strings.Replace(lockingFlow, "  sideEffects", "  namespaceSelector:\n    {}\n  sideEffects", 1),
		"end":   strings.TrimSuffix(lockingFlow, "\n"),
	} {
		documents, errs := parseText("f", []byte(text))
		if len(errs) > 0 {
			t.Fatalf("%s: %v", name, errs)
		}
		o := Options{Documents: documents, Texts: map[string][]byte{"f": []byte(text)}, Now: now}
		fixed, err := Fix(t.Context(), &o)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		after, err := Check(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if fixed.Count == 0 || len(fixed.Notes) > 0 || after.Summary.Errors > 0 {
			t.Errorf("%s: %d fixed, notes %q, findings %q:\n%s", name, fixed.Count, fixed.Notes, ids(after), o.Texts["f"])
		}
	}
}

// Two documents may have objects of one name: each gets its own changes.
func TestFixSameName(t *testing.T) {
	text := lockingFlow + "---\n" + strings.Replace(lockingFlow, "w.example.com", "other.example.com", 1)
	documents, errs := parseText("f", []byte(text))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	o := Options{Documents: documents, Texts: map[string][]byte{"f": []byte(text)}, Now: now}
	fixed, err := Fix(t.Context(), &o)
	if err != nil {
		t.Fatal(err)
	}
	after, err := Check(t.Context(), o)
	if err != nil || fixed.Count != 4 || len(fixed.Notes) > 0 || len(after.Findings) > 0 {
		t.Errorf("%d fixed, notes %q, findings %q, %v", fixed.Count, fixed.Notes, ids(after), err)
	}
	for part := range strings.SplitSeq(string(fixed.Texts["f"]), "---\n") {
		if strings.Count(part, "kube-system") != 1 || strings.Count(part, "- hooks\n") != 1 {
			t.Errorf("a document is now\n%s", part)
		}
	}
}

// A file may have any number of objects.
func TestFixMany(t *testing.T) {
	const objects = maxRounds/2 + 1
	var text strings.Builder
	for i := range objects {
		text.WriteString(strings.Replace(lockingFlow, "name: c", fmt.Sprintf("name: c%d", i), 1) + "---\n")
	}
	documents, errs := parseText("f", []byte(text.String()))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	o := Options{Documents: documents, Texts: map[string][]byte{"f": []byte(text.String())}, Now: now}
	fixed, err := Fix(t.Context(), &o)
	if err != nil || fixed.Count != 2*objects || len(fixed.Notes) > 0 {
		t.Errorf("%d of %d fixed, notes %q, %v", fixed.Count, 2*objects, fixed.Notes, err)
	}
}

// The patches of a report can be applied one after the other.
func TestPatchesInOrder(t *testing.T) {
	text := strings.NewReplacer("[CREATE]", `["*"]`, `[""]`, `["*"]`, "[v1], resources: [pods]", `["*"], resources: ["*/*"]`).
		Replace(lockingFlow)
	report := check(t, text, nil)
	documents, errs := parseText("f", []byte(text))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	d, n := documents[0], 0
	for i := range report.Findings {
		f := &report.Findings[i]
		patched, err := patchObject(d, f.Patch)
		if err != nil {
			t.Fatalf("%s: %s: %v", f.ID, f.patch(), err)
		}
		d.Object.Object = patched
		n += len(f.Patch)
	}
	after, err := Check(t.Context(), Options{Documents: []input.Document{d}, Now: now})
	if err != nil || n < 6 || strings.Join(ids(after), " ") != "fail-everything" {
		t.Errorf("%d operations, %v, left are %q", n, err, ids(after))
	}
}

// JSON is not changed, and the note says so.
func TestFixJSON(t *testing.T) {
	documents, errs := parseText("f", []byte(lockingJSON))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	o := Options{Documents: documents, Texts: map[string][]byte{"f": []byte(lockingJSON)}, Now: now}
	fixed, err := Fix(t.Context(), &o)
	if err != nil || fixed.Count > 0 || len(fixed.Texts) > 0 || len(fixed.Notes) != 2 ||
		!strings.Contains(fixed.Notes[0], "isn't fixed: an object in JSON") {
		t.Errorf("got %+v, %v", fixed, err)
	}
}

const (
	lockingFlow = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: c}
webhooks:
- name: w.example.com
  clientConfig: {service: {namespace: hooks, name: hook}}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 5
`
	lockingJSON = `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
  "metadata": {"name": "c"}, "webhooks": [{"name": "w.example.com",
    "clientConfig": {"service": {"namespace": "hooks", "name": "hook"}}, "sideEffects": "None",
    "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
    "admissionReviewVersions": ["v1"], "timeoutSeconds": 5}]}
`
)
