package suite

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/internal/review/input"
)

// row is a case, or a row of a table with what it has from the case above it.
type row struct {
	Case
	set []setting
}

// caseFields are the fields of a case, or of a row of a table.
type caseFields struct {
	Name                   string
	State, Before          []yaml.Node
	File                   *string
	Object, Set, Expect    yaml.Node
	Operation, Subresource *string
	As                     *User
	Table                  []yaml.Node
}

// setting is a field that is set, at a node.
type setting struct {
	at    *yaml.Node
	path  string
	value any
}

// cases reads a case, or a row of the table of another, and adds it to the suite, or the rows of
// its own table.
func (r *reader) cases(n *yaml.Node, path string, above row, s *Suite) {
	c, said, before := above, caseFields{}, len(r.errs)
	n = r.resolve(n)
	c.Source = input.Source{File: r.file, Line: n.Line}
	r.decode(n, &said, path)
	if said.State != nil {
		c.State = r.documents(said.State, path+".state")
	}
	if said.Before != nil {
		c.Before = r.documents(said.Before, path+".before")
	}
	if !said.Object.IsZero() {
		c.Object = r.object(&said.Object, path+".object")
	}
	if said.File != nil && *said.File != "" {
		c.Object = r.one(below(n, "file"), path+".file", *said.File)
	}
	if !said.Set.IsZero() {
		c.set = append(slices.Clip(c.set), r.settings(&said.Set, path+".set")...)
	}
	if said.Operation != nil {
		c.Operation = *said.Operation
		r.oneOf(below(n, "operation"), path+".operation", c.Operation, Operations)
	}
	if said.Subresource != nil {
		c.Subresource = *said.Subresource
	}
	if said.As != nil {
		c.As = said.As
		r.user(below(n, "as"), path+".as", c.As)
	}
	if !said.Expect.IsZero() {
		r.expect(&said.Expect, path+".expect", &c.Expect)
	}
	if !said.Object.IsZero() && said.File != nil {
		r.wrong(n, "%s: file and object: only one can be given", path)
	}
	if len(r.errs) > before {
		return
	}
	switch {
	case said.Name == "":
		r.wrong(n, "%s.name: Required value", path)
		return
	case strings.ContainsAny(said.Name, "/\n"):
		r.wrong(n, "%s.name: Invalid value: %q: it may have neither a slash nor a line break", path, said.Name)
		return
	}
	if c.Name = said.Name; above.Name != "" {
		c.Name = above.Name + "/" + said.Name
	}
	if at, ok := r.names[c.Name]; ok {
		r.wrong(n, "%s.name: %q is the name of the case at line %d, too", path, said.Name, at)
		return
	}
	r.names[c.Name] = n.Line
	if said.Table != nil {
		if len(said.Table) == 0 {
			r.wrong(below(n, "table"), "%s.table: a table needs a row", path)
		}
		for i := range said.Table {
			r.cases(&said.Table[i], fmt.Sprintf("%s.table[%d]", path, i), c, s)
		}
		return
	}
	r.finish(n, path, &c, s)
}

// finish adds a case that has no table.
func (r *reader) finish(n *yaml.Node, path string, c *row, s *Suite) {
	if c.Object == nil {
		r.wrong(n, "%s: file or object: Required value", path)
		return
	}
	if c.Expect.Verdict == "" {
		r.wrong(n, "%s.expect.verdict: Required value: Admitted or Refused", path)
		return
	}
	if e := &c.Expect; e.Verdict == admitted && (e.By != "" || e.Text != "" || e.Matches != nil) {
		r.wrong(n, "%s.expect: by, message and matches are of a refusal, and the verdict is to be Admitted", path)
		return
	}
	if e := &c.Expect; e.Verdict == refused && (e.Object != nil || e.Pods != nil) {
		r.wrong(n, "%s.expect: object and pods are of what is admitted, and the verdict is to be Refused", path)
		return
	}
	c.Object = &unstructured.Unstructured{Object: c.Object.DeepCopy().Object}
	for _, s := range c.set {
		if err := set(c.Object.Object, s.path, s.value); err != nil {
			r.wrong(s.at, "%s.set: %s: %v", path, s.path, err)
			return
		}
	}
	s.Cases = append(s.Cases, c.Case)
}

// settings returns the fields that a case sets in its object, in order.
func (r *reader) settings(n *yaml.Node, path string) []setting {
	if n = r.resolve(n); n.Kind != yaml.MappingNode {
		r.wrong(n, "%s: it is %s, and must be a mapping of fields' paths to their values", path, described(n))
		return nil
	}
	var all []setting
	for _, m := range r.members(n) {
		all = append(all, setting{m.key, m.key.Value, r.value(m.value)})
	}
	return all
}

// user notes what is wrong with a user.
func (r *reader) user(n *yaml.Node, path string, u *User) {
	namespace, name, ok := strings.Cut(u.ServiceAccount, "/")
	switch {
	case u.ServiceAccount == "" && u.Name == "":
		r.wrong(n, "%s: user or serviceAccount: Required value", path)
	case u.ServiceAccount != "" && (u.Name != "" || u.Groups != nil):
		r.wrong(n, "%s: a serviceAccount has its own name and groups: user and groups can't be given", path)
	case u.ServiceAccount != "" && (!ok || namespace == "" || name == ""):
		r.wrong(n, "%s.serviceAccount: %q is not namespace/name", path, u.ServiceAccount)
	}
}

// The verdicts.
const (
	admitted = "Admitted"
	refused  = "Refused"
)

// expect reads what is expected, into what the case above expects. A verdict begins anew.
func (r *reader) expect(n *yaml.Node, path string, e *Expect) {
	var given struct{ Verdict *string }
	if _ = n.Decode(&given); given.Verdict != nil {
		*e = Expect{}
	}
	var said struct {
		Expect `yaml:",inline"`
		Object yaml.Node
	}
	said.Expect = *e
	said.Pods, said.Matches = nil, nil // those of the case above stay as they are
	r.decode(n, &said, path)
	said.Pods, said.Matches = cmp.Or(said.Pods, e.Pods), cmp.Or(said.Matches, e.Matches)
	if *e = said.Expect; given.Verdict != nil {
		r.oneOf(below(n, "verdict"), path+".verdict", e.Verdict, []string{admitted, refused})
	}
	if !said.Object.IsZero() {
		e.Object = r.mapping(&said.Object, path+".object")
		e.at = &place{r.resolve(&said.Object), r.within}
	}
}
