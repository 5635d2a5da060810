// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/internal/review/input"
)

// A namespaceLoader makes sure that a trial's servers have the namespaces of what is judged.
type namespaceLoader struct {
	*Trial
	// namespaces has the namespaces of what is judged. The value is true if its labels are not known.
	namespaces map[string]bool
}

func newNamespaceLoader(t *Trial) namespaceLoader { return namespaceLoader{t, map[string]bool{}} }

// prepare stores a namespace if the state lacks it: it was deleted since, or no state was given. It reports
// whether the namespace's labels are not known.
func (l *namespaceLoader) prepare(ctx context.Context, name string) (unknown bool, err error) {
	if name == "" {
		return false, nil
	}
	unknown, ok := l.namespaces[name]
	if ok {
		return unknown, nil
	}
	stored, err := l.namespace(ctx, name)
	if err != nil {
		return false, err
	}
	if stored == nil {
		err = l.load(ctx, newNamespace(name))
	}
	l.namespaces[name] = stored == nil
	return stored == nil, err
}

// load stores a namespace on both sides.
func (l *namespaceLoader) load(ctx context.Context, namespace *unstructured.Unstructured) error {
	document := input.Document{Source: input.Source{File: "what is judged"}, Object: namespace}
	if err := l.Load(ctx, []input.Document{document}); err != nil {
		return fmt.Errorf("making namespace %s, which the state doesn't have: %w", namespace.GetName(), err)
	}
	if l.options.PodSecurityOverride {
		return l.relabel(ctx, namespace, "")
	}
	return nil
}

// notes returns a note about the namespaces whose labels are not known.
func (l *namespaceLoader) notes() []string {
	var unknown []string
	for name, isUnknown := range l.namespaces {
		if isUnknown {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	shown := strings.Join(unknown[:min(len(unknown), maxNamed)], ", ")
	if more := len(unknown) - maxNamed; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return []string{"namespaces that the state doesn't have, taken to be there without labels: " + shown}
}

// maxNamed is the number of names in a note.
const maxNamed = 5
