// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	admissionregistrationv1listers "k8s.io/client-go/listers/admissionregistration/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	serviceaccountcontroller "k8s.io/kubernetes/pkg/controller/serviceaccount"
	kubefeatures "k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/serviceaccount"
)

// tokenGetter reads the objects that tokens of service accounts are bound to. Kubernetes reads webhook
// configurations in any case, and so never gets ready if their API is off. Here they are read only if
// a feature gate has tokens bound to them.
//
// Source: k8s.io/kubernetes/pkg/kubeapiserver/options/authentication.go#BuiltInAuthenticationOptions.ApplyTo b420acc0
func (c *config) tokenGetter(informers informers.SharedInformerFactory) serviceaccount.ServiceAccountTokenGetter {
	core, webhooks := informers.Core().V1(), informers.Admissionregistration().V1()
	var nodes corev1listers.NodeLister
	if utilfeature.DefaultFeatureGate.Enabled(kubefeatures.ServiceAccountTokenNodeBindingValidation) {
		nodes = core.Nodes().Lister()
	}
	var validating admissionregistrationv1listers.ValidatingWebhookConfigurationLister
	var mutating admissionregistrationv1listers.MutatingWebhookConfigurationLister
	if utilfeature.DefaultFeatureGate.Enabled(features.APIServerWebhookAuthenticationToken) {
		validating = webhooks.ValidatingWebhookConfigurations().Lister()
		mutating = webhooks.MutatingWebhookConfigurations().Lister()
	}
	return serviceaccountcontroller.NewGetterFromClient(c.client, core.Secrets().Lister(),
		core.ServiceAccounts().Lister(), core.Pods().Lister(), nodes, validating, mutating)
}
