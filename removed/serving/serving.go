// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package serving serves what Kubernetes served once:
//
//   - kinds that Kubernetes removed and that Gatehouse's plugins still know: PodSecurityPolicy,
//     PodPreset and InitializerConfiguration (package kinds)
//   - versions that Kubernetes stopped serving of kinds that it still has: workloads of
//     apps/v1beta1, apps/v1beta2 and extensions/v1beta1, webhook configurations of
//     admissionregistration.k8s.io/v1beta1 (workloads.go, webhookconfigurations.go)
//   - objects that wait for initializers, hidden from everybody else (package uninitialized)
//
// It is behind one extension point of the API server, apiserver.Former, which API implements. The plugins bring
// it along: New is in their descriptors.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
package serving

import (
	"net/http"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"

	"gatehouse.dev/apiserver"
	"gatehouse.dev/removed/apis/initializers"
	"gatehouse.dev/removed/apis/openapi"
	"gatehouse.dev/removed/serving/kinds"
	"gatehouse.dev/removed/serving/uninitialized"
)

// New returns what an API server serves for these plugins. Objects are hidden if Initializers is one of them.
func New(running []string) apiserver.Former {
	return API{Options{HideUninitialized: slices.Contains(running, "Initializers")}}
}

// Options say how objects that wait for initializers are treated.
type Options struct {
	// HideUninitialized hides them, and makes their creators wait.
	HideUninitialized bool
	// InitializationTimeout bounds a creator's wait; 0 is uninitialized.DefaultTimeout.
	InitializationTimeout time.Duration
}

// API implements apiserver.Former.
type API struct{ Options }

var _ apiserver.Former = API{}

// Kinds implements apiserver.Former.
func (API) Kinds() apiserver.FormerKinds {
	return apiserver.FormerKinds{Scheme: kinds.Versions, Codecs: kinds.Codecs, StorageCodec: kinds.StorageCodec,
		StorageVersions: kinds.StorageVersions}
}

// Definitions implements apiserver.Former.
func (API) Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	return openapi.Definitions(ref)
}

// Versions implements apiserver.Former.
func (API) Versions() []schema.GroupVersion { return workloadVersions }

// Priorities implements apiserver.Former. The figures are those of the releases that served these
// groups. The other versions that are served here are still in Kubernetes' own table.
func (API) Priorities() map[schema.GroupVersion]controlplaneapiserver.APIServicePriority {
	return map[schema.GroupVersion]controlplaneapiserver.APIServicePriority{
		{Group: "extensions", Version: "v1beta1"}:       {Group: 17900, Version: 1},
		{Group: "apps", Version: "v1beta2"}:             {Group: 17800, Version: 9},
		{Group: "apps", Version: "v1beta1"}:             {Group: 17800, Version: 1},
		{Group: "settings.k8s.io", Version: "v1alpha1"}: {Group: 16900, Version: 9},
	}
}

// RESTOptions implements apiserver.Former.
func (a API) RESTOptions(stores generic.RESTOptionsGetter, ready <-chan struct{}) generic.RESTOptionsGetter {
	if !a.HideUninitialized {
		return stores
	}
	timeout := a.InitializationTimeout
	if timeout == 0 {
		timeout = uninitialized.DefaultTimeout
	}
	return uninitialized.RESTOptions(stores, timeout, ready)
}

// Filter implements apiserver.Former.
func (a API) Filter(handler http.Handler) http.Handler {
	if !a.HideUninitialized {
		return handler
	}
	return uninitialized.WithRequest(handler, legacyscheme.Codecs)
}

// SeesAll implements apiserver.Former.
func (a API) SeesAll(config *rest.Config) (*rest.Config, bool) {
	if !a.HideUninitialized {
		return config, false
	}
	return initializers.Including(config), true
}
