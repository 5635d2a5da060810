// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	decisionsv1alpha1 "gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func verdict(name, label string) *decisionsv1alpha1.Decision {
	return &decisionsv1alpha1.Decision{
		TypeMeta:   metav1.TypeMeta{APIVersion: "decisions.gatehouse.dev/v1alpha1", Kind: "Decision"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"l": label}},
	}
}

func asUnstructured(t *testing.T, object runtime.Object) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

func newInformer(t *testing.T, env *plugin.Env) cache.SharedIndexInformer {
	t.Helper()
	informer, err := Informer("Example", env, decisionsv1alpha1.Decisions, &decisionsv1alpha1.Decision{},
		&decisionsv1alpha1.DecisionList{})
	if err != nil {
		t.Fatal(err)
	}
	return informer
}

// What is listed and what is watched is of the Go type, and found by its namespace.
func TestInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := decisionsv1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		c := plugintest.NewCluster(t)
		client := c.Serve(scheme, map[schema.GroupVersionResource]string{decisionsv1alpha1.Decisions: "DecisionList"},
			verdict("listed", "1"))
		informer := newInformer(t, c.Env)
		if again := newInformer(t, c.Env); again != informer {
			t.Error("two plugins have two caches of the same resource")
		}
		c.Env.Informers.StartWithContext(t.Context())
		synctest.Wait()
		if _, err := client.Resource(decisionsv1alpha1.Decisions).Namespace("ns").Create(t.Context(),
			asUnstructured(t, verdict("watched", "2")), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		found, err := informer.GetIndexer().ByIndex(cache.NamespaceIndex, "ns")
		if err != nil {
			t.Fatal(err)
		}
		labels := map[string]string{}
		for _, object := range found {
			p := object.(*decisionsv1alpha1.Decision)
			labels[p.Name] = p.Labels["l"]
		}
		if len(labels) != 2 || labels["listed"] != "1" || labels["watched"] != "2" {
			t.Errorf("got %v", labels)
		}
	})
}

func TestWhatIsMissing(t *testing.T) {
	_, err := Informer("Example", &plugin.Env{}, decisionsv1alpha1.Decisions, &decisionsv1alpha1.Decision{},
		&decisionsv1alpha1.DecisionList{})
	if err == nil || err.Error() != "Example needs a dynamic client" {
		t.Errorf("got %v", err)
	}
	c := plugintest.NewCluster(t)
	c.Serve(runtime.NewScheme(), nil)
	c.Env.Informers = nil
	_, err = Informer("Example", c.Env, decisionsv1alpha1.Decisions, &decisionsv1alpha1.Decision{},
		&decisionsv1alpha1.DecisionList{})
	if err == nil || err.Error() != "Example needs informers" {
		t.Errorf("got %v", err)
	}
}

// Behind a cluster that doesn't serve the resource the log says so, and what needs it.
func TestNotServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plugintest.NewCluster(t)
		client := c.Serve(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{decisionsv1alpha1.Decisions: "DecisionList"})
		client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewGenericServerResponse(http.StatusNotFound, "list", schema.GroupResource{},
				"", "", 0, true)
		})
		informer := newInformer(t, c.Env)
		logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
		ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logger))
		c.Env.Informers.StartWithContext(ctx)
		synctest.Wait()
		if informer.HasSynced() {
			t.Error("the cache says that it has synced")
		}
		cancel()
		c.Env.Informers.Shutdown()
		log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		want := "the cluster doesn't serve decisions of decisions.gatehouse.dev/v1alpha1, which Example needs: "
		if !strings.Contains(log, want) {
			t.Errorf("the log is\n%s\nwithout %s", log, want)
		}
	})
}

// Another cluster may serve something else by that name.
func TestEventsOfAnotherType(t *testing.T) {
	bad := asUnstructured(t, verdict("bad", ""))
	bad.Object["request"] = "text"
	status := &metav1.Status{Message: "expired"}
	for name, test := range map[string]struct {
		event watch.Event
		want  watch.EventType
	}{
		"good":          {watch.Event{Type: watch.Added, Object: asUnstructured(t, verdict("good", ""))}, watch.Added},
		"bad":           {watch.Event{Type: watch.Added, Object: bad}, watch.Error},
		"error":         {watch.Event{Type: watch.Error, Object: status}, watch.Error},
		"error, as any": {watch.Event{Type: watch.Error, Object: bad}, watch.Error},
	} {
		t.Run(name, func(t *testing.T) {
			got := convertEvent(test.event, &decisionsv1alpha1.Decision{})
			if _, ok := got.Object.(*decisionsv1alpha1.Decision); got.Type != test.want ||
				ok != (test.want == watch.Added) {
				t.Errorf("got %v with a %T", got.Type, got.Object)
			}
		})
	}
	list := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*bad}}
	if _, err := convert(list, &decisionsv1alpha1.DecisionList{}); err == nil {
		t.Error("a list of something else is converted")
	}
}

// What is compiled is compiled once, and again after a change.
func TestCompiled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := decisionsv1alpha1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		c := plugintest.NewCluster(t)
		client := c.Serve(scheme, map[schema.GroupVersionResource]string{decisionsv1alpha1.Decisions: "DecisionList"},
			verdict("a", "1"), verdict("b", "1"))
		made := 0
		count, err := Compile(newInformer(t, c.Env), func(objects []any) int {
			made++
			return len(objects)
		})
		if err != nil {
			t.Fatal(err)
		}
		want := func(objects, times int) {
			t.Helper()
			for range 2 {
				if got := count.Get(); got != objects || made != times {
					t.Errorf("made of %d objects, %d times; want %d, %d", got, made, objects, times)
				}
			}
		}
		want(0, 1)
		c.Env.Informers.StartWithContext(t.Context())
		synctest.Wait()
		want(2, 2)
		if err := client.Resource(decisionsv1alpha1.Decisions).Namespace("ns").Delete(t.Context(), "a",
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want(1, 3)
	})
}
