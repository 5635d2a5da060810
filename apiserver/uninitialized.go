package apiserver

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/apis/initializers"
	"gatehouse.dev/legacy/uninitialized"
)

// restOptions makes the storage of every kind that delegate describes; see storage.Backend.
func (c *config) restOptions(delegate generic.RESTOptionsGetter,
	cached func(schema.GroupResource) bool) generic.RESTOptionsGetter {
	getter := c.backend.RESTOptions(delegate, cached)
	if c.options.HideUninitialized {
		getter = uninitialized.RESTOptions(getter, c.options.InitializationTimeout, c.ready)
	}
	return getter
}

// allocated returns the client configuration and the informers of the controllers that allocate IPs
// and ports to Services, and free those of no Service. They are the server's own, except that they
// see hidden Services, which must not lose what they were given.
func (c *config) allocated(s *server.GenericAPIServer) (*rest.Config, informers.SharedInformerFactory, error) {
	if !c.options.HideUninitialized {
		return c.generic.LoopbackClientConfig, prompt{c.informers}, nil
	}
	config := initializers.Including(c.generic.LoopbackClientConfig)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, informerResync,
		informers.WithTransform(withoutManagedFields))
	return config, prompt{factory},
		s.AddPostStartHook("gatehouse/start-allocation-informers", func(hook server.PostStartHookContext) error {
			factory.StartWithContext(hook)
			return nil
		})
}
