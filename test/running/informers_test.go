package running_test

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	before := goroutines()
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
	// The garbage collector has found the last of them once it deletes one whose owner is gone.
	resources := schema.GroupVersionResource{Group: "ends.example.com", Version: "v1", Resource: fmt.Sprintf("kind%ds",
		kinds-1)}
	orphan := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "ends.example.com/v1",
		"kind": fmt.Sprintf("Kind%d", kinds-1), "metadata": map[string]any{"name": "orphan"}}}
	owner, err := c.Client.CoreV1().Namespaces().Create(t.Context(), newNamespace("owner"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	orphan.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "owner",
		UID: owner.UID}})
	servertest.Retry(t, "the last kind to be served", func() error {
		_, err := c.Dynamic.Resource(resources).Create(t.Context(), orphan, metav1.CreateOptions{})
		return err
	})
	if err := c.Client.CoreV1().Namespaces().Delete(t.Context(), "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Retry(t, "the garbage collector", func() error {
		_, err := c.Dynamic.Resource(resources).Get(t.Context(), "orphan", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the dependent is there still: %v", err)
	})
	during := goroutines()
	if err := definitions.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	// What else goes on is less than one for every eight kinds.
	after := 0
	deadline := time.Now().Add(time.Minute)
	for after = goroutines(); after > before+kinds/8 && time.Now().Before(deadline); after = goroutines() {
	}
	t.Logf("%d goroutines before, %d with %d custom resources, %d after", before, during, kinds, after)
	if after > before+kinds/8 {
		t.Errorf("%d goroutines more than before:\n%s", after-before, stacks())
	}
	if asked := log.with("could not find the requested resource"); len(asked) > 0 {
		t.Errorf("%d lines of log say that a kind is gone, as %s", len(asked), asked[0])
	}
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

// settled is a number once it has moved by no more than give for a second.
func settled(number func() int, give int) int {
	was, since := number(), time.Now()
	for time.Since(since) < time.Second {
		time.Sleep(20 * time.Millisecond)
		if now := number(); now > was+give || now < was-give {
			was, since = now, time.Now()
		}
	}
	return was
}

// goroutines is their number where nothing starts or ends any more.
func goroutines() int { return settled(runtime.NumGoroutine, 5) }

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
