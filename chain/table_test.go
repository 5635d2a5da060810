package chain

import (
	"strings"
	"testing"
)

func TestRows(t *testing.T) {
	rows, err := Rows(optionList()[:3], &Options{Enable: []string{"B"}, Disable: []string{"A"}})
	if err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]string{
		"": `NAME   PHASES                DEFAULT   ENABLED   SUMMARY
A      mutating              true      false     Does a.
B      mutating,validating   false     true      Does b.
C      validating            true      true      (deprecated) Does c.
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
    "summary": "Does a."
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
    "summary": "Does b."
  },
  {
    "name": "C",
    "phases": [
      "validating"
    ],
    "default": true,
    "enabled": true,
    "deprecated": true,
    "summary": "Does c."
  }
]
`,
		"yaml": `- default: true
  deprecated: false
  enabled: false
  name: A
  phases:
  - mutating
  summary: Does a.
- default: false
  deprecated: false
  enabled: true
  name: B
  phases:
  - mutating
  - validating
  summary: Does b.
- default: true
  deprecated: true
  enabled: true
  name: C
  phases:
  - validating
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
		`unknown output format "xml": must be json or yaml, or left out for a table`)
	_, err = Rows(optionList(), &Options{Enable: []string{"X"}})
	wantError(t, err, `enable-admission-plugins plugin "X" is unknown`)
}

func TestNoRows(t *testing.T) {
	rows, err := Rows(nil, &Options{})
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
