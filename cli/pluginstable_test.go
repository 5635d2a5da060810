// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/plugin"
)

func TestRows(t *testing.T) {
	list := []plugin.Descriptor{
		{Name: "A", Phases: plugin.Mutating, Default: true, Summary: "Does a."},
		{Name: "B", Phases: plugin.Mutating | plugin.Validating, Summary: "Does b."},
		{Name: "C", Phases: plugin.Validating, Default: true, Summary: "Does c.", Deprecated: "use D"},
	}
	for i := range list {
		list[i].New = func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return nil, nil }
	}
	list[0].Operations = []admission.Operation{admission.Create, admission.Delete}
	list[0].Resources = slices.Concat(plugin.On(schema.GroupResource{Resource: "pods"}, "", "resize"),
		plugin.On(schema.GroupResource{Group: "batch", Resource: "jobs"}))
	list[0].Server.Only = "it can't."
	list[1].Access = []rbacv1.PolicyRule{plugin.To("list watch", "", "pods", "nodes"),
		plugin.To("update", "quota.example.com", "quotas/status")}
	rows, err := Rows(list, &config.Options{Enable: []string{"B"}, Disable: []string{"A"}})
	if err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]string{
		"": `NAME   PHASES                DEFAULT   ENABLED   SUMMARY
A      mutating              true      false     Does a.
B      mutating,validating   false     true      Does b.
C      validating            true      true      (deprecated) Does c.
`,
		"wide": `A
  summary     Does a.
  phases      mutating
  enabled     false (default true)
  operations  create,delete
  resources   pods,pods/resize,jobs.batch
  outside     no: it can't.
  access      -
B
  summary     Does b.
  phases      mutating,validating
  enabled     true (default false)
  operations  *
  resources   *
  outside     yes
  access      list,watch pods,nodes; update quotas.quota.example.com/status
C
  summary     Does c.
  phases      validating
  enabled     true (default true), deprecated
  operations  *
  resources   *
  outside     yes
  access      none
`,
		"json": `[
  {
    "name": "A",
    "phases": [
      "mutating"
    ],
    "default": true,
    "enabled": false,
    "deprecated": false,
    "summary": "Does a.",
    "operations": [
      "create",
      "delete"
    ],
    "resources": [
      "pods",
      "pods/resize",
      "jobs.batch"
    ],
    "outside": "it can't."
  },
  {
    "name": "B",
    "phases": [
      "mutating",
      "validating"
    ],
    "default": false,
    "enabled": true,
    "deprecated": false,
    "summary": "Does b.",
    "operations": [
      "*"
    ],
    "resources": [
      "*"
    ],
    "access": [
      "list,watch pods,nodes",
      "update quotas.quota.example.com/status"
    ]
  },
  {
    "name": "C",
    "phases": [
      "validating"
    ],
    "default": true,
    "enabled": true,
    "deprecated": true,
    "summary": "Does c.",
    "operations": [
      "*"
    ],
    "resources": [
      "*"
    ]
  }
]
`,
		"yaml": `- default: true
  deprecated: false
  enabled: false
  name: A
  operations:
  - create
  - delete
  outside: it can't.
  phases:
  - mutating
  resources:
  - pods
  - pods/resize
  - jobs.batch
  summary: Does a.
- access:
  - list,watch pods,nodes
  - update quotas.quota.example.com/status
  default: false
  deprecated: false
  enabled: true
  name: B
  operations:
  - '*'
  phases:
  - mutating
  - validating
  resources:
  - '*'
  summary: Does b.
- default: true
  deprecated: true
  enabled: true
  name: C
  operations:
  - '*'
  phases:
  - validating
  resources:
  - '*'
  summary: Does c.
`,
	} {
		var out strings.Builder
		if err := PrintRows(&out, rows, format); err != nil {
			t.Error(err)
		}
		if out.String() != want {
			t.Errorf("as %q printed\n%s\nwant\n%s", format, &out, want)
		}
	}
	wantError(t, PrintRows(&strings.Builder{}, rows, "xml"),
		`unknown output format "xml": must be json, yaml or wide, or left out for a table`)
	_, err = Rows(nil, &config.Options{Enable: []string{"X"}})
	wantError(t, err, `enable-admission-plugins plugin "X" is unknown`)
}

func TestNoRows(t *testing.T) {
	rows, err := Rows(nil, &config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]string{"json": "[]\n", "yaml": "[]\n",
		"": "NAME   PHASES   DEFAULT   ENABLED   SUMMARY\n"} {
		var out strings.Builder
		if err := PrintRows(&out, rows, format); err != nil || out.String() != want {
			t.Errorf("as %q printed %q (%v), want %q", format, &out, err, want)
		}
	}
}

// A cell that is too wide goes on in the next line, below its beginning.
func TestWideRows(t *testing.T) {
	word := strings.Repeat("a", 20)
	row := Row{Name: "A", Phases: []string{"mutating"},
		Summary:   strings.Join([]string{word, word, word, word, word}, " "),
		Resources: []string{word, word, word, word, word, word}}
	for format, want := range map[string]string{
		"": "A      mutating   false     false     " + strings.Join([]string{word, word, word}, " ") + "\n" +
			strings.Repeat(" ", 38) + word + " " + word + "\n",
		"wide": "  resources   " + strings.Join([]string{word, word, word, word, word}, ",") + ",\n" +
			strings.Repeat(" ", 14) + word + "\n",
	} {
		var out strings.Builder
		if err := PrintRows(&out, []Row{row}, format); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("as %q printed (%v)\n%s\nwant\n%s", format, err, &out, want)
		}
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("error is\n\t%v\nwant\n\t%s", err, want)
	}
}
