// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"testing"

	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
)

// What one plugin has made the next has, in both phases and rounds, until somebody may have changed
// the object who doesn't share.
func TestShared(t *testing.T) {
	type made struct{ by []string }
	var got []string
	sharing := func(name string) func(admission.Attributes) error {
		return func(a admission.Attributes) error {
			a.GetObject()
			s := plugin.Shared[made](a)
			for _, by := range s.by {
				got = append(got, by+name)
			}
			s.by = append(s.by, name)
			return nil
		}
	}
	internal := described("internal", fake{admit: look, validate: look})
	internal.Server.Internal = true
	for _, test := range []struct {
		name                 string
		between              plugin.Descriptor
		mutating, validating int
	}{
		{"nobody between", described("between", fake{admit: idle, validate: idle}), 1, 1},
		{"who looks may change it", described("between", fake{admit: look, validate: look}), 0, 1},
		{"who works on the server's own may", internal, 0, 1},
		{"who shares says so", described("between", fake{admit: sharing("b"), validate: sharing("b")}), 3, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newChain(t, []plugin.Descriptor{
				described("one", fake{admit: sharing("1"), validate: sharing("1")}),
				test.between,
				described("two", fake{admit: sharing("2"), validate: sharing("2")}),
			})
			a, o := create(newPod()), newInterfaces()
			for _, phase := range []struct {
				run  func() error
				want int
			}{
				{func() error { return c.Admit(t.Context(), a, o) }, test.mutating},
				{func() error { return c.Validate(t.Context(), a, o) }, test.validating},
			} {
				got = nil
				wantError(t, phase.run(), "")
				if len(got) != phase.want {
					t.Errorf("shared %v, want %d", got, phase.want)
				}
			}
		})
	}
	a := create(newPod())
	if plugin.Shared[made](a) == plugin.Shared[made](a) {
		t.Error("attributes that are not a chain's share")
	}
}

// Things of different types are apart, and where nobody shares it costs nothing.
func TestSharedByType(t *testing.T) {
	a := newVersioned(create(newPod()), newInterfaces(), true, plugin.Wants{})
	if allocations := testing.AllocsPerRun(100, func() {
		a.begin()
		a.end(&plugin.Step{})
	}); allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
	type one struct{ n int }
	type two struct{ n int }
	plugin.Shared[one](a).n, plugin.Shared[two](a).n = 1, 2
	if plugin.Shared[one](a).n != 1 || plugin.Shared[two](a).n != 2 {
		t.Error("the two are not apart")
	}
}
