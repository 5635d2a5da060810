// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

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

// caseRow is a case, or a row of a table with the fields that it inherits from the case above it.
type caseRow struct {
	Case
	set []setting
	// input is the path of the celtest input that Object is; empty if Object is an object.
	input string
}

// caseFields are the fields of a case, or of a row of a table.
type caseFields struct {
	// Name is the name of the case, or of the row.
	//
	//schema:required
	//schema:pattern "^[^/\n]+$"
	Name string
	// State is what is there in addition to the suite's state: objects, and paths of files and folders with
	// objects.
	//
	//schema:items {"anyOf": [{"type": "string"}, {"$ref": "#/definitions/object"}]}
	State []yaml.Node
	// Before are objects that an administrator writes before, and that must be admitted.
	//
	//schema:items {"anyOf": [{"type": "string"}, {"$ref": "#/definitions/object"}]}
	Before []yaml.Node
	// File is the path of a file with the one object that is written.
	//
	//schema:minLength 1
	File *string
	// Object is the object that is written.
	//
	//schema:allOf [{"$ref": "#/definitions/object"}]
	Object yaml.Node
	// Input is the path of an input file of celtest, Kubernetes' own tester of policies, in place of the object.
	//
	//schema:minLength 1
	Input *string
	// Set are fields of the object by their paths, such as spec.containers[0].image, with their values; null
	// removes a field.
	//
	//schema:type "object"
	Set yaml.Node
	// Expect is the expected result. That of a row is added to that of its case, unless the row has a verdict.
	//
	//schema:allOf [{"$ref": "#/definitions/expect"}]
	Expect yaml.Node
	// Operation is the operation. By default an existing object is updated as by kubectl apply, and any
	// other one is created.
	//
	//schema:enum ["create", "update", "apply", "delete", "connect"]
	Operation *string
	// Subresource is the subresource that the object is sent to, such as scale.
	Subresource *string
	// As is the user who writes the object; by default an administrator.
	//
	//schema:anyOf [{"required": ["user"], "not": {"required": ["serviceAccount"]}}, {"required": ["serviceAccount"], "not": {"anyOf": [{"required": ["user"]}, {"required": ["groups"]}]}}]
	As *User
	// Table are rows: cases that have the fields of this one, except for the fields that they have
	// themselves.
	//
	//schema:minItems 1
	//schema:items {"$ref": "#/definitions/row"}
	Table []yaml.Node
}

// setting is a field to set in the object, with its node.
type setting struct {
	at    *yaml.Node
	path  string
	value any
}

// readCase reads a case, or a row of a case's table. It adds it to the suite, or the rows of its own
// table if it has one.
func (r *reader) readCase(n *yaml.Node, path string, above caseRow, s *Suite) {
	c, fields, before := above, caseFields{}, len(r.errs)
	n = r.resolve(n)
	c.Source = input.Source{File: r.file, Line: n.Line}
	r.decode(n, &fields, path)
	if fields.State != nil {
		c.State = r.readDocuments(fields.State, path+".state")
	}
	if fields.Before != nil {
		c.Before = r.readDocuments(fields.Before, path+".before")
	}
	if !fields.Object.IsZero() {
		c.Object, c.input = r.readObject(&fields.Object, path+".object"), ""
	}
	if fields.File != nil && *fields.File != "" {
		c.Object, c.input = r.readOne(fieldNode(n, "file"), path+".file", *fields.File), ""
	}
	if fields.Input != nil && *fields.Input != "" {
		c.input = r.resolvePath(*fields.Input)
		c.Object = r.readInput(fieldNode(n, "input"), path+".input", c.input)
	}
	if !fields.Set.IsZero() {
		c.set = append(slices.Clip(c.set), r.readSettings(&fields.Set, path+".set")...)
	}
	if fields.Operation != nil {
		c.Operation = *fields.Operation
		r.checkOneOf(fieldNode(n, "operation"), path+".operation", c.Operation, Operations)
	}
	if fields.Subresource != nil {
		c.Subresource = *fields.Subresource
	}
	if fields.As != nil {
		c.As = fields.As
		r.checkUser(fieldNode(n, "as"), path+".as", c.As)
	}
	if !fields.Expect.IsZero() {
		r.readExpect(&fields.Expect, path+".expect", &c.Expect)
	}
	if !fields.Object.IsZero() && fields.File != nil {
		r.addError(n, "%s: file and object: only one can be given", path)
	}
	if fields.Input != nil && (fields.File != nil || !fields.Object.IsZero()) {
		r.addError(n, "%s: input and object or file: only one can be given", path)
	}
	if len(r.errs) > before {
		return
	}
	switch {
	case fields.Name == "":
		r.addError(n, "%s.name: Required value", path)
		return
	case len(fields.Name) > maxName:
		r.addError(n, "%s.name: it has %d bytes, and at most %d are allowed", path, len(fields.Name), maxName)
		return
	case strings.ContainsAny(fields.Name, "/\n"):
		r.addError(n, "%s.name: Invalid value: %q: it may have neither a slash nor a line break", path, fields.Name)
		return
	}
	if c.Name = fields.Name; above.Name != "" {
		c.Name = above.Name + "/" + fields.Name
	}
	if at, ok := r.names[c.Name]; ok {
		r.addError(n, "%s.name: Duplicate value: %q: the case at line %d has this name", path, fields.Name, at)
		return
	}
	r.names[c.Name] = n.Line
	if fields.Table != nil {
		if len(fields.Table) == 0 {
			r.addError(fieldNode(n, "table"), "%s.table: a table needs a row", path)
		}
		for i := range fields.Table {
			r.readCase(&fields.Table[i], fmt.Sprintf("%s.table[%d]", path, i), c, s)
		}
		return
	}
	r.finish(n, path, &c, s)
}

