// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// noHostNetwork is a plugin that keeps pods out of their node's network.
type noHostNetwork struct{}

func (noHostNetwork) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetObject().(*corev1.Pod).Spec.HostNetwork {
		return admission.NewForbidden(a, errors.New("spec.hostNetwork: must be false"))
	}
	return nil
}

var NoHostNetwork = plugin.Descriptor{
	Name:       "NoHostNetwork",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Create},
	Resources:  plugin.On(corev1.Resource("pods")),
	New:        func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return noHostNetwork{}, nil },
}

// test stands for the *testing.T of a test. It prints failures.
type test struct{}

func (test) Helper()                           {}
func (test) Cleanup(func())                    {}
func (test) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (test) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// A test builds the plugin, sends it requests and says what is expected. The test fails if the
// expectation is wrong.
func Example() {
	t := test{} // a *testing.T

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	subject := plugintest.New(t, NoHostNetwork, "")
	subject.Validate(t, plugintest.Create(pod).By("alice")).Admitted(t)

	pod.Spec.HostNetwork = true
	refusal := `pods "web" is forbidden: spec.hostNetwork: must be false`
	subject.Validate(t, plugintest.Create(pod).By("alice")).Refused(t, 403, refusal)

	subject.Validate(t, plugintest.Create(pod)).Admitted(t)
	// Output: the request should be admitted, but is refused with 403: pods "web" is forbidden: spec.hostNetwork: must be false
}

// A request for another operation or resource isn't the plugin's: the chain doesn't call it.
func ExampleResult() {
	t := test{} // a *testing.T

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	subject := plugintest.New(t, NoHostNetwork, "")
	fmt.Println(subject.Validate(t, plugintest.Create(pod)).Handled)
	fmt.Println(subject.Validate(t, plugintest.Delete(pod)).Handled)
	fmt.Println(subject.Validate(t, plugintest.Create(pod).On("pods", "binding")).Handled)
	// Output:
	// true
	// false
	// false
}

// A plugin finds the objects of the cluster that it was built in. A test sets in Env what else the
// plugin needs.
func ExampleNewCluster() {
	t := test{} // a *testing.T

	cluster := plugintest.NewCluster(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	cluster.Env.APIServerID = "server-1"
	reader := plugin.Descriptor{
		Name:       "Reader",
		Phases:     plugin.Validating,
		Operations: []admission.Operation{admission.Create},
		Access:     []rbacv1.PolicyRule{plugin.To("get", "", "namespaces")},
		New: func(_ io.Reader, env *plugin.Env) (plugin.Plugin, error) {
			namespace, err := env.Client.CoreV1().Namespaces().Get(context.Background(), "shop", metav1.GetOptions{})
			fmt.Println(namespace.Name, env.APIServerID)
			return noHostNetwork{}, err
		},
	}
	subject := cluster.Build(t, reader, "")
	fmt.Println(subject.Rights())
	// Output:
	// shop server-1
	// [get namespaces]
}
