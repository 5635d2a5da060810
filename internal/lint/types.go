// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"gatehouse.dev/internal/inventory"
	"gatehouse.dev/internal/kindtypes"
)

var typeRules = []Rule{
	{"expression-type", Warning, "an expression doesn't fit the kinds of its policy", (*linting).expressionType},
}

// objectTypes knows the kinds of the objects: those of Kubernetes, and those of the CustomResourceDefinitions
// among the objects. It implements kindtypes.Mapper and resolver.SchemaResolver.
type objectTypes struct{ *inventory.Inventory }

// KindsFor implements kindtypes.Mapper.
func (o objectTypes) KindsFor(r schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	kind := o.KindFor(r)
	if kind.Empty() {
		return nil, fmt.Errorf("no kind of %s is known", r)
	}
	return []schema.GroupVersionKind{kind}, nil
}

// Reset implements kindtypes.Mapper.
func (objectTypes) Reset() {}

// ResolveSchema implements resolver.SchemaResolver.
func (o objectTypes) ResolveSchema(kind schema.GroupVersionKind) (*spec.Schema, error) {
	var definitions []apiextensionsv1.CustomResourceDefinitionSpec
	for _, d := range o.Definitions {
		definitions = append(definitions, d.Spec)
	}
	return kindtypes.SchemaAmong(definitions, kind)
}

// types returns what checks expressions with the kinds of the objects.
func (l *linting) types() *kindtypes.Types {
	if l.checker == nil {
		known := objectTypes{l.Inventory}
		l.checker = kindtypes.New(known, known)
		l.checker.NeverChange = true
	}
	return l.checker
}

// pointerOf returns the JSON pointer of a path such as spec.validations[0].expression.
func pointerOf(path string) string {
	return "/" + strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(path)
}

func (l *linting) expressionType() {
	for _, p := range l.Policies {
		if p.Validating == nil {
			continue
		}
		invalid := l.invalidExpressions(p)
		for _, m := range l.types().Mistakes(p.Validating) {
			pointer := pointerOf(m.Path)
			if invalid[pointer] != nil {
				continue // it doesn't compile
			}
			var kinds []string
			for _, k := range m.Kinds {
				kinds = append(kinds, k.Kind)
			}
			end := "the expression fails as soon as that is evaluated, and requests pass without it"
			if p.Fails {
				end = "the expression fails as soon as that is evaluated, and the request is refused"
			}
			l.add(place{p.Document, pointer, ""}, Warning, change{}, fmt.Sprintf("%s, for %s: %s", m.Message, sentence(kinds),
				end), "correct the field or the types, or leave the kind out of the rules")
		}
	}
}
