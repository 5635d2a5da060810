// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDerived(t *testing.T) {
	calls := 0
	d := Derive(func(namespace *corev1.Namespace) string {
		calls++
		return namespace.Annotations["a"]
	})
	state := func(name, a string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"a": a}}}
	}
	first, second, other := state("shop", "1"), state("shop", "2"), state("bar", "3")
	for _, step := range []struct {
		of    *corev1.Namespace
		want  string
		calls int
	}{
		{first, "1", 1}, {first, "1", 1}, {other, "3", 2}, {first, "1", 2},
		{second, "2", 3}, {second, "2", 3}, {other, "3", 3},
	} {
		if got := d.Of(step.of); got != step.want || calls != step.calls {
			t.Errorf("got %q after %d calls, want %q after %d", got, calls, step.want, step.calls)
		}
	}
	if n := testing.AllocsPerRun(100, func() { d.Of(second) }); n != 0 {
		t.Errorf("%v allocations for a namespace that is known", n)
	}
}
