// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kinds serves the kinds that Kubernetes removed and that Gatehouse's plugins still know:
//
//   - PodSecurityPolicy in policy/v1beta1, with its validation and defaults of Kubernetes 1.24
//   - PodPreset in settings.k8s.io/v1alpha1, with its validation and defaults of Kubernetes 1.19
//   - InitializerConfiguration in admissionregistration.k8s.io/v1alpha1, with its validation of
//     Kubernetes 1.13
//
// They are a scheme of their own, and so is how they are sent and stored: as JSON, as custom
// resources are. Their types have no protobuf form, and one object of such a type among the answers
// of a group whose other kinds have one would fail for every client that prefers protobuf.
//
// There is one type for each kind, which is its internal form, too. A kind with a single version
// needs no other, and there will not be a second one.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
package kinds

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"

	"gatehouse.dev/apiserver"
	admissionregistrationv1alpha1 "gatehouse.dev/removed/apis/admissionregistration/v1alpha1"
	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
	settingsv1alpha1 "gatehouse.dev/removed/apis/settings/v1alpha1"
)

// Resources are the resources of the removed kinds. Each is a storage of its own, and may be served
// without the others.
var Resources = []schema.GroupVersionResource{
	admissionregistrationv1alpha1.InitializerConfigurations, settingsv1alpha1.PodPresets,
	policyv1beta1.PodSecurityPolicies,
}

var (
	// Scheme knows the removed kinds in their versions and as internal ones.
	Scheme = newScheme()

	// Versions knows them in their versions only: it is for naming them in OpenAPI.
	Versions = newVersions()

	// Codecs encode, decode and convert them.
	Codecs = serializer.NewCodecFactory(Scheme)

	// ParameterCodec decodes the parameters of requests for them.
	ParameterCodec = runtime.NewParameterCodec(Scheme)

	// Serializer encodes and decodes what clients get and send.
	Serializer = apiserver.JSONSerializer(Codecs)

	// StorageVersions are the versions in which objects are stored.
	StorageVersions = schema.GroupVersions{
		admissionregistrationv1alpha1.SchemeGroupVersion, settingsv1alpha1.SchemeGroupVersion,
		policyv1beta1.SchemeGroupVersion,
	}

	// StorageCodec encodes and decodes what is stored.
	StorageCodec = Codecs.LegacyCodec(StorageVersions...)
)

func newVersions() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(admissionregistrationv1alpha1.AddToScheme(scheme))
	utilruntime.Must(policyv1beta1.AddToScheme(scheme))
	utilruntime.Must(settingsv1alpha1.AddToScheme(scheme))
	return scheme
}

func newScheme() *runtime.Scheme {
	scheme := newVersions()
	internal := func(version schema.GroupVersion, kinds ...runtime.Object) {
		scheme.AddKnownTypes(schema.GroupVersion{Group: version.Group, Version: runtime.APIVersionInternal}, kinds...)
	}
	internal(admissionregistrationv1alpha1.SchemeGroupVersion,
		&admissionregistrationv1alpha1.InitializerConfiguration{},
		&admissionregistrationv1alpha1.InitializerConfigurationList{})
	internal(policyv1beta1.SchemeGroupVersion, &policyv1beta1.PodSecurityPolicy{},
		&policyv1beta1.PodSecurityPolicyList{})
	internal(settingsv1alpha1.SchemeGroupVersion, &settingsv1alpha1.PodPreset{}, &settingsv1alpha1.PodPresetList{})
	// What requests of all groups share: options, and errors.
	metav1.AddToGroupVersion(scheme, metav1.Unversioned)
	scheme.AddTypeDefaultingFunc(&policyv1beta1.PodSecurityPolicy{},
		func(o any) { defaultPodSecurityPolicy(o.(*policyv1beta1.PodSecurityPolicy)) })
	scheme.AddTypeDefaultingFunc(&settingsv1alpha1.PodPreset{},
		func(o any) { defaultPodPreset(o.(*settingsv1alpha1.PodPreset)) })
	return scheme
}

// Storage is what serves a resource.
type Storage interface {
	rest.StandardStorage
	rest.StorageWithReadiness
}

// NewStorage makes what serves one of Resources. It is stored as options say; they must encode with
// StorageCodec.
func NewStorage(resource schema.GroupVersionResource, options generic.RESTOptionsGetter) (Storage, error) {
	switch resource {
	case admissionregistrationv1alpha1.InitializerConfigurations:
		return complete(initializerConfigurationStore(), options)
	case policyv1beta1.PodSecurityPolicies:
		store, err := complete(podSecurityPolicyStore(), options)
		return podSecurityPolicyStorage{store}, err
	case settingsv1alpha1.PodPresets:
		return complete(podPresetStore(), options)
	}
	return nil, fmt.Errorf("%s is not a resource that was removed from Kubernetes", resource)
}

func complete(store *genericregistry.Store, options generic.RESTOptionsGetter) (*genericregistry.Store, error) {
	return store, store.CompleteWithOptions(&generic.StoreOptions{RESTOptions: options})
}
