// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cases writes suites of tests from recorded requests, so that a team can keep real requests as
// tests. A report of a replay chooses the requests and says what to expect of each; the recorded log that
// it names has the requests themselves.
package cases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/impact"
	"gatehouse.dev/internal/review/recorded"
	"gatehouse.dev/internal/review/suite"
)

// Options say which requests become cases.
type Options struct {
	// Run chooses results by what Describe returns; nil for all.
	Run *regexp.Regexp
	// Redact replaces users, names, namespaces, images and labels' values.
	Redact bool
	// State are paths that the suite's state has.
	State []string
}

// maxSuite bounds a suite: gatehouse test reads no larger one.
const maxSuite = 16 << 20

// Describe returns the text by which a result is chosen: its operation, object, user and policies.
func Describe(r *impact.Result) string {
	text := r.Request.Operation + " " + r.Object.String() + " " + r.Request.User.Username
	for _, p := range r.Policies {
		text += " " + p.String()
	}
	return text
}

// A left counts results that became no case, by reason.
type left map[string]int

// notes returns a line for each reason.
func (l left) notes() []string {
	var notes []string
	for _, reason := range slices.Sorted(maps.Keys(l)) {
		notes = append(notes, fmt.Sprintf("left out %d: %s", l[reason], reason))
	}
	return notes
}

// place names a recorded request. The deletion of a collection has several in a line.
type place struct {
	recorded.Source
	object string
}

// Write writes a suite of the chosen results of a report to out. The notes say which were left out, and
// why. It is an error if none is left.
func Write(ctx context.Context, out io.Writer, report string, o Options) (notes []string, err error) {
	left := left{}
	chosen, files, err := choose(report, o, left)
	if err != nil {
		return nil, err
	}
	b := &builder{options: o, left: left, namespaces: map[string]bool{}, redactor: newRedactor()}
	if err := b.read(ctx, files, chosen); err != nil {
		return nil, err
	}
	for range chosen {
		left["the log doesn't have the request any more"]++
	}
	if len(b.cases) == 0 {
		return left.notes(), errors.New("no request is left to make a case of")
	}
	data, err := yaml.Marshal(b.suite())
	if err != nil {
		return nil, err
	}
	if len(data) > maxSuite {
		return nil, fmt.Errorf("the suite has %d MiB, and %d at most: choose fewer requests with --run", len(data)>>20,
			maxSuite>>20)
	}
	_, err = out.Write(data)
	return left.notes(), err
}

