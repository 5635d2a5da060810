package live

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/decision"
	"gatehouse.dev/review/input"
)

// configuration are the groups of what says how requests are judged, in which nothing is hidden.
var configuration = map[string]bool{"apiextensions.k8s.io": true, "admissionregistration.k8s.io": true}

// HideValues hides the values of environment variables and headers, arguments and commands in the
// state's objects, and notes it. Params of policies stay as they are, and so do values that the
// manifests have: who has these knows them, and an object that is as its manifest stays so.
func (s *State) HideValues(manifests []input.Document) {
	known := map[string]bool{}
	for _, d := range manifests {
		addTexts(known, d.Object.Object)
	}
	params := ParamKinds(s.Objects)
	hidden := 0
	for _, object := range s.Objects {
		kind := object.GroupVersionKind()
		if configuration[kind.Group] || params[kind] || kind.GroupKind() == (schema.GroupKind{Kind: "ConfigMap"}) {
			continue
		}
		if decision.HideValues(object.Object, func(value string) bool { return known[value] }) {
			hidden++
		}
	}
	if hidden > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("values of environment variables, headers, arguments and commands "+
			"of %d objects are not in the snapshot: what policies and webhooks say of these may be otherwise, and "+
			"updates of them change them (gatehouse snapshot --values=shown has them)", hidden))
	}
}

// addTexts adds all texts in a value to known.
func addTexts(known map[string]bool, value any) {
	switch value := value.(type) {
	case string:
		known[value] = true
	case map[string]any:
		for _, field := range value {
			addTexts(known, field)
		}
	case []any:
		for _, element := range value {
			addTexts(known, element)
		}
	}
}
