// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initializers_test

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/removed/apis/initializers"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// The creator gets the object as its initializers, two in their order, have left it.
func TestCreatorWaits(t *testing.T) {
	c := startCluster(t)
	ns := c.Namespace(t, nil)
	c.configure(t, leases, one, two)

	created := c.create(t, leases, ns, newObject(leases, "a"))
	c.stored(t, leases, ns, "a")
	c.initialize(t, leases, ns, "a", "one", two)
	select {
	case got := <-created:
		t.Fatalf("the creator is answered while the object waits: %v, %v", got.object, got.err)
	default:
	}
	c.initialize(t, leases, ns, "a", "two", "")
	got := received(t, created)
	if got.err != nil || got.object.GetLabels()["one"] != "done" || got.object.GetLabels()["two"] != "done" {
		t.Errorf("the creator gets %v, %v", got.object, got.err)
	}

	// Apply creates, too, and update doesn't wait: nor does what has its list, empty, from somebody
	// who may say so.
	applied := make(chan outcome, 1)
	go func() {
		object, err := at(c.Dynamic, leases, ns).Apply(t.Context(), "b", newObject(leases, "b"),
			metav1.ApplyOptions{FieldManager: "test"})
		applied <- outcome{object, err}
	}()
	c.stored(t, leases, ns, "b")
	c.initialize(t, leases, ns, "b", "one", two)
	c.initialize(t, leases, ns, "b", "two", "")
	if got := received(t, applied); got.err != nil || got.object.GetLabels()["two"] != "done" {
		t.Errorf("apply gets %v, %v", got.object, got.err)
	}
	own := newObject(leases, "c")
	own.SetAnnotations(map[string]string{initializers.PendingAnnotation: ""})
	if got := received(t, c.create(t, leases, ns, own)); got.err != nil {
		t.Error(got.err)
	}
	generated := newObject(leases, "")
	generated.SetGenerateName("generated-")
	done := c.create(t, leases, ns, generated)
	var name string
	servertest.Eventually(t, "the object to be stored", func() bool {
		list, err := at(c.full, leases, ns).List(t.Context(), metav1.ListOptions{})
		for i := range list.Items {
			if strings.HasPrefix(list.Items[i].GetName(), "generated-") {
				name = list.Items[i].GetName()
			}
		}
		return err == nil && name != ""
	})
	c.initialize(t, leases, ns, name, "one", two)
	c.initialize(t, leases, ns, name, "two", "")
	if got := received(t, done); got.err != nil || got.object.GetName() != name {
		t.Errorf("the creator gets %v, %v", got.object, got.err)
	}
}

