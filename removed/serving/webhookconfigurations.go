// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"context"
	"maps"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/apis/admissionregistration/validation"
	mutatingstorage "k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration/storage"
	validatingstorage "k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration/storage"
)

// Kubernetes stopped serving webhook configurations in v1beta1 in 1.22, and still carries the
// types, their defaults and their conversions. They are views of what v1 stores, as the workloads'
// old versions are.
var webhookConfigurations = []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}

// addWebhookConfigurations adds them to the group's v1beta1, if runtimeConfig names them.
// The policies of that version are Kubernetes' to serve.
func addWebhookConfigurations(group *server.APIGroupInfo, runtimeConfig map[string]string,
	enabled func(schema.GroupVersionResource) bool) {
	stored := map[string]rest.Storage{}
	for name, s := range group.VersionedResourcesStorageMap[admissionregistrationv1.SchemeGroupVersion.Version] {
		switch s := s.(type) {
		case *mutatingstorage.REST:
			store := *s.Store
			store.CreateStrategy = createStrategy{store.CreateStrategy}
			store.UpdateStrategy = updateStrategy{store.UpdateStrategy}
			stored[name] = &mutatingstorage.REST{Store: &store}
		case *validatingstorage.REST:
			store := *s.Store
			store.CreateStrategy = createStrategy{store.CreateStrategy}
			store.UpdateStrategy = updateStrategy{store.UpdateStrategy}
			stored[name] = &validatingstorage.REST{Store: &store}
		}
	}
	version := admissionregistrationv1beta1.SchemeGroupVersion
	resources := view(version, webhookConfigurations, stored, runtimeConfig, enabled)
	if len(resources) == 0 {
		return
	}
	if group.VersionedResourcesStorageMap[version.Version] == nil {
		group.VersionedResourcesStorageMap[version.Version] = map[string]rest.Storage{}
	}
	maps.Copy(group.VersionedResourcesStorageMap[version.Version], resources)
}

// createStrategy accepts what v1beta1 accepted and v1 doesn't: webhooks with side effects,
// and several of the same name.
type createStrategy struct{ rest.RESTCreateStrategy }

// Validate implements rest.RESTCreateStrategy.
func (s createStrategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	switch c := obj.(type) {
	case *admissionregistration.MutatingWebhookConfiguration:
		return validateMutating(c, nil)
	case *admissionregistration.ValidatingWebhookConfiguration:
		return validateValidating(c, nil)
	default:
		return s.RESTCreateStrategy.Validate(ctx, obj)
	}
}

// updateStrategy does the same for updates.
type updateStrategy struct{ rest.RESTUpdateStrategy }

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (s updateStrategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	switch c := obj.(type) {
	case *admissionregistration.MutatingWebhookConfiguration:
		return validateMutating(c, old.(*admissionregistration.MutatingWebhookConfiguration).Webhooks)
	case *admissionregistration.ValidatingWebhookConfiguration:
		return validateValidating(c, old.(*admissionregistration.ValidatingWebhookConfiguration).Webhooks)
	default:
		return s.RESTUpdateStrategy.ValidateUpdate(ctx, obj, old)
	}
}

// Kubernetes 1.16 to 1.21 required less in v1beta1 (requireNoSideEffects and
// requireUniqueWebhookNames in pkg/apis/admissionregistration/validation). Today an update may
// still keep these properties of an object that was stored then. So the object is validated as the
// update of one with side effects and without unique names, and otherwise unchanged.

func validateMutating(c *admissionregistration.MutatingWebhookConfiguration,
	old []admissionregistration.MutatingWebhook) field.ErrorList {
	before := &admissionregistration.MutatingWebhookConfiguration{Webhooks: slices.Clone(old)}
	for i := range before.Webhooks {
		before.Webhooks[i].Name, before.Webhooks[i].SideEffects = "", nil
	}
	before.Webhooks = withNameless(before.Webhooks, len(c.Webhooks))
	return validation.ValidateMutatingWebhookConfigurationUpdate(c, before)
}

func validateValidating(c *admissionregistration.ValidatingWebhookConfiguration,
	old []admissionregistration.ValidatingWebhook) field.ErrorList {
	before := &admissionregistration.ValidatingWebhookConfiguration{Webhooks: slices.Clone(old)}
	for i := range before.Webhooks {
		before.Webhooks[i].Name, before.Webhooks[i].SideEffects = "", nil
	}
	before.Webhooks = withNameless(before.Webhooks, len(c.Webhooks))
	return validation.ValidateValidatingWebhookConfigurationUpdate(c, before)
}

// withNameless adds webhooks to those of an old object until two of them have the same name, none.
// An old object that has as many as the updated one is left as it is, and none is made to have as
// many: upstream doesn't compile match conditions again that it finds unchanged, one by one. (As
// many as one have no names to share anyway.)
func withNameless[W any](old []W, updated int) []W {
	if len(old) == updated {
		return old
	}
	for len(old) < 2 || len(old) == updated {
		old = append(old, *new(W))
	}
	return old
}
