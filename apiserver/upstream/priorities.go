// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package upstream holds the API server's tables that repeat facts of k8s.io/kubernetes which it doesn't
// export. Each has a test that compares it with the source of the Kubernetes version that go.mod
// requires, so a new release shows what has changed. docs/maintaining.md lists the tables of other
// packages.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
package upstream

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

// Priorities returns the order of API groups and of their versions in discovery. It decides which
// one a client gets that names neither. It has the served versions of apiVersionPriorities in
// k8s.io/kubernetes/cmd/kube-apiserver/app/aggregator.go.
func Priorities() map[schema.GroupVersion]controlplaneapiserver.APIServicePriority {
	priorities := controlplaneapiserver.DefaultGenericAPIServicePriorities()
	for _, g := range groups {
		for version, order := range g.versions {
			priorities[schema.GroupVersion{Group: g.name, Version: version}] =
				controlplaneapiserver.APIServicePriority{Group: g.priority, Version: order}
		}
	}
	return priorities
}

var groups = []struct {
	name     string
	priority int32
	versions map[string]int32
}{
	{"", 18000, map[string]int32{"v1": 1}},
	{"apps", 17800, map[string]int32{"v1": 15}},
	{"autoscaling", 17500, map[string]int32{"v1": 15, "v2": 30}},
	{"batch", 17400, map[string]int32{"v1": 15}},
	{"networking.k8s.io", 17200, map[string]int32{"v1": 15, "v1beta1": 9}},
	{"policy", 17100, map[string]int32{"v1": 15, "v1beta1": 9}},
	{"storage.k8s.io", 16800, map[string]int32{"v1": 15, "v1beta1": 9, "v1alpha1": 1}},
	{"scheduling.k8s.io", 16600, map[string]int32{"v1": 15, "v1beta1": 9, "v1alpha3": 3}},
	{"node.k8s.io", 16300, map[string]int32{"v1": 15}},
	{"resource.k8s.io", 16200, map[string]int32{"v1": 21, "v1beta2": 15, "v1beta1": 9, "v1alpha3": 1}},
	{"lifecycle.k8s.io", 15700, map[string]int32{"v1alpha1": 1}},
}
