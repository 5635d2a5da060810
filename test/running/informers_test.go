// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	extensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	extensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"gatehouse.dev/test/servertest"
)

// Nothing of a custom resource is left once its definition is gone: neither goroutines nor anything
// that asks for it again and again, and says so.
func TestCustomResourcesEndWithTheirDefinitions(t *testing.T) {
	c := servertest.Start(t)
	const kinds = 80
	// What runs without custom resources runs once something has been collected as garbage.
	collected(t, c, rbacv1.SchemeGroupVersion.WithKind("ClusterRole"), "clusterroles")
	before := runtime.NumGoroutine()
	var log lines
	klog.SetOutput(&log)
	defer klog.SetOutput(io.Discard)

	definitions := extensions.NewForConfigOrDie(
		servertest.Quick(c.Config)).ApiextensionsV1().CustomResourceDefinitions()
	for i := range kinds {
		name := fmt.Sprintf("kind%d", i)
		if _, err := definitions.Create(t.Context(), definition(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	last := fmt.Sprint(kinds - 1)
	collected(t, c, schema.GroupVersionKind{Group: "ends.example.com", Version: "v1", Kind: "Kind" + last},
		"kind"+last+"s")
	during := runtime.NumGoroutine()
	if err := definitions.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Logf("%s", stacks())
		}
	}()
	// What else goes on is less than one for every eight kinds.
	servertest.Retry(t, "the goroutines to end", func() error {
		if after := runtime.NumGoroutine(); after > before+kinds/8 {
			return fmt.Errorf("%d before, %d with %d custom resources, %d after", before, during, kinds, after)
		}
		return nil
	})
	if asked := log.with("could not find the requested resource"); len(asked) > 0 {
		t.Errorf("%d lines of log say that a kind is gone, as %s", len(asked), asked[0])
	}
}

// collected waits until the garbage collector knows a kind: it deletes one whose owner is gone.
func collected(t *testing.T, c *servertest.Cluster, kind schema.GroupVersionKind, plural string) {
	t.Helper()
	resources := c.Dynamic.Resource(kind.GroupVersion().WithResource(plural))
	owner, err := c.Client.CoreV1().Namespaces().Create(t.Context(), newNamespace("owner-of-"+plural),
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	orphan := &unstructured.Unstructured{}
	orphan.SetGroupVersionKind(kind)
	orphan.SetName("orphan")
	orphan.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: owner.Name,
		UID: owner.UID}})
	servertest.Retry(t, plural+" to be served", func() error {
		_, err := resources.Create(t.Context(), orphan, metav1.CreateOptions{})
		return err
	})
	if err := c.Client.CoreV1().Namespaces().Delete(t.Context(), owner.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Retry(t, "the garbage collector", func() error {
		_, err := resources.Get(t.Context(), "orphan", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the dependent is there still: %v", err)
	})
}

func newNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// definition is one of a cluster-scoped custom resource without any rules.
func definition(singular string) *extensionsv1.CustomResourceDefinition {
	return &extensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: singular + "s.ends.example.com"},
		Spec: extensionsv1.CustomResourceDefinitionSpec{
			Group: "ends.example.com", Scope: extensionsv1.ClusterScoped,
			Names: extensionsv1.CustomResourceDefinitionNames{Plural: singular + "s", Singular: singular,
				Kind: strings.ToUpper(singular[:1]) + singular[1:]},
			Versions: []extensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &extensionsv1.CustomResourceValidation{
					OpenAPIV3Schema: &extensionsv1.JSONSchemaProps{Type: "object"},
				}}},
		},
	}
}

func stacks() []byte {
	all := make([]byte, 1<<22)
	return all[:runtime.Stack(all, true)]
}

// lines are what is logged.
type lines struct {
	mu      sync.Mutex
	written []string
}

// Write implements io.Writer.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written = append(l.written, string(line))
	return len(line), nil
}

// with are the lines that have a text.
func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.written {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}