// choose returns the chosen results of a report by their places, and the files that these are in.
func choose(report string, o Options, left left) (map[place]*impact.Result, []string, error) {
	file, err := os.Open(report)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	chosen, files := map[place]*impact.Result{}, []string(nil)
	document, err := impact.Read(file, func(r *impact.Result) error {
		switch {
		case o.Run != nil && !o.Run.MatchString(Describe(r)):
		case r.Unjudged != "":
			left["not judged: "+r.Unjudged]++
		case r.Verdict == v1alpha1.Failed:
			left["admission failed, which is no verdict to expect"]++
		case r.Request.Subresource != "" || r.Request.Operation == string(admission.Connect):
			left["it is about a subresource"]++
		case r.Source == nil || r.Source.File == "-":
			left["the log was the standard input: replay a file"]++
		default:
			if !slices.Contains(files, r.Source.File) {
				files = append(files, r.Source.File)
			}
			chosen[place{recorded.Source(*r.Source), r.Object.Name}] = r
		}
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", report, err)
	}
	if document.Kind != impact.Replay {
		return nil, nil, fmt.Errorf("%s: it is a report of gatehouse audit, and must be one of gatehouse replay", report)
	}
	if len(chosen) == 0 {
		return nil, nil, fmt.Errorf("%s: no result is chosen: %s", report, strings.Join(append(left.notes(),
			"--run must match the operation, object, user and policies of a result"), "; "))
	}
	return chosen, files, nil
}

// A builder collects cases.
type builder struct {
	options    Options
	left       left
	cases      []map[string]any
	namespaces map[string]bool
	redactor   *redactor
}

// read makes cases of the chosen requests in the files, and takes them out of chosen.
func (b *builder) read(ctx context.Context, files []string, chosen map[place]*impact.Result) error {
	log, err := recorded.Open(ctx, files, recorded.Options{})
	if err != nil {
		return err
	}
	defer log.Close()
	for len(chosen) > 0 {
		record, err := log.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		q := record.Decode()
		at := place{q.Source, nameOf(q)}
		if r := chosen[at]; r != nil {
			delete(chosen, at)
			if err := b.add(q, r); err != nil {
				return fmt.Errorf("%s: %w", q.Source, err)
			}
		}
	}
	return nil
}

// nameOf returns the name of a request's object.
func nameOf(q *recorded.Request) string {
	for _, data := range [][]byte{q.Object, q.OldObject} {
		if object, err := recorded.Parse(data); q.Name == "" && err == nil && object != nil && object.GetName() != "" {
			return object.GetName()
		}
	}
	return q.Name
}

// add makes a case of a request.
func (b *builder) add(q *recorded.Request, r *impact.Result) error {
	if q.Unjudged != "" {
		b.left["not judged: "+string(q.Unjudged)]++
		return nil
	}
	object, err := parse(q.Object, q.Namespace)
	if err != nil {
		return err
	}
	old, err := parse(q.OldObject, q.Namespace)
	if err != nil {
		return err
	}
	written, operation := object, strings.ToLower(string(q.Operation))
	if q.Operation == admission.Delete {
		written = &unstructured.Unstructured{}
		written.SetGroupVersionKind(old.GroupVersionKind())
		written.SetName(old.GetName())
		written.SetNamespace(old.GetNamespace())
	}
	if b.options.Redact {
		b.redactor.object(written)
		b.redactor.object(old)
	}
	c := map[string]any{"name": fmt.Sprintf("%d %s %s %s", len(b.cases)+1, operation, written.GetKind(),
		written.GetName()+written.GetGenerateName()), "operation": operation, "object": written.Object, "as": b.user(q.User),
		"expect": expectation(r)}
	if old != nil {
		c["state"] = []any{old.Object}
	}
	b.cases = append(b.cases, c)
	if namespace := written.GetNamespace(); namespace != "" && namespace != "default" {
		b.namespaces[namespace] = true
	}
	return nil
}

// parse returns an object as a client would send it, or nil if there is none.
func parse(data []byte, namespace string) (*unstructured.Unstructured, error) {
	object, err := recorded.Parse(data)
	if object == nil || err != nil {
		return nil, err
	}
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields",
		"selfLink"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	if object.GetKind() != "Namespace" {
		object.SetNamespace(namespace)
	}
	return object, nil
}

// user returns the user of a case.
func (b *builder) user(u user.Info) map[string]any {
	name, groups := u.GetName(), slices.Clone(u.GetGroups())
	if b.options.Redact {
		name = b.redactor.user(name)
		for i := range groups {
			groups[i] = b.redactor.group(groups[i])
		}
	}
	if account, ok := strings.CutPrefix(name, serviceAccountPrefix); ok {
		return map[string]any{"serviceAccount": strings.Replace(account, ":", "/", 1)}
	}
	return map[string]any{"user": name, "groups": groups}
}

// expectation returns what a case expects.
func expectation(r *impact.Result) map[string]any {
	expect := map[string]any{"verdict": string(r.Verdict)}
	if r.Verdict == v1alpha1.Refused && len(r.Policies) > 0 {
		by := r.Policies[0].Plugin
		if name := r.Policies[0].Name; name != "" {
			by += "/" + name
		}
		expect["by"] = by
	}
	return expect
}

// suite returns the suite.
func (b *builder) suite() map[string]any {
	state := []any{}
	for _, path := range b.options.State {
		state = append(state, path)
	}
	for _, name := range slices.Sorted(maps.Keys(b.namespaces)) {
		state = append(state, map[string]any{"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": name}})
	}
	return map[string]any{"apiVersion": suite.APIVersion, "kind": suite.Kind,
		"metadata": map[string]any{"name": "recorded"}, "spec": map[string]any{"state": state, "cases": b.cases}}
}
