// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initializers_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

const one, two = "one.example.com", "two.example.com"

// Get, list and watch of ordinary clients don't show an uninitialized object, and then they show it
// as if it were new. That holds for kinds with and without a watch cache and for custom resources.
func TestHidden(t *testing.T) {
	c := startCluster(t, gatehousetest.WithConfig(func(c *server.Config) { c.API.Etcd.WatchCacheSizes = []string{"secrets#0"} }))
	widgets := c.widgets(t)
	for _, resource := range []schema.GroupVersionResource{leases, secrets, widgets} {
		t.Run(resource.Resource, func(t *testing.T) {
			c.configure(t, resource, one, two)
			ns := c.Namespace(t, nil)
			ordinary, full := at(c.Dynamic, resource, ns), at(c.full, resource, ns)
			seen := watching(t, c.Dynamic, resource, ns, metav1.ListOptions{})
			seenByName := watching(t, c.Dynamic, resource, ns, metav1.ListOptions{FieldSelector: "metadata.name=b"})
			seenAll := watching(t, c.full, resource, ns, metav1.ListOptions{})

			for _, name := range []string{"a", "b", "c"} {
				c.createHidden(t, resource, ns, newObject(resource, name))
			}
			for _, version := range []string{"", "0"} {
				if _, err := ordinary.Get(t.Context(), "b",
					metav1.GetOptions{ResourceVersion: version}); !apierrors.IsNotFound(err) {
					t.Errorf("get b of version %q: %v", version, err)
				}
			}
			lists := func(options metav1.ListOptions, ordinaryWant, fullWant []string) {
				t.Helper()
				for _, test := range []struct {
					what string
					got  []string
					want []string
				}{
					{"an ordinary client", names(t, ordinary.List, options), ordinaryWant},
					{"who asks for all", names(t, full.List, options), fullWant},
				} {
					if !slices.Equal(test.got, test.want) {
						t.Errorf("%s lists %q with %+v, want %q", test.what, test.got, options, test.want)
					}
				}
			}
			lists(metav1.ListOptions{}, nil, []string{"a", "b", "c"})
			c.initialize(t, resource, ns, "b", "one", two)
			lists(metav1.ListOptions{}, nil, []string{"a", "b", "c"})
			c.initialize(t, resource, ns, "b", "two", "")
			lists(metav1.ListOptions{}, []string{"b"}, []string{"a", "b", "c"})
			lists(metav1.ListOptions{FieldSelector: "metadata.name=c"}, nil, []string{"c"})
			lists(metav1.ListOptions{LabelSelector: "two"}, []string{"b"}, []string{"b"})
			lists(metav1.ListOptions{Limit: 1}, []string{"b"}, []string{"a", "b", "c"})

			for what, got := range map[string]string{
				"an ordinary watch":         says(received(t, seen)),
				"an ordinary watch, of one": says(received(t, seenByName)),
			} {
				if got != "ADDED b" {
					t.Errorf("%s shows %s, want ADDED b", what, got)
				}
			}
			for _, want := range []string{
				"ADDED a " + one + "," + two, "ADDED b " + one + "," + two, "ADDED c " + one + "," + two,
				"MODIFIED b " + two, "MODIFIED b",
			} {
				if got := says(received(t, seenAll)); got != want {
					t.Errorf("who asks for all sees %s, want %s", got, want)
				}
			}
			// Neither what is deleted while hidden is seen, nor what goes on afterwards is hidden.
			for _, name := range []string{"a", "b"} {
				if err := ordinary.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
			}
			if got := says(received(t, seenByName)); got != "DELETED b" {
				t.Errorf("an ordinary watch shows %s, want DELETED b", got)
			}
		})
	}
}

// names are those that a list has, over all its pages.
func names(t *testing.T, list func(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList,
	error), options metav1.ListOptions) []string {
	t.Helper()
	var found []string
	for {
		got, err := list(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		if options.Limit > 0 && int64(len(got.Items)) > options.Limit {
			t.Errorf("%d objects with %+v", len(got.Items), options)
		}
		for _, item := range got.Items {
			found = append(found, item.GetName())
		}
		if options.Continue = got.GetContinue(); options.Continue == "" {
			return found
		}
	}
}

// Informers of ordinary clients, protobuf and all, never see an uninitialized object.
func TestHiddenFromInformers(t *testing.T) {
	c := startCluster(t)
	c.configure(t, pods, one)
	ns := c.Namespace(t, nil)
	events := make(chan string, 100)
	factory := informers.NewSharedInformerFactoryWithOptions(c.Client, 0, informers.WithNamespace(ns))
	informer := factory.Core().V1().Pods()
	if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			events <- "added " + object.(*corev1.Pod).Name + " " + object.(*corev1.Pod).Labels["one"]
		},
		UpdateFunc: func(_, object any) { events <- "updated " + object.(*corev1.Pod).Name },
		DeleteFunc: func(any) { events <- "deleted" },
	}); err != nil {
		t.Fatal(err)
	}
	c.createHidden(t, pods, ns, newPod("before"))
	factory.StartWithContext(t.Context())
	factory.WaitForCacheSyncWithContext(t.Context())
	c.createHidden(t, pods, ns, newPod("after"))
	c.createHidden(t, pods, ns, newPod("deleted"))
	if err := at(c.Dynamic, pods, ns).Delete(t.Context(), "deleted", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"after", "before"} {
		c.initialize(t, pods, ns, name, "one", "")
		if got, want := received(t, events), "added "+name+" done"; got != want {
			t.Errorf("the informer says %s, want %s", got, want)
		}
	}
	if found := informer.Informer().GetStore().ListKeys(); len(found) != 2 {
		t.Errorf("the informer has %q", found)
	}
	select {
	case got := <-events:
		t.Errorf("the informer says %s, too", got)
	default:
	}
}

// Without an InitializerConfiguration nothing is hidden and nobody waits.
func TestWithoutConfiguration(t *testing.T) {
	c := startCluster(t)
	ns := c.Namespace(t, nil)
	if _, err := at(c.Dynamic, leases, ns).Create(t.Context(), newObject(leases, "a"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := at(c.Dynamic, leases, ns).Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/apis/admissionregistration.k8s.io/v1alpha1/initializerconfigurations",
		"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"} {
		if _, err := c.Client.Discovery().RESTClient().Get().AbsPath(path).Do(t.Context()).Raw(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// widgets are a custom resource.
func (c *cluster) widgets(t *testing.T) schema.GroupVersionResource {
	t.Helper()
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
				},
			}},
		},
	}
	if _,
		err := apiextensions.NewForConfigOrDie(
		c.Config).ApiextensionsV1().CustomResourceDefinitions().Create(t.Context(), crd,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the custom resource to be served", func() bool {
		_, err := at(c.Dynamic, resource, "default").List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	return resource
}
