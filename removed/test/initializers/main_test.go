// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package initializers_test runs real servers with the plugin Initializers, and is what there is
// around them: creators, initializers, and those who must not see what is not yet initialized.
package initializers_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"gatehouse.dev/apiserver"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/plugins"
	"gatehouse.dev/removed"
	admissionregistrationv1alpha1 "gatehouse.dev/removed/apis/admissionregistration/v1alpha1"
	"gatehouse.dev/removed/apis/initializers"
	"gatehouse.dev/removed/serving"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

var (
	leases   = coordinationv1.SchemeGroupVersion.WithResource("leases")
	secrets  = corev1.SchemeGroupVersion.WithResource("secrets")
	services = corev1.SchemeGroupVersion.WithResource("services")
	pods     = corev1.SchemeGroupVersion.WithResource("pods")
)

func TestMain(m *testing.M) { new(servertest.Suite).Main(m) }

// cluster is a running server, as its administrator sees it, and as one who asks for all.
type cluster struct {
	*servertest.Cluster
	full *dynamic.DynamicClient
}

var withInitializers = gatehousetest.WithPlugins("Initializers")

func startCluster(t testing.TB, options ...gatehousetest.Option) *cluster {
	t.Helper()
	return connect(servertest.Start(t, append(options, withInitializers)...))
}

func connect(c *servertest.Cluster) *cluster {
	return &cluster{c, dynamic.NewForConfigOrDie(initializers.Including(servertest.Quick(c.Config)))}
}

// timeout makes creations wait so long.
func timeout(d time.Duration) gatehousetest.Option {
	return gatehousetest.WithConfig(func(c *server.Config) {
		c.Plugins = removed.Add(plugins.List, apiserver.NewFormer(func([]string) apiserver.Former {
			return serving.API{Options: serving.Options{HideUninitialized: true, InitializationTimeout: d}}
		}))
	})
}

