// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/plugin"
)

// An Eviction whose deleteOptions are of a dry run is one, for plugins as for observers.
func TestDryRunOfEviction(t *testing.T) {
	const all = metav1.DryRunAll
	eviction := func(options *metav1.DeleteOptions) runtime.Object {
		return &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, DeleteOptions: options}
	}
	kind := policyv1.SchemeGroupVersion.WithKind("Eviction")
	for name, test := range map[string]struct {
		object      runtime.Object
		subresource string
		url         bool
		want        bool
	}{
		"body":                 {object: eviction(&metav1.DeleteOptions{DryRun: []string{all}}), want: true},
		"URL":                  {object: eviction(nil), url: true, want: true},
		"both":                 {object: eviction(&metav1.DeleteOptions{DryRun: []string{all}}), url: true, want: true},
		"neither":              {object: eviction(&metav1.DeleteOptions{})},
		"no options":           {object: eviction(nil)},
		"no object":            {},
		"other kind of object": {object: &corev1.Pod{}},
		"other subresource": {object: eviction(&metav1.DeleteOptions{DryRun: []string{all}}),
			subresource: "binding"},
	} {
		t.Run(name, func(t *testing.T) {
			var plugins, observers []bool
			ask := func(a admission.Attributes) error {
				plugins = append(plugins, a.IsDryRun())
				return nil
			}
			c := newChain(t, []plugin.Descriptor{described("a", fake{admit: ask, validate: ask})}, plugin.Observe{
				Phase: func(_ context.Context, s plugin.PhaseStep) { observers = append(observers, s.Attributes.IsDryRun()) }})
			subresource := "eviction"
			if test.subresource != "" {
				subresource = test.subresource
			}
			a := admission.NewAttributesRecord(test.object, nil, kind, "ns", "p",
				corev1.SchemeGroupVersion.WithResource("pods"), subresource, admission.Create, &metav1.CreateOptions{},
				test.url, nil)
			o := admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme)
			if err := c.Admit(t.Context(), a, o); err != nil {
				t.Fatal(err)
			}
			if err := c.Validate(t.Context(), a, o); err != nil {
				t.Fatal(err)
			}
			for _, told := range [][]bool{plugins, observers} {
				if len(told) != 2 || told[0] != test.want || told[1] != test.want {
					t.Errorf("plugins are told %v, observers %v, want %v", plugins, observers, test.want)
				}
			}
		})
	}
}
