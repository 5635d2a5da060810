// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
)

// Env is what the host offers to a plugin. New keeps what the plugin needs, and fails with the
// field's name if something it needs is nil.
type Env struct {
	// Client reads and writes the cluster with the server's own identity. Its writes pass admission
	// like any other.
	Client kubernetes.Interface

	// Dynamic does the same for resources without generated Go types.
	Dynamic dynamic.Interface

	// Informers is the shared cache. New asks it for informers; the host starts them after all
	// plugins are built. A plugin must not decide from an informer before it has synced: see package
	// ready.
	Informers informers.SharedInformerFactory

	// Authorizer answers what a user may do, without conditions.
	Authorizer authorizer.UnconditionalAuthorizer

	// RESTMapper maps kinds to resources and knows which are namespaced, including custom resources.
	RESTMapper meta.RESTMapper

	// UnknownFields returns the fields of a custom resource, in the resource's version, that its
	// definition doesn't have and that therefore aren't stored. It is nil if the host doesn't know.
	UnknownFields func(schema.GroupVersionResource, *unstructured.Unstructured) []string

	// Features are the server's feature gates.
	Features featuregate.FeatureGate

	// Version is the server's release of Kubernetes, and the one that it emulates
	// (--emulated-version).
	Version compatibility.EffectiveVersion

	// APIServerID distinguishes this server from others of a cluster, in metrics. It may be empty.
	APIServerID string

	// Webhooks says whether admission webhooks and other backends are called.
	Webhooks WebhookCalls

	// WebhookBreaker says whether webhooks' endpoints that can't be reached aren't called until they
	// can.
	WebhookBreaker bool

	// LocalWebhooks are URLs of processes on this machine. Webhooks are called there as for a dry
	// run, whatever Webhooks says; with an empty URL every call fails. The keys are names of webhooks,
	// of configurations, or both separated by a slash.
	LocalWebhooks map[string]string

	// WebhookToken makes a token by which a webhook knows that this server calls it, as a TokenRequest
	// with this spec would. It is nil if webhooks get none.
	WebhookToken func(context.Context, *authenticationv1.TokenRequestSpec) (*authenticationv1.TokenRequestStatus, error)

	// ValidateManifest sets the defaults of a webhook configuration, a policy or a binding from a file, in
	// admissionregistration.k8s.io/v1, and returns what the API would refuse of it. It is nil if the host has
	// no such API.
	ValidateManifest func(runtime.Object) field.ErrorList

	// Done is closed when the server stops. The plugin's goroutines end then.
	Done <-chan struct{}
}
