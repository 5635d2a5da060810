// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/review/input"
)

// What isn't wanted is left out if its text shows its kind; what may be wanted never is.
func TestWanted(t *testing.T) {
	for _, test := range []struct {
		name, text string
		told       []string // of kinds that aren't wanted, or none
	}{
		{"manifests", "apiVersion: v1\nkind: A\n---\nkind: B\napiVersion: v1\ntext: |\n  kind: A\n", []string{"B"}},
		{"a list in YAML", yamlList, []string{"B", "C"}}, // C is in flow style
		{"a list in JSON", jsonList, []string{"B"}},
		{"lines as of Windows", "apiVersion: v1\r\nkind: A\r\n---\r\napiVersion: v1\r\nkind: B\r\n", []string{"B"}},
		{"a kind in quotes", "apiVersion: v1\nkind: \"B\"\n", []string{"B"}},
		{"a kind with a comment", "apiVersion: v1\nkind: B # not A\n", []string{"B"}},
		{"a kind as an anchor", "apiVersion: v1\nname: &k B\nkind: *k\n", []string{"B"}},
		{"a field in another case", `{"apiVersion": "v1", "kind": "B", "Kind": "A"}`, []string{"B"}},
		{"a list of a kind", "apiVersion: v1\nkind: AList\nitems: [{apiVersion: v1, kind: B}]\n", []string{"B"}},
		{"an unwanted object with errors", "apiVersion: v1\nkind: A\n  : {\n", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			reader := &input.Reader{Stdin: strings.NewReader(test.text),
				Wanted: func(kind schema.GroupVersionKind) bool {
					return kind != schema.FromAPIVersionAndKind("v1", "A") &&
						kind.Kind != "C"
				}}
			var told []string
			err := reader.Each(t.Context(), []string{"-"}, func(d input.Document, problem *input.Error) error {
				if problem != nil {
					t.Error(problem)
					return nil
				}
				told = append(told, d.Object.GetKind())
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.told, told); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whether a part has two kinds isn't guessed: it is read, and is an error.
func TestWantedTwice(t *testing.T) {
	reader := &input.Reader{Stdin: strings.NewReader("apiVersion: v1\nkind: A\nkind: A\n"),
		Wanted: func(schema.GroupVersionKind) bool { return false }}
	problems := 0
	err := reader.Each(t.Context(), []string{"-"}, func(_ input.Document, problem *input.Error) error {
		if problem != nil {
			problems++
		}
		return nil
	})
	if err != nil || problems != 1 {
		t.Errorf("%d problems, error %v", problems, err)
	}
}
