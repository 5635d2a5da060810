package backend

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/util/proxy"
	corev1listers "k8s.io/client-go/listers/core/v1"
)

// resolve returns the host and port at which the service is served now. A service that isn't there,
// doesn't have the port, or has no ready endpoint is an error.
func resolve(services corev1listers.ServiceLister, slices proxy.EndpointSliceGetter, namespace, name string,
	port int32) (string, error) {
	service, err := services.Services(namespace).Get(name)
	if err != nil {
		return "", err
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return cluster(services, namespace, name, port)
	}
	if service.Spec.ClusterIP != "" && service.Spec.ClusterIP != corev1.ClusterIPNone {
		// Somebody else may route what is sent to the IP when nobody wrote down the endpoints. An
		// EndpointSlice without ready endpoints however says that nobody would answer.
		known, err := slices.GetEndpointSlices(namespace, name)
		if err != nil {
			return "", err
		}
		if len(known) == 0 {
			return cluster(services, namespace, name, port)
		}
	}
	u, err := proxy.ResolveEndpoint(services, slices, namespace, name, port)
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

func cluster(services corev1listers.ServiceLister, namespace, name string, port int32) (string, error) {
	u, err := proxy.ResolveCluster(services, namespace, name, port)
	if err != nil {
		return "", err
	}
	return u.Host, nil
}
