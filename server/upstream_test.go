// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/kubeapiserver/options"

	"gatehouse.dev/plugins"
)

// TestEnforcedIsUpstreams compares enforcedByKubernetes with the plugins that kube-apiserver runs by
// default.
func TestEnforcedIsUpstreams(t *testing.T) {
	off := options.DefaultOffAdmissionPlugins()
	var want []string
	for _, d := range plugins.List {
		if slices.Contains(options.AllOrderedPlugins, d.Name) && !off.Has(d.Name) {
			for _, enforced := range d.Server.Enforces {
				want = append(want, enforced.Resource.String()+" "+enforced.Labels)
			}
		}
	}
	var got []string
	for _, enforced := range enforcedByKubernetes {
		got = append(got, enforced.Resource.String()+" "+enforced.Labels)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("Kubernetes is taken to enforce\n%s\nits plugins enforce\n%s", strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}
