// Package client reaches a server's decisions: it is the client of the API group
// decisions.gatehouse.dev for all that ask for them.
package client

import (
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

// New is a client of the API group, which knows its kinds.
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
