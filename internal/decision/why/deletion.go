// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// maxInside is the number of refusals in a namespace that are shown.
const maxInside = 3

// deletion writes what holds an object that is being deleted: its finalizers; of a namespace, what is left in it; and
// the requests in the namespace that were refused since.
func (p *Printer) deletion(f *Found) {
	if f.Object == nil || f.Object.GetDeletionTimestamp() == nil {
		return
	}
	p.out.WriteByte('\n')
	held := holders(f.Object)
	since := "Being deleted since " + p.age(f.Object.GetDeletionTimestamp().Time) + " ago."
	if seconds := f.Object.GetDeletionGracePeriodSeconds(); seconds != nil && *seconds > 0 {
		since += fmt.Sprintf(" It had %d seconds to end.", *seconds)
	}
	if len(held) > 0 {
		since += " It is there until these are removed:"
	}
	p.wrap("", since)
	for _, holder := range held {
		p.wrap("  ", holder)
	}
	inside, _ := Entries(f.Inside, 0, p.Remedies)
	for i := range inside[:min(len(inside), maxInside)] {
		e := &inside[i]
		p.out.WriteByte('\n')
		p.wrap("", fmt.Sprintf("In it, %s of %s is refused:", e.Decision.Request.Operation, nameOf(e)))
		p.entry(e)
	}
	if more := len(inside) - maxInside; more > 0 {
		fmt.Fprintf(&p.out, "\n%d more in it (kubectl get decisions -n %s).\n", more, f.Name)
	}
}

// nameOf returns the name of an entry's object, as resource/name.
func nameOf(e *Entry) string { return e.Decision.Request.Resource + "/" + e.Decision.Request.Name }

// holders returns what keeps an object that is being deleted, each in words.
func holders(object *unstructured.Unstructured) []string {
	var all []string
	for _, name := range object.GetFinalizers() {
		all = append(all, fmt.Sprintf("the finalizer %s, which its owner removes from metadata.finalizers after its work", name))
	}
	if object.GetKind() != "Namespace" {
		return all
	}
	own, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "finalizers")
	for _, name := range own {
		all = append(all, fmt.Sprintf("the finalizer %s in spec.finalizers, which the namespace controller removes once the "+
			"namespace is empty", name))
	}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["status"] == "True" {
			all = append(all, fmt.Sprintf("%v: %v", condition["type"], condition["message"]))
		}
	}
	return all
}
