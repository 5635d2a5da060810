// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package client reaches a server's decisions: it is the client of the API group
// decisions.gatehouse.dev for all that ask for them.
package client

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func init() {
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
}

// New returns a client of the API group that knows its kinds.
func New(config *rest.Config) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/apis", &v1alpha1.SchemeGroupVersion
	config.NegotiatedSerializer = codecs.WithoutConversion()
	return rest.RESTClientFor(config)
}

// Request is a request for the decisions in a namespace, empty for all.
func Request(client rest.Interface, namespace string, options metav1.ListOptions) *rest.Request {
	return client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(v1alpha1.Decisions.Resource).
		VersionedParams(&options, metav1.ParameterCodec)
}

// pageSize is the number of decisions in one request. It bounds the memory that a list takes on the
// server.
const pageSize = 500

// List returns the decisions in a namespace, empty for all, the newest last.
func List(ctx context.Context, client rest.Interface, namespace string, options metav1.ListOptions) (
	[]v1alpha1.Decision, error) {
	return list(ctx, options, func(options metav1.ListOptions) *rest.Request {
		return Request(client, namespace, options)
	})
}

// ListOfWebhook returns the decisions that a replica of gatehouse webhook has, as List does.
func ListOfWebhook(ctx context.Context, client rest.Interface, namespace string, options metav1.ListOptions) (
	[]v1alpha1.Decision, error) {
	return list(ctx, options, func(options metav1.ListOptions) *rest.Request {
		return client.Get().AbsPath("/decisions").Param("namespace", namespace).
			VersionedParams(&options, metav1.ParameterCodec)
	})
}

// list returns the decisions of all pages.
func list(ctx context.Context, options metav1.ListOptions, request func(metav1.ListOptions) *rest.Request) (
	[]v1alpha1.Decision, error) {
	var all []v1alpha1.Decision
	for options.Limit = pageSize; ; {
		var list v1alpha1.DecisionList
		if err := request(options).Do(ctx).Into(&list); err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
		if options.Continue = list.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

// NotServed reports whether err, of a request for decisions, means that the server has none: it
// isn't Gatehouse, or it records none. kube-apiserver answers users without the right to decisions
// with Forbidden even if it has no such API, so NotServed then looks for the API group, which every
// user may read.
func NotServed(ctx context.Context, client rest.Interface, err error) bool {
	if apierrors.IsForbidden(err) {
		group := v1alpha1.SchemeGroupVersion
		err = client.Get().AbsPath("/apis", group.Group, group.Version).Do(ctx).Error()
	}
	return apierrors.IsNotFound(err)
}
