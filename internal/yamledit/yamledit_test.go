// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package yamledit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// What isn't changed stays as it is written, in the same document and in others.
func TestEdit(t *testing.T) {
	const before = `# The first.
a: {b:   1}   # oddly written

list:
- one # 1

# Before two.
- two

end: "x"
--- # another
a: {b:   1}
list: [one, two]
---
---
a: 1
list:
    - one
`
	for name, tt := range map[string]struct {
		line   int
		change func(*yaml.RNode) error
		want   string
	}{
		"append": {2, func(n *yaml.RNode) error {
			_, err := n.Pipe(yaml.Lookup("list"), yaml.Append(yaml.NewStringRNode("three").YNode()))
			return err
		}, `# The first.
a: {b:   1}   # oddly written

list:
- one # 1

# Before two.
- two
- three

end: "x"
`},
		"replace and add": {2, func(n *yaml.RNode) error {
			if err := n.PipeE(yaml.SetField("end", yaml.NewStringRNode("y"))); err != nil {
				return err
			}
			return n.PipeE(yaml.SetField("more", yaml.MustParse("{c: d}")))
		}, `# The first.
a: {b:   1}   # oddly written

list:
- one # 1

# Before two.
- two

end: "y"
more: {c: d}
`},
		"remove": {2, func(n *yaml.RNode) error { return n.PipeE(yaml.Clear("list")) }, `# The first.
a: {b:   1}   # oddly written


end: "x"
`},
		"nothing": {2, func(*yaml.RNode) error { return nil }, before[:len(before)-len(rest)]},
	} {
		got, err := Edit(before, func(d *Document) error {
			if n := d.At(tt.line, 0); n != nil {
				return tt.change(n)
			}
			return nil
		})
		if diff := cmp.Diff(tt.want+rest, got); err != nil || diff != "" {
			t.Errorf("%s: %v, -want +got:\n%s", name, err, diff)
		}
	}
	got, err := Edit("a: 1\n---\n\n# b\nb: [1,  2]\n---\nc: x", func(d *Document) error {
		if d.At(1, 0) != nil || d.At(7, 1) == nil {
			return nil
		}
		return d.Root.PipeE(yaml.SetField("c", yaml.NewStringRNode("z")))
	})
	if want := "a: 1\n---\n\n# b\nb: [1,  2]\n---\nc: z\n"; got != want || err != nil {
		t.Errorf("the last document: %q, %v", got, err)
	}
	if _, err := Edit("a: [", func(*Document) error { return nil }); err == nil {
		t.Error("what can't be parsed is no error")
	}
}

func TestAround(t *testing.T) {
	const text = "a: 1\n---\nb: 2\nc: 3\n---\nd: 4"
	for line, want := range map[int][3]string{
		1: {"", "a: 1\n", "---\nb: 2\nc: 3\n---\nd: 4"},
		4: {"a: 1\n---\n", "b: 2\nc: 3\n", "---\nd: 4"},
		6: {"a: 1\n---\nb: 2\nc: 3\n---\n", "d: 4", ""},
	} {
		before, document, behind := Around(text, line)
		if got := [3]string{before, document, behind}; got != want {
			t.Errorf("line %d: %q", line, got)
		}
	}
}

const rest = `--- # another
a: {b:   1}
list: [one, two]
---
---
a: 1
list:
    - one
`