// configure makes objects of a resource wait for initializers, in this order, and waits until they
// do.
func (c *cluster) configure(t testing.TB, resource schema.GroupVersionResource, names ...string) {
	t.Helper()
	rule := fmt.Sprintf(`[{apiGroups: [%q], apiVersions: [%q], resources: [%q]}]`, resource.Group, resource.Version,
		resource.Resource)
	var list strings.Builder
	for _, name := range names {
		fmt.Fprintf(&list, "- {name: %s, rules: %s}\n", name, rule)
	}
	configuration := servertest.Parsed(t, `
apiVersion: admissionregistration.k8s.io/v1alpha1
kind: InitializerConfiguration
metadata: {name: `+resource.Resource+`}
initializers:
`+list.String())
	if _, err := c.Dynamic.Resource(admissionregistrationv1alpha1.InitializerConfigurations).Create(t.Context(),
		configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.awaitConfiguration(t, resource, names...)
}

// awaitConfiguration waits until objects of a resource wait for these initializers.
func (c *cluster) awaitConfiguration(t testing.TB, resource schema.GroupVersionResource, names ...string) {
	t.Helper()
	probe := newObject(resource, "probe")
	switch resource.Resource {
	case "pods":
		probe = newPod("probe")
	case "services":
		probe = newService("probe")
	case "horizontalpodautoscalers":
		probe = newAutoscaler(resource, "probe")
	}
	servertest.Eventually(t, "the configuration to apply", func() bool {
		got, err := c.Dynamic.Resource(resource).Namespace("default").Create(t.Context(), probe,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && got.GetAnnotations()[initializers.PendingAnnotation] == strings.Join(names, ",")
	})
}

var kinds = map[string]string{"leases": "Lease", "secrets": "Secret", "pods": "Pod", "services": "Service",
	"widgets": "Widget", "horizontalpodautoscalers": "HorizontalPodAutoscaler"}

// at is where a client has the objects of a namespace.
func at(client dynamic.Interface, resource schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	return client.Resource(resource).Namespace(namespace)
}

// newObject is an object without content.
func newObject(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetAPIVersion(resource.GroupVersion().String())
	u.SetKind(kinds[resource.Resource])
	u.SetName(name)
	return u
}

func newPod(name string) *unstructured.Unstructured {
	u := newObject(pods, name)
	u.Object["spec"] = map[string]any{"containers": []any{map[string]any{"name": "c", "image": "registry.example/c"}}}
	return u
}

// newAutoscaler is the same in all versions.
func newAutoscaler(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	u := newObject(resource, name)
	u.Object["spec"] = map[string]any{"maxReplicas": int64(1),
		"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}
	return u
}

func newService(name string) *unstructured.Unstructured {
	u := newObject(services, name)
	u.Object["spec"] = map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}
	return u
}

// outcome is what came of a request.
type outcome struct {
	object *unstructured.Unstructured
	err    error
}

// create creates an object, whose creator waits.
func (c *cluster) create(t testing.TB, resource schema.GroupVersionResource, namespace string,
	object *unstructured.Unstructured) <-chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	go func() {
		created, err := at(c.Dynamic, resource, namespace).Create(t.Context(), object, metav1.CreateOptions{})
		done <- outcome{created, err}
	}()
	return done
}

// createHidden creates an object without waiting for it.
func (c *cluster) createHidden(t testing.TB, resource schema.GroupVersionResource, namespace string,
	object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	body, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	root := "/apis/" + resource.Group
	if resource.Group == "" {
		root = "/api"
	}
	raw, err := c.Client.Discovery().RESTClient().Post().AbsPath(root, resource.Version, "namespaces", namespace,
		resource.Resource).
		Param(initializers.Parameter, "true").SetHeader("Content-Type",
		"application/json").Body(body).Do(t.Context()).Raw()
	if err != nil {
		t.Fatalf("creating %s: %v\n%s", object.GetName(), err, raw)
	}
	created := &unstructured.Unstructured{}
	if err := json.Unmarshal(raw, &created.Object); err != nil {
		t.Fatal(err)
	}
	if created.GetAnnotations()[initializers.PendingAnnotation] == "" {
		t.Fatalf("%s doesn't wait for anything", object.GetName())
	}
	return created
}

// stored waits until an object is there for one who sees all.
func (c *cluster) stored(t testing.TB, resource schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	servertest.Eventually(t, name+" to be stored", func() bool {
		_, err := at(c.full, resource, namespace).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil
	})
}

// initialize is what an initializer does: it sets the label that it is called by, and leaves the
// rest of the list.
func (c *cluster) initialize(t testing.TB, resource schema.GroupVersionResource, namespace, name, label, rest string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata": {"labels": {%q: "done"}, "annotations": {%q: %q}}}`, label,
		initializers.PendingAnnotation, rest)
	if _, err := at(c.Dynamic, resource, namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// fail is what an initializer does that doesn't want the object to be.
func (c *cluster) fail(t testing.TB, resource schema.GroupVersionResource, namespace, name, reason string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, initializers.ErrorAnnotation, reason)
	if _, err := at(c.Dynamic, resource, namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// gone waits until an object isn't there for anybody.
func (c *cluster) gone(t testing.TB, resource schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	servertest.Eventually(t, name+" to be gone", func() bool {
		_, err := at(c.full, resource, namespace).Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// as is a client for a user whom the administrator impersonates.
func (c *cluster) as(user string) *dynamic.DynamicClient {
	return dynamic.NewForConfigOrDie(c.As(user, "system:authenticated"))
}

// received is what comes next, which must come.
func received[T any](t testing.TB, from <-chan T) (got T) {
	t.Helper()
	open := true
	select {
	case got, open = <-from:
	case <-time.After(2 * time.Minute): // far more than it takes
		t.Fatal("nothing comes")
	}
	if !open {
		t.Fatal("the end, where something was to come")
	}
	return got
}

// watching watches the objects of a namespace from now on.
func watching(t testing.TB, client dynamic.Interface, resource schema.GroupVersionResource, namespace string,
	options metav1.ListOptions) <-chan watch.Event {
	t.Helper()
	w, err := at(client, resource, namespace).Watch(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w.ResultChan()
}

// says is an event in a line: its type, the object's name and its list.
func says(event watch.Event) string {
	u, ok := event.Object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Sprint(event)
	}
	return strings.TrimSpace(fmt.Sprint(event.Type, " ", u.GetName(), " ",
		u.GetAnnotations()[initializers.PendingAnnotation]))
}
