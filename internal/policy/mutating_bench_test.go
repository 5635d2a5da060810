// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// One request: what twenty policies cost that change a pod.
func BenchmarkAdmit(b *testing.B) {
	for _, test := range []struct{ name, expression string }{
		{"labels", `Object{metadata: Object.metadata{labels: {"l%d": "v"}}}`},
		{"labels that read the object", `Object{metadata: Object.metadata{labels: {"l%d": object.metadata.name}}}`},
		{"environment", `Object{spec: Object.spec{containers: object.spec.containers.map(c,
			Object.spec.containers{name: c.name, env: [Object.spec.containers.env{name: "E%d", value: "v"}]})}}`},
	} {
		b.Run(test.name, func(b *testing.B) {
			subject := startMutating(b, mutatingAll(b, 20, test.expression)...).Built.(*Mutating)
			given := create().GetObject().(*corev1.Pod)
			admit := func() {
				a := create()
				*a.GetObject().(*corev1.Pod) = *given
				if err := subject.Admit(b.Context(), a, interfaces); err != nil {
					b.Fatal(err)
				}
				if !a.GetReinvocationContext().ShouldReinvoke() {
					b.Fatal("nothing has changed")
				}
			}
			admit()
			b.ReportAllocs()
			for b.Loop() {
				admit()
			}
		})
	}
}
