// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"gatehouse.dev/internal/kubesource"
)

func TestVariablesAreUpstreams(t *testing.T) {
	for ours, theirs := range map[string]string{
		objectVariable: plugincel.ObjectVarName, oldObjectVariable: plugincel.OldObjectVarName,
		requestVariable: plugincel.RequestVarName, namespaceVariable: plugincel.NamespaceVarName,
		authorizerVariable: plugincel.AuthorizerVarName, paramsVariable: plugincel.ParamsVarName,
		requestResourceVariable: plugincel.RequestResourceAuthorizerVarName, variablesVariable: plugincel.VariableVarName,
	} {
		if ours != theirs {
			t.Errorf("variable %s, upstream calls it %s", ours, theirs)
		}
	}
}

func TestTypesAreUpstreams(t *testing.T) {
	for name, pair := range map[string][2]*apiservercel.DeclType{
		"request":         {requestType(), plugincel.BuildRequestType()},
		"namespaceObject": {namespaceType(), plugincel.BuildNamespaceType()},
	} {
		if diff := cmp.Diff(described(pair[1]), described(pair[0])); diff != "" {
			t.Errorf("type of %s: -upstream's +ours:\n%s", name, diff)
		}
	}
}

// described returns what a type declares: its name and its fields', with their types.
func described(t *apiservercel.DeclType) map[string]any {
	if t == nil {
		return nil
	}
	fields := map[string]any{}
	for name, field := range t.Fields {
		fields[name] = map[string]any{"name": field.Name, "required": field.Required, "type": described(field.Type)}
	}
	return map[string]any{"name": t.TypeName(), "fields": fields, "key": described(t.KeyType), "element": described(t.ElemType)}
}

func TestSimpleTypesAreUpstreams(t *testing.T) {
	ours := kubesource.Pairs(kubesource.Parse(t, "composition.go").Value("simpleTypes"))
	theirs := kubesource.Cases(kubesource.Parse(t, "k8s.io/apiserver/pkg/admission/plugin/cel/composition.go").
		Func("convertCelTypeToDeclType"))
	delete(theirs, "")
	// of lists and maps, by the number of parameters
	delete(theirs, "1")
	delete(theirs, "2")
	if len(ours) == 0 || !maps.Equal(ours, theirs) {
		t.Errorf("simple types are\n%v\nupstream's are\n%v", ours, theirs)
	}
}

// The options of programs are those of upstream's environment, before those of its libraries.
func TestProgramOptionsAreUpstreams(t *testing.T) {
	base := kubesource.Parse(t, "k8s.io/apiserver/pkg/cel/environment/base.go").Value("baseOpts")
	var theirs []string
	for _, options := range kubesource.Fields(base, "ProgramOptions") {
		theirs = append(theirs, kubesource.Elements(options)...)
	}
	ours := kubesource.Elements(kubesource.Parse(t, "plan.go").Value("programOptions"))
	if len(theirs) == 0 || !slices.Equal(ours[:min(len(ours), len(theirs))], theirs) {
		t.Errorf("options of programs are\n%q\nupstream's are\n%q", ours, theirs)
	}
}
