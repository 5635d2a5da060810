// Package namespaceexists is the plugin NamespaceExists: a request for an object in a namespace that doesn't
// exist is refused, with the 404 that reading the namespace gets.
//
// NamespaceLifecycle, which is on by default, refuses the same in the mutating phase, except for
// deletions. This plugin is for who disables that one but still wants namespaces to
// be declared before they are used: it never treats a namespace differently for being deleted, and protects none.
//
// The plugin looks for the namespace in the cache. As that may lag behind, only a live read
// says that a namespace doesn't exist. Requests for Namespace objects themselves and for cluster-scoped objects pass.
package namespaceexists

import (
	"context"
	"errors"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"gatehouse.dev/chain"
	"gatehouse.dev/plugins/internal/pluginconfig"
)

const name = "NamespaceExists"

// Descriptor is NamespaceExists, not yet built. It needs a client and informers.
var Descriptor = chain.Descriptor{
	Name:    name,
	Summary: "Refuses requests in a namespace that doesn't exist",
	Phases:  chain.Validating,
	New: func(config io.Reader, env *chain.Env) (admission.Interface, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if env.Client == nil {
			return nil, errors.New(name + " needs a client")
		}
		if env.Informers == nil {
			return nil, errors.New(name + " needs informers")
		}
		namespaces := env.Informers.Core().V1().Namespaces()
		p := &plugin{
			Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete),
			client:  env.Client,
			cache:   namespaces.Lister(),
		}
		p.SetReadyFunc(namespaces.Informer().HasSynced)
		return p, nil
	},
}

type plugin struct {
	*admission.Handler
	client kubernetes.Interface
	cache  corev1listers.NamespaceLister
}

var _ admission.ValidationInterface = &plugin{}

// Validate refuses the request if its namespace doesn't exist.
func (p *plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetNamespace() == "" || a.GetKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		return nil
	}
	if !p.WaitForReady() {
		return admission.NewForbidden(a, errors.New("not yet ready to handle request"))
	}

	_, err := p.cache.Get(a.GetNamespace())
	if apierrors.IsNotFound(err) {
		_, err = p.client.CoreV1().Namespaces().Get(ctx, a.GetNamespace(), metav1.GetOptions{})
	}
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return err
	default:
		// Whatever else went wrong says nothing about the request.
		return apierrors.NewInternalError(err)
	}
}
