// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	aggregationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregation "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// The API server of somebody else and what converts custom resources are reached at a Service's
// cluster IP, or at the name that it stands for; with --enable-aggregator-routing at an endpoint.
// Source: upstream's buildServiceResolver in cmd/kube-apiserver/app/server.go.
func TestServices(t *testing.T) {
	t.Parallel()
	c := shared()
	routing := servertest.Start(t, gatehousetest.WithConfig(func(c *server.Config) { c.API.EnableAggregatorRouting = true }))
	t.Run("cluster IP", func(t *testing.T) {
		service := clusterIPService(t, c, "cluster-ip")
		aggregate(t, c, service, nil)
		awaitAvailability(t, c, service, "https://"+net.JoinHostPort(service.Spec.ClusterIP, "443")+"/")
	})
	t.Run("endpoints", func(t *testing.T) {
		service := clusterIPService(t, routing, "endpoints")
		aggregate(t, routing, service, nil)
		awaitAvailability(t, routing, service, "https://"+net.JoinHostPort(endpointAddress, "8443")+"/")
	})
	t.Run("external name of an API", func(t *testing.T) {
		service, ca, port := externalName(t, c, "external-api", func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/things") {
				fmt.Fprint(w, `{"kind":"ThingList","apiVersion":"external-api.example.com/v1","items":[]}`)
				return
			}
			fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"external-api.example.com/v1",`+
				`"resources":[{"name":"things","kind":"Thing","namespaced":false,"verbs":["list"]}]}`)
		})
		service.Spec.Ports = []corev1.ServicePort{{Port: port}}
		aggregate(t, c, service, ca)
		servertest.Retry(t, "the API behind the service", func() error {
			body, err := c.Client.Discovery().RESTClient().Get().AbsPath("/apis/external-api.example.com/v1/things").
				DoRaw(t.Context())
			if err == nil && !strings.Contains(string(body), "ThingList") {
				err = fmt.Errorf("it answers %s", body)
			}
			return err
		})
	})
	t.Run("external name of a conversion", func(t *testing.T) {
		service, ca, port := externalName(t, c, "external-conversion", convert)
		converted(t, c, service, ca, port)
	})
}

// endpointAddress is nobody's, but for documentation.
const endpointAddress = "192.0.2.99"

// clusterIPService is a service with one endpoint.
func clusterIPService(t *testing.T, c *servertest.Cluster, name string) *corev1.Service {
	t.Helper()
	service, err := c.Client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt(8443)}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{endpointAddress}}},
		Ports:       []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(8443))}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return service
}

// aggregate makes an API of the service's name, whose server has a certificate of ca, or any where
// that is nil.
func aggregate(t *testing.T, c *servertest.Cluster, service *corev1.Service, ca []byte) {
	t.Helper()
	group := service.Name + ".example.com"
	_, err := aggregation.NewForConfigOrDie(c.Config).ApiregistrationV1().APIServices().Create(t.Context(),
		&aggregationv1.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: "v1." + group},
			Spec: aggregationv1.APIServiceSpec{
				Service: &aggregationv1.ServiceReference{Namespace: service.Namespace, Name: service.Name,
					Port: &service.Spec.Ports[0].Port},
				Group: group, Version: "v1", GroupPriorityMinimum: 1000, VersionPriority: 10,
				InsecureSkipTLSVerify: ca == nil, CABundle: ca,
			},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// awaitAvailability waits until the server says where it didn't find the API of a service.
func awaitAvailability(t *testing.T, c *servertest.Cluster, service *corev1.Service, address string) {
	t.Helper()
	services := aggregation.NewForConfigOrDie(servertest.Quick(c.Config)).ApiregistrationV1().APIServices()
	servertest.Retry(t, "the server to look for "+address, func() error {
		found, err := services.Get(t.Context(), "v1."+service.Name+".example.com", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range found.Status.Conditions {
			if strings.Contains(condition.Message, address) {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %v", found.Status.Conditions)
	})
}

// externalName is a service that stands for the name localhost, on which a server of its own
// answers on the port.
func externalName(t *testing.T, c *servertest.Cluster, name string,
	answer http.HandlerFunc) (service *corev1.Service, ca []byte, port int32) {
	t.Helper()
	authority := newAuthority(t, t.TempDir())
	certPEM, keyPEM, err := authority.Serving(name, []string{name + ".default.svc"})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	}))
	backend.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	backend.StartTLS()
	t.Cleanup(backend.Close)
	service, err = c.Client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return service, authority.CertPEM(), int32(backend.Listener.Addr().(*net.TCPAddr).Port)
}

// converted wants custom resources of one version to be had in another, by the service.
func converted(t *testing.T, c *servertest.Cluster, service *corev1.Service, ca []byte, port int32) {
	t.Helper()
	version := func(name string, storage bool) extensionsv1.CustomResourceDefinitionVersion {
		return extensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: storage,
			Schema: &extensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &extensionsv1.JSONSchemaProps{Type: "object"},
			}}
	}
	const group = "conversion.example.com"
	_, err := extensions.NewForConfigOrDie(c.Config).ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(),
		&extensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "gadgets." + group},
			Spec: extensionsv1.CustomResourceDefinitionSpec{
				Group: group, Scope: extensionsv1.ClusterScoped,
				Names:    extensionsv1.CustomResourceDefinitionNames{Plural: "gadgets", Kind: "Gadget"},
				Versions: []extensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v2", false)},
				Conversion: &extensionsv1.CustomResourceConversion{
					Strategy: extensionsv1.WebhookConverter,
					Webhook: &extensionsv1.WebhookConversion{
						ConversionReviewVersions: []string{"v1"},
						ClientConfig: &extensionsv1.WebhookClientConfig{CABundle: ca,
							Service: &extensionsv1.ServiceReference{Namespace: service.Namespace, Name: service.Name,
								Port: &port}},
					},
				},
			},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gadgets := func(version string) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: group, Version: version, Resource: "gadgets"}
	}
	gadget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Gadget",
		"metadata": map[string]any{"name": "g"}}}
	servertest.Retry(t, "the first object", func() error {
		_, err := c.Dynamic.Resource(gadgets("v1")).Create(t.Context(), gadget, metav1.CreateOptions{})
		return err
	})
	// the server's cache of services is another than its answer to who made one
	servertest.Retry(t, "the object in the other version", func() error {
		_, err := c.Dynamic.Resource(gadgets("v2")).Get(t.Context(), "g", metav1.GetOptions{})
		return err
	})
}

// convert answers a ConversionReview by objects with nothing changed but their version.
func convert(w http.ResponseWriter, r *http.Request) {
	var review extensionsv1.ConversionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := &extensionsv1.ConversionResponse{UID: review.Request.UID,
		Result: metav1.Status{Status: metav1.StatusSuccess}}
	for _, object := range review.Request.Objects {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal(object.Raw, &u.Object); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		u.SetAPIVersion(review.Request.DesiredAPIVersion)
		answer.ConvertedObjects = append(answer.ConvertedObjects, runtime.RawExtension{Object: u})
	}
	review.Request, review.Response = nil, answer
	_ = json.NewEncoder(w).Encode(review) // to a client that may be gone
}
