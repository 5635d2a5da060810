// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/removed/serving"
)

var (
	presets   = schema.GroupVersionResource{Group: "settings.k8s.io", Version: "v1alpha1", Resource: "podpresets"}
	policies  = schema.GroupVersionResource{Group: "policy", Version: "v1beta1", Resource: "podsecuritypolicies"}
	waitLists = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1alpha1",
		Resource: "initializerconfigurations"}
)

func TestResources(t *testing.T) {
	for _, test := range []struct {
		name     string
		config   cliflag.ConfigurationMap
		required []schema.GroupVersionResource
		want     []schema.GroupVersionResource
	}{
		{name: "nothing"},
		{name: "required", required: []schema.GroupVersionResource{policies},
			want: []schema.GroupVersionResource{policies}},
		{name: "by version", config: cliflag.ConfigurationMap{"settings.k8s.io/v1alpha1": "true"},
			want: []schema.GroupVersionResource{presets}},
		{name: "switched off", config: cliflag.ConfigurationMap{"settings.k8s.io/v1alpha1": "false"},
			required: []schema.GroupVersionResource{presets}},
		{name: "a version that Kubernetes has",
			config: cliflag.ConfigurationMap{"admissionregistration.k8s.io/v1alpha1": "true"}},
		{name: "by name in a version that Kubernetes has",
			config: cliflag.ConfigurationMap{"admissionregistration.k8s.io/v1alpha1/initializerconfigurations": "true"},
			want:   []schema.GroupVersionResource{waitLists}},
		{name: "all", config: cliflag.ConfigurationMap{"api/all": "true"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			required := map[schema.GroupVersionResource][]string{}
			for _, resource := range test.required {
				required[resource] = []string{"Plugin"}
			}
			got, err := serving.API{}.Resources(test.config, required)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestOldGroupOfPodSecurityPolicies(t *testing.T) {
	_, err := serving.API{}.Resources(cliflag.ConfigurationMap{"extensions/v1beta1/podsecuritypolicies": "true"}, nil)
	want := "extensions/v1beta1/podsecuritypolicies: PodSecurityPolicies are served in policy/v1beta1: switch on " +
		"policy/v1beta1/podsecuritypolicies"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
