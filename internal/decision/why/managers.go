// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// A Manager set fields of an object, according to the object's managedFields. What plugins and
// webhooks set counts as set by the client of the request.
type Manager struct {
	// Name is the manager's name. Operation is Apply or Update.
	Name, Operation, Subresource string
	// Time is the time at which it last changed its fields, zero if that isn't known.
	Time time.Time
	// Fields are the paths of the fields that it set.
	Fields []string
}

// Managers returns the managers of an object's fields, the one with the last change first.
func Managers(object metav1.Object) []Manager {
	var all []Manager
	for _, m := range object.GetManagedFields() {
		manager := Manager{Name: m.Manager, Operation: string(m.Operation), Subresource: m.Subresource}
		if m.Time != nil {
			manager.Time = m.Time.Time
		}
		var set fieldpath.Set
		if set.FromJSON(m.FieldsV1.GetRawReader()) == nil {
			set.Leaves().Iterate(func(path fieldpath.Path) { manager.Fields = append(manager.Fields, managedPath(path)) })
		}
		slices.Sort(manager.Fields)
		all = append(all, manager)
	}
	slices.SortStableFunc(all, func(a, b Manager) int { return b.Time.Compare(a.Time) })
	return all
}

// managedPath returns a path as Kubernetes' messages write it, with elements of lists by their
// keys: spec.containers[web].image.
func managedPath(path fieldpath.Path) string {
	var text strings.Builder
	for _, element := range path {
		switch {
		case element.FieldName != nil && plainKey.MatchString(*element.FieldName):
			if text.Len() > 0 {
				text.WriteByte('.')
			}
			text.WriteString(*element.FieldName)
		case element.FieldName != nil:
			text.WriteString("[" + *element.FieldName + "]")
		case element.Key != nil:
			keys := make([]string, len(*element.Key))
			for i, key := range *element.Key {
				keys[i] = inline(key.Value.Unstructured(), 0)
			}
			text.WriteString("[" + strings.Join(keys, ",") + "]")
		case element.Value != nil:
			text.WriteString("[" + inline((*element.Value).Unstructured(), 0) + "]")
		case element.Index != nil:
			text.WriteString(element.String())
		}
	}
	return text.String()
}

var (
	inConflict = regexp.MustCompile(`(?m)(?:: |^- )(\.\S+)$`)
	elementKey = regexp.MustCompile(`\[[^\]/.]*\]`)
)

// fieldKey returns the path of a field in a form that managed fields and patches have in common: without the keys
// and indexes of elements.
func fieldKey(path string) string {
	path = elementKey.ReplaceAllString(strings.TrimPrefix(path, "."), "")
	return strings.NewReplacer("[", ".", "]", "").Replace(path)
}

// findEarlier finds which plugins, webhooks and policies set the fields of an apply's conflict, in earlier requests.
// Those changes count as the other manager's.
func (e *Explanation) findEarlier(older []v1alpha1.Decision) {
	if e.Decision.Reason != metav1.StatusReasonConflict || !strings.Contains(e.Decision.Message, "Apply failed with ") {
		return
	}
	for _, m := range inConflict.FindAllStringSubmatch(e.Decision.Message, -1) {
		field := fieldKey(m[1])
		for i := range older {
			d := &older[i]
			if d.Verdict != v1alpha1.Admitted || d.Request.DryRun {
				continue
			}
			all := changes(d)
			at := slices.IndexFunc(all, func(c Change) bool { return !c.Again && fieldKey(c.Field) == field })
			if at >= 0 {
				verb := all[at].verb() + " in an earlier " + d.Request.Operation
				e.Causes = append(e.Causes, Cause{Change: all[at], Verb: verb})
				break
			}
		}
	}
}
