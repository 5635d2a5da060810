// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chartrun

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/test/servertest"
)

// podIP is that of the pod. There is one network for all pods, so that two that listen on the same
// port don't go together.
var podIP = netip.MustParseAddr("10.244.0.2")

// A Node runs pods.
type Node struct {
	client kubernetes.Interface
	// program is what the images hold, whatever their name.
	program string
	// api is the cluster IP of the Service kubernetes.
	api string
}

// newNode is a node of the cluster whose API server is at an address, host:port. All images have the
// one program.
func newNode(t testing.TB, client kubernetes.Interface, server, program string) *Node {
	t.Helper()
	n := &Node{client: client, program: program}
	servertest.Retry(t, "the Service kubernetes", func() error {
		service, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), "kubernetes",
			metav1.GetOptions{})
		n.api = service.Spec.ClusterIP
		return err
	})
	forward(t, net.JoinHostPort(n.api, "443"), func() (string, error) { return server, nil })
	return n
}

// Serve is the proxy of a Service: connections to it go to its EndpointSlices' ready endpoints.
func (n *Node) Serve(t testing.TB, service *corev1.Service) {
	t.Helper()
	for _, port := range service.Spec.Ports {
		forward(t, net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(port.Port))), func() (string, error) {
			slices, err := n.client.DiscoveryV1().EndpointSlices(service.Namespace).List(t.Context(),
				metav1.ListOptions{
					LabelSelector: labels.Set{discoveryv1.LabelServiceName: service.Name}.String()})
			if err != nil {
				return "", err
			}
			return endpoint(slices.Items, port.Name)
		})
	}
}

// endpoint is one that is ready, for a port.
func endpoint(all []discoveryv1.EndpointSlice, name string) (string, error) {
	for _, slice := range all {
		for _, port := range slice.Ports {
			for _, e := range slice.Endpoints {
				if *port.Name == name && *e.Conditions.Ready {
					return net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*port.Port))), nil
				}
			}
		}
	}
	return "", errors.New("no endpoint is ready")
}

// Publish is the endpoints controller: it writes down, as an EndpointSlice of the Service, where a
// pod is, which must be one of the Service's and ready.
func (n *Node) Publish(t testing.TB, service *corev1.Service, pod *corev1.Pod) {
	t.Helper()
	if !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels)) {
		t.Fatalf("the Service selects %v, the pod has %v", service.Spec.Selector, pod.Labels)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{GenerateName: service.Name + "-",
			Labels: map[string]string{discoveryv1.LabelServiceName: service.Name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{podIP.String()},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
	}
	for _, port := range service.Spec.Ports {
		number, err := portOf(&pod.Spec.Containers[0], port.TargetPort)
		if err != nil {
			t.Fatal(err)
		}
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: new(port.Name), Port: new(number)})
	}
	if _, err := n.client.DiscoveryV1().EndpointSlices(service.Namespace).Create(t.Context(), slice,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// portOf is the number of a container's port.
func portOf(c *corev1.Container, port intstr.IntOrString) (int32, error) {
	if port.Type == intstr.Int {
		return port.IntVal, nil
	}
	i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port.StrVal })
	if i < 0 {
		return 0, fmt.Errorf("container %s has no port %q", c.Name, port.StrVal)
	}
	return c.Ports[i].ContainerPort, nil
}

// forward has connections to an address go where to says.
func forward(t testing.TB, address string, to func() (string, error)) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				target, err := to()
				if err != nil {
					return
				}
				other, err := net.Dial("tcp", target)
				if err != nil {
					return
				}
				defer other.Close()
				join(connection, other)
			}()
		}
	}()
}

// join copies both ways until both are at their ends.
func join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // who hangs up is no failure of the proxy
			_ = way[0].(*net.TCPConn).CloseWrite()
		})
	}
	both.Wait()
}