// The creator is told when the time is over, with Kubernetes' words; the object stays what it is.
// Source: WaitForInitialized in k8s.io/apiserver/pkg/registry/generic/registry/store.go of
// Kubernetes 1.13.
func TestTimeout(t *testing.T) {
	c := startCluster(t, timeout(500*time.Millisecond))
	ns := c.Namespace(t, nil)
	c.configure(t, leases, one)
	c.configure(t, services, one)

	got := received(t, c.create(t, leases, ns, newObject(leases, "a")))
	if !apierrors.IsTimeout(got.err) ||
		got.err.Error() != "Timeout: server has timed out waiting for the initialization of "+
			"leases.coordination.k8s.io a" {
		t.Errorf("got %v", got.err)
	}
	if _, err := at(c.Dynamic, leases, ns).Create(t.Context(), newObject(leases, "a"),
		metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("its name is taken, but creating another: %v", err)
	}
	seen := watching(t, c.Dynamic, leases, ns, metav1.ListOptions{})
	c.initialize(t, leases, ns, "a", "one", "")
	if got := says(received(t, seen)); got != "ADDED a" {
		t.Errorf("a watch shows %s", got)
	}

	// What a registry has allocated for the object is still the object's.
	if got := received(t, c.create(t, services, ns, newService("s"))); !apierrors.IsTimeout(got.err) {
		t.Errorf("got %v", got.err)
	}
	hidden, err := at(c.full, services, ns).Get(t.Context(), "s", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ip, _, _ := unstructured.NestedString(hidden.Object, "spec", "clusterIP")
	if _, err := c.Client.NetworkingV1().IPAddresses().Get(t.Context(), ip, metav1.GetOptions{}); err != nil {
		t.Errorf("the service has %s: %v", ip, err)
	}
}

// An initializer's error is the creator's, and the object is no more.
func TestError(t *testing.T) {
	c := startCluster(t)
	ns := c.Namespace(t, nil)
	c.configure(t, leases, one, two)
	c.configure(t, services, one)

	created := c.create(t, leases, ns, newObject(leases, "a"))
	c.stored(t, leases, ns, "a")
	c.fail(t, leases, ns, "a", "not with that name")
	got := received(t, created)
	if !apierrors.IsForbidden(got.err) ||
		got.err.Error() != `leases.coordination.k8s.io "a" is forbidden: not with that name` {
		t.Errorf("got %v", got.err)
	}
	c.gone(t, leases, ns, "a")

	// Nobody waits, and finalizers are nobody's.
	held := newObject(leases, "b")
	held.SetFinalizers([]string{"example.com/hold"})
	c.createHidden(t, leases, ns, held)
	c.fail(t, leases, ns, "b", "no")
	c.gone(t, leases, ns, "b")

	// Somebody deletes it.
	created = c.create(t, leases, ns, newObject(leases, "c"))
	c.stored(t, leases, ns, "c")
	if err := at(c.Dynamic, leases, ns).Delete(t.Context(), "c", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if got := received(t, created); !apierrors.IsInternalError(got.err) ||
		!strings.Contains(got.err.Error(), "object deleted while waiting for creation") {
		t.Errorf("got %v", got.err)
	}

	// What was allocated for it is free.
	created = c.create(t, services, ns, newService("s"))
	c.stored(t, services, ns, "s")
	hidden, err := at(c.full, services, ns).Get(t.Context(), "s", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ip, _, _ := unstructured.NestedString(hidden.Object, "spec", "clusterIP")
	c.fail(t, services, ns, "s", "no")
	if got := received(t, created); !apierrors.IsForbidden(got.err) {
		t.Errorf("got %v", got.err)
	}
	if _, err := c.Client.NetworkingV1().IPAddresses().Get(t.Context(), ip,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%s: %v", ip, err)
	}
}

// A server that is killed while a creator waits leaves the object waiting, and hidden, for the
// next.
func TestCrash(t *testing.T) {
	process := servertest.NewProcess(t, "--enable-admission-plugins=Initializers")
	process.Start(t)
	c := connect(process.Connect(t))
	ns := c.Namespace(t, nil)
	c.configure(t, leases, one, two)
	created := c.create(t, leases, ns, newObject(leases, "a"))
	c.stored(t, leases, ns, "a")
	c.initialize(t, leases, ns, "a", "one", two)
	process.Kill()
	if got := received(t, created); got.err == nil {
		t.Errorf("the creator gets %v", got.object)
	}

	process.Start(t)
	if _, err := at(c.Dynamic, leases, ns).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("an ordinary client gets the object, or %v", err)
	}
	seen := watching(t, c.Dynamic, leases, ns, metav1.ListOptions{})
	c.initialize(t, leases, ns, "a", "two", "")
	if got := says(received(t, seen)); got != "ADDED a" {
		t.Errorf("a watch shows %s", got)
	}
	got, err := at(c.Dynamic, leases, ns).Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || got.GetLabels()["one"] != "done" {
		t.Errorf("got %v, %v", got, err)
	}
}

// Who may do what with an object that waits.
func TestRights(t *testing.T) {
	c := startCluster(t)
	ns := c.Namespace(t, nil)
	c.configure(t, leases, one)
	c.grant(t, ns, "editor", "get", "list", "create", "update", "patch", "delete")
	c.grant(t, ns, "initializer", "get", "patch", "initialize")
	editor, initializer := at(c.as("editor"), leases, ns), at(c.as("initializer"), leases, ns)
	hidden := c.createHidden(t, leases, ns, newObject(leases, "a"))
	off := []byte(`{"metadata": {"annotations": {"` + initializers.PendingAnnotation + `": null}}}`)

	own := newObject(leases, "own")
	own.SetAnnotations(map[string]string{initializers.PendingAnnotation: ""})
	_, err := editor.Create(t.Context(), own, metav1.CreateOptions{})
	forbidden(t, err, `leases.coordination.k8s.io "own" is forbidden: create with initializers denied`)
	_, err = editor.Update(t.Context(), hidden, metav1.UpdateOptions{}) // that changes nothing
	forbidden(t, err, `leases.coordination.k8s.io "a" is forbidden: update to uninitialized resource denied`)
	hidden.SetLabels(map[string]string{"a": "b"})
	_, err = editor.Update(t.Context(), hidden, metav1.UpdateOptions{})
	forbidden(t, err, `leases.coordination.k8s.io "a" is forbidden: update to uninitialized resource denied`)
	_, err = editor.Patch(t.Context(), "a", types.MergePatchType, off, metav1.PatchOptions{})
	forbidden(t, err, `leases.coordination.k8s.io "a" is forbidden: update to uninitialized resource denied`)
	_, err = editor.Patch(t.Context(), "a", types.MergePatchType, off,
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	forbidden(t, err, `leases.coordination.k8s.io "a" is forbidden: update to uninitialized resource denied`)
	_, err = editor.Create(t.Context(), newObject(leases, "a"),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsAlreadyExists(err) {
		t.Errorf("a dry run of creating it again: %v", err)
	}
	if _, err := initializer.Patch(t.Context(), "a", types.MergePatchType, off, metav1.PatchOptions{}); err != nil {
		t.Error(err)
	}
	_, err = editor.Patch(t.Context(), "a", types.MergePatchType,
		[]byte(`{"metadata": {"annotations": {"`+initializers.PendingAnnotation+`": "x"}}}`), metav1.PatchOptions{})
	forbidden(t, err,
		`leases.coordination.k8s.io "a" is forbidden: metadata.annotations[initializers.gatehouse.dev/pending]: `+
			`Invalid value: "x": field is immutable once initialization has completed`)

	// As in Kubernetes, deletion doesn't ask whether the object is initialized.
	c.createHidden(t, leases, ns, newObject(leases, "b"))
	if err := editor.Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	c.gone(t, leases, ns, "b")
}

// With several servers over one etcd the creator may be at one and the initializer at another. The
// object is hidden at both.
func TestTwoServers(t *testing.T) {
	here := startCluster(t)
	there := startCluster(t, gatehousetest.WithConfig(func(c *server.Config) {
		c.API.Etcd.StorageConfig.Transport.ServerList = []string{here.Etcd.Endpoint()}
	}))
	ns := here.Namespace(t, nil)
	here.configure(t, leases, one)
	there.awaitConfiguration(t, leases, one)
	created := here.create(t, leases, ns, newObject(leases, "a"))
	there.stored(t, leases, ns, "a")
	for _, c := range []*cluster{here, there} {
		if _, err := at(c.Dynamic, leases, ns).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("an ordinary client gets the object, or %v", err)
		}
	}
	there.initialize(t, leases, ns, "a", "one", "")
	if got := received(t, created); got.err != nil || got.object.GetLabels()["one"] != "done" {
		t.Errorf("the creator gets %v, %v", got.object, got.err)
	}
	created = there.create(t, leases, ns, newObject(leases, "b"))
	here.stored(t, leases, ns, "b")
	here.fail(t, leases, ns, "b", "no")
	if got := received(t, created); !apierrors.IsForbidden(got.err) {
		t.Errorf("the creator gets %v, %v", got.object, got.err)
	}
}

// A server that is killed after an initializer's failure is stored leaves the object. The next one
// removes it, and nothing else that waits. (A server without the plugin stores such objects as they
// are.)
func TestLeftByACrash(t *testing.T) {
	dir := t.TempDir()
	before := servertest.Connect(gatehousetest.StartIn(t, dir))
	widgets := connect(before).widgets(t)
	for _, resource := range []schema.GroupVersionResource{leases, widgets} {
		for name, annotations := range map[string]map[string]string{
			"waiting": {initializers.PendingAnnotation: one},
			"failed":  {initializers.PendingAnnotation: one, initializers.ErrorAnnotation: "no"},
		} {
			object := newObject(resource, name)
			object.SetAnnotations(annotations)
			if _, err := at(before.Dynamic, resource, "default").Create(t.Context(), object,
				metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	before.Stop()

	c := connect(servertest.Connect(gatehousetest.StartIn(t, dir, withInitializers)))
	for _, resource := range []schema.GroupVersionResource{leases, widgets} {
		c.gone(t, resource, "default", "failed")
		c.stored(t, resource, "default", "waiting")
	}
}
