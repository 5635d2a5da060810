package suite

import (
	"maps"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/internal/review/input"
)

// row is what a case says, or a row of a table, with what it has from the case above it.
type row struct {
	Case
	// named is its name alone, of is the object before anything is set.
	named string
	set   []setting
	table *yaml.Node
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
	c := above
	c.named, c.table = "", nil
	n = r.resolve(n)
	c.Source = input.Source{File: r.file, Line: n.Line}
	before := len(r.errs)
	r.fields(n, path, map[string]func(*yaml.Node){
		"name":   r.text(path+".name", &c.named),
		"state":  r.documents(path+".state", &c.State),
		"before": r.documents(path+".before", &c.Before),
		"file": func(n *yaml.Node) {
			var name string
			if r.text(path+".file", &name)(n); name != "" {
				c.Object = r.one(r.resolve(n), path+".file", name)
			}
		},
		"object": func(n *yaml.Node) { c.Object = r.object(n, path+".object") },
		"set":    func(n *yaml.Node) { c.set = append(c.set[:len(c.set):len(c.set)], r.settings(n, path+".set")...) },
		"operation": func(n *yaml.Node) {
			r.text(path+".operation", &c.Operation)(n)
			r.oneOf(r.resolve(n), path+".operation", c.Operation, Operations)
		},
		"subresource": r.text(path+".subresource", &c.Subresource),
		"as":          func(n *yaml.Node) { c.As = r.user(n, path+".as") },
		"expect":      func(n *yaml.Node) { r.expect(n, path+".expect", &c.Expect) },
		"table":       func(n *yaml.Node) { c.table = n },
	})
	r.once(n, path)
	if len(r.errs) > before {
		return
	}
	switch {
	case c.named == "":
		r.wrong(n, "%s.name: Required value", path)
		return
	case strings.ContainsAny(c.named, "/\n"):
		r.wrong(n, "%s.name: Invalid value: %q: it may have neither a slash nor a line break", path, c.named)
		return
	}
	if c.Name = c.named; above.Name != "" {
		c.Name = above.Name + "/" + c.named
	}
	if at, ok := r.names[c.Name]; ok {
		r.wrong(n, "%s.name: %q is the name of the case at line %d, too", path, c.named, at)
		return
	}
	r.names[c.Name] = n.Line
	if c.table != nil {
		if len(r.resolve(c.table).Content) == 0 {
			r.wrong(c.table, "%s.table: a table needs a row", path)
		}
		r.list(c.table, path+".table", func(item *yaml.Node, path string) { r.cases(item, path, c, s) })
		return
	}
	r.finish(n, path, &c, s)
}

// once notes what says the same thing twice.
func (r *reader) once(n *yaml.Node, path string) {
	has := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		has[n.Content[i].Value] = true
	}
	if has["file"] && has["object"] {
		r.wrong(n, "%s: file and object: only one can be given", path)
	}
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

// settings are the fields that a case sets in its object, in order.
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

func (r *reader) user(n *yaml.Node, path string) *User {
	u := &User{}
	r.fields(n, path, map[string]func(*yaml.Node){
		"user":           r.text(path+".user", &u.Name),
		"groups":         r.texts(path+".groups", &u.Groups),
		"serviceAccount": r.text(path+".serviceAccount", &u.ServiceAccount),
	})
	namespace, name, ok := strings.Cut(u.ServiceAccount, "/")
	switch {
	case u.ServiceAccount == "" && u.Name == "":
		r.wrong(n, "%s: user or serviceAccount: Required value", path)
	case u.ServiceAccount != "" && (u.Name != "" || u.Groups != nil):
		r.wrong(n, "%s: a serviceAccount has its own name and groups: user and groups can't be given", path)
	case u.ServiceAccount != "" && (!ok || namespace == "" || name == ""):
		r.wrong(n, "%s.serviceAccount: %q is not namespace/name", path, u.ServiceAccount)
	}
	return u
}

// The verdicts.
const (
	admitted = "Admitted"
	refused  = "Refused"
)

// expect reads what is expected, into what the case above expects. A verdict begins anew.
func (r *reader) expect(n *yaml.Node, path string, e *Expect) {
	for _, m := range r.members(r.resolve(n)) {
		if m.key.Value == "verdict" {
			*e = Expect{}
		}
	}
	known := r.message(path, &e.Message)
	maps.Copy(known, map[string]func(*yaml.Node){
		"verdict": func(n *yaml.Node) {
			r.text(path+".verdict", &e.Verdict)(n)
			r.oneOf(r.resolve(n), path+".verdict", e.Verdict, []string{admitted, refused})
		},
		"object": func(n *yaml.Node) {
			e.Object = r.mapping(n, path+".object")
			e.at = &place{r.resolve(n), r.within}
		},
		"warnings": r.texts(path+".warnings", &e.Warnings),
		"webhooks": r.texts(path+".webhooks", &e.Webhooks),
		"pods": func(n *yaml.Node) {
			e.Pods = &Pods{}
			known := r.message(path+".pods", &e.Pods.Message)
			known["wanted"] = r.number(path+".pods.wanted", &e.Pods.Wanted)
			known["admitted"] = r.number(path+".pods.admitted", &e.Pods.Admitted)
			r.fields(n, path+".pods", known)
		},
	})
	r.fields(n, path, known)
}

// message are the fields of what a refusal says.
func (r *reader) message(path string, m *Message) map[string]func(*yaml.Node) {
	return map[string]func(*yaml.Node){
		"by":      r.text(path+".by", &m.By),
		"message": r.text(path+".message", &m.Text),
		"error":   r.text(path+".error", &m.Error),
		"matches": func(n *yaml.Node) {
			var expression string
			r.text(path+".matches", &expression)(n)
			var err error
			if m.Matches, err = regexp.Compile(expression); err != nil {
				r.wrong(r.resolve(n), "%s.matches: %v", path, err)
			}
		},
	}
}