// maxName is the number of bytes that the name of a case may have. Reports repeat it.
const maxName = 1 << 10

// finish checks a case that has no table, and adds it to the suite.
func (r *reader) finish(n *yaml.Node, path string, c *caseRow, s *Suite) {
	if c.Object == nil {
		r.addError(n, "%s: object, file or input: Required value", path)
		return
	}
	if c.Expect.Verdict == "" {
		r.addError(n, "%s.expect.verdict: Required value: Admitted or Refused", path)
		return
	}
	if e := &c.Expect; e.Verdict == admitted && (e.By != "" || e.Text != "" || e.Matches != nil) {
		r.addError(n, "%s.expect: by, message and matches are for verdict Refused, and it is Admitted: remove them", path)
		return
	}
	if e := &c.Expect; e.Verdict == refused && (e.Object != nil || e.Pods != nil) {
		r.addError(n, "%s.expect: object and pods are for verdict Admitted, and it is Refused: remove them", path)
		return
	}
	c.Object = &unstructured.Unstructured{Object: c.Object.DeepCopy().Object}
	for _, s := range c.set {
		if err := setField(c.Object.Object, s.path, s.value); err != nil {
			r.addError(s.at, "%s.set: %s: %v", path, s.path, err)
			return
		}
	}
	if err := input.CheckBounds(c.Object); err != nil {
		r.addError(n, "%s.object: %w", path, err)
		return
	}
	if c.input != "" {
		if err := c.convertInput(); err != nil {
			r.addError(n, "%s.input: %s: %w", path, c.input, err)
			return
		}
	}
	s.Cases = append(s.Cases, c.Case)
}

// readSettings reads the fields that a case sets in its object, in order.
func (r *reader) readSettings(n *yaml.Node, path string) []setting {
	if n = r.resolve(n); n.Kind != yaml.MappingNode {
		r.addError(n, "%s: it is %s, and must be a mapping of fields' paths to their values", path, describe(n))
		return nil
	}
	var all []setting
	for _, m := range r.members(n) {
		all = append(all, setting{m.key, m.key.Value, r.value(m.value)})
	}
	return all
}

// checkUser adds an error if a user is wrong.
func (r *reader) checkUser(n *yaml.Node, path string, u *User) {
	namespace, name, ok := strings.Cut(u.ServiceAccount, "/")
	switch {
	case u.ServiceAccount == "" && u.Name == "":
		r.addError(n, "%s: user or serviceAccount: Required value", path)
	case u.ServiceAccount != "" && (u.Name != "" || u.Groups != nil):
		r.addError(n, "%s: a serviceAccount has its own name and groups: user and groups can't be given", path)
	case u.ServiceAccount != "" && (!ok || namespace == "" || name == ""):
		r.addError(n, "%s.serviceAccount: %q is not namespace/name", path, u.ServiceAccount)
	}
}

// The verdicts.
const (
	admitted = "Admitted"
	refused  = "Refused"
)

// readExpect reads the expected result into that of the case above. A verdict discards the latter.
func (r *reader) readExpect(n *yaml.Node, path string, e *Expect) {
	var verdict struct{ Verdict *string }
	if _ = n.Decode(&verdict); verdict.Verdict != nil {
		*e = Expect{}
	}
	var fields struct {
		Expect `yaml:",inline"`
		Object yaml.Node
	}
	fields.Expect = *e
	fields.Pods, fields.Matches = nil, nil // those of the case above stay as they are
	r.decode(n, &fields, path)
	fields.Pods, fields.Matches = cmp.Or(fields.Pods, e.Pods), cmp.Or(fields.Matches, e.Matches)
	if *e = fields.Expect; verdict.Verdict != nil {
		r.checkOneOf(fieldNode(n, "verdict"), path+".verdict", e.Verdict, []string{admitted, refused})
	}
	if !fields.Object.IsZero() {
		e.Object = r.mapping(&fields.Object, path+".object")
		e.at = &position{r.resolve(&fields.Object), r.within}
	}
}
