// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kindtypes

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"
)

// definition is a CustomResourceDefinition. Its rules take the place of RULES, the bounds of its parts that of
// BOUNDS.
const definition = `
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  preserveUnknownFields: false
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-validations: [RULES]
        properties:
          spec:
            type: object
            properties:
              parts: {type: array, items: {type: string}BOUNDS}
              several:
                type: object
                additionalProperties:
                  type: object
                  properties: {text: {type: string}}
                  x-kubernetes-validations: [{rule: "self.text != 'a'", messageExpression: "'not ' + self.text"}]
status: {storedVersions: [v1]}
`

func definitionWith(t *testing.T, bounds, rules string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	d := &apiextensionsv1.CustomResourceDefinition{}
	text := strings.NewReplacer("RULES", rules, "BOUNDS", bounds).Replace(definition)
	if err := yaml.UnmarshalStrict([]byte(text), d); err != nil {
		t.Fatal(err)
	}
	return d
}

var loops = map[string]struct {
	bounds, expression string
	refused            bool
}{
	"a comparison":     {"", "SELF.metadata.name != 'a'", false},
	"a loop":           {"", "SELF.spec.parts.all(a, a != 'b')", false},
	"nested":           {"", "SELF.spec.parts.all(a, SELF.spec.parts.all(b, a != b))", true},
	"nested, bounded":  {", maxItems: 10", "SELF.spec.parts.all(a, SELF.spec.parts.all(b, a != 'b'))", false},
	"a pattern":        {"", "SELF.spec.parts.all(a, a.matches('^a$'))", true},
	"keys and values":  {"", "SELF.spec.several.all(k, SELF.spec.several[k].text != k)", false},
	"an optional list": {"", "has(SELF.spec.parts) ? SELF.spec.parts.size() < 5 : true", false},
}

// The costs of rules are those with which API servers accept and refuse definitions.
func TestRuleCosts(t *testing.T) {
	for name, tt := range loops {
		d := definitionWith(t, tt.bounds, `{rule: "`+strings.ReplaceAll(tt.expression, "SELF", "self")+`"}`)
		costs, total, err := RuleCosts(&d.Spec.Versions[0])
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		var highest, sum uint64
		for _, c := range costs {
			paths = append(paths, c.Path)
			highest, sum = max(highest, c.Cost), add(sum, c.Cost)
		}
		want := "/properties/spec/properties/several/additionalProperties/x-kubernetes-validations/0/rule " +
			"/properties/spec/properties/several/additionalProperties/x-kubernetes-validations/0/messageExpression " +
			"/x-kubernetes-validations/0/rule"
		if got := strings.Join(paths, " "); got != want {
			t.Errorf("%s: the rules are %s, want %s", name, got, want)
		}
		if sum != total {
			t.Errorf("%s: the total is %d, want %d", name, total, sum)
		}
		internal := &apiextensions.CustomResourceDefinition{}
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(d, internal,
			nil); err != nil {
			t.Fatal(err)
		}
		errs := crdvalidation.ValidateCustomResourceDefinition(t.Context(), internal)
		if refused := highest > MaxRuleCost; refused != tt.refused || refused != (len(errs) > 0) {
			t.Errorf("%s: the cost is %d, and upstream says %v", name, highest, errs)
		}
	}
}

// definitions resolves the kind of a CustomResourceDefinition.
type definitions struct {
	*apiextensionsv1.CustomResourceDefinition
}

func (d definitions) ResolveSchema(schema.GroupVersionKind) (*spec.Schema, error) {
	return SchemaOfVersion(&d.Spec.Versions[0])
}

// A policy's expression costs what the same rule of a CustomResourceDefinition costs, in which the object is
// called self. A variable that is only a name costs its reading.
func TestCosts(t *testing.T) {
	widget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	mapper := staticMapper{meta.NewDefaultRESTMapper(nil)}
	mapper.Add(widget, meta.RESTScopeNamespace)
	for name, tt := range loops {
		d := definitionWith(t, tt.bounds, `{rule: "`+strings.ReplaceAll(tt.expression, "SELF", "self")+`"}`)
		costs, _, err := RuleCosts(&d.Spec.Versions[0])
		if err != nil {
			t.Fatal(err)
		}
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		policy.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{Rule: admissionregistrationv1.Rule{
					APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"widgets"}}}}}}
		types := New(definitions{d}, mapper)
		cost := func(expression string) uint64 {
			policy.Spec.Validations = []admissionregistrationv1.Validation{{Expression: expression}}
			found := types.Costs(policy)
			if len(found) != 1 || found[0].Kind != widget {
				t.Fatalf("%s: the costs are %v", name, found)
			}
			return found[0].Validations.Total
		}
		want := costs[len(costs)-1].Cost
		if got := cost(strings.ReplaceAll(tt.expression, "SELF", "object")); got != want {
			t.Errorf("%s: the cost is %d, want %d", name, got, want)
		}
		policy.Spec.Variables = []admissionregistrationv1.Variable{{Name: "spec", Expression: "object.spec"},
			{Name: "parts", Expression: "variables.spec.parts"}}
		got := cost(strings.NewReplacer("SELF.spec.parts", "variables.parts", "SELF", "object").Replace(tt.expression))
		if got < want/2 || got > 2*want+10 {
			t.Errorf("%s: with variables the cost is %d, without %d", name, got, want)
		}
		policy.Spec.Variables = nil
		for _, unknown := range []string{"object.spec.parts.all(p, p == 1", "request.name.matches('^a$')",
			"namespaceObject.metadata.labels.all(k, k.contains('a'))"} {
			if got := cost(unknown); got != 0 {
				t.Errorf("%s, whose cost isn't known, costs %d", unknown, got)
			}
		}
		if got := cost("object.metadata.name == request.name"); got == 0 || got > 1e6 {
			t.Errorf("a comparison of which one side is bounded costs %d", got)
		}
	}
}
