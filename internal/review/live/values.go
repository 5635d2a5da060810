// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/count"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/review/input"
)

// showsValues reports whether nothing is hidden in objects of a kind. Definitions, webhooks and
// policies say how requests are judged, and ConfigMaps have no such values.
func showsValues(kind schema.GroupVersionKind) bool {
	return kind.Group == "apiextensions.k8s.io" || kind.Group == "admissionregistration.k8s.io" ||
		kind.GroupKind() == schema.GroupKind{Kind: "ConfigMap"}
}

// HideValues hides the values of environment variables and headers, arguments and commands in the
// state's objects, and notes it. Values that the manifests have stay: the reader of the manifests
// knows them, and an object that is as its manifest stays so.
func (s *State) HideValues(manifests []input.Document) {
	known := map[string]bool{}
	for _, d := range manifests {
		addTexts(known, d.Object.Object)
	}
	hidden := 0
	for _, object := range s.Objects {
		if !showsValues(object.GroupVersionKind()) &&
			decision.HideValues(object.Object, func(value string) bool { return known[value] }) {
			hidden++
		}
	}
	if hidden > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("values of environment variables, headers, arguments and commands "+
			"of %s are not in the snapshot: what policies and webhooks say of these may be otherwise, and "+
			"updates of them change them (gatehouse snapshot --values=shown has them)", count.Of(hidden, "object")))
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
