// Package initializers_test runs real servers with the plugin Initializers, and is what there is around them: creators, initializers, and
// those who must not see what is not yet initialized.
package initializers_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
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
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	admissionregistrationv1alpha1 "gatehouse.dev/apis/admissionregistration/v1alpha1"
	"gatehouse.dev/apis/initializers"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/plugins"
	"gatehouse.dev/server"
)

// limit is far more than anything here takes.
const limit = 30 * time.Second

var (
	leases   = coordinationv1.SchemeGroupVersion.WithResource("leases")
	secrets  = corev1.SchemeGroupVersion.WithResource("secrets")
	services = corev1.SchemeGroupVersion.WithResource("services")
	pods     = corev1.SchemeGroupVersion.WithResource("pods")
)

// serverDir is the environment variable by which the test binary is a server, in a process that can be killed.
const serverDir = "GATEHOUSE_TEST_SERVER_DIR"

func TestMain(m *testing.M) {
	flag.Parse()
	klog.LogToStderr(false) // the tests cause refusals by the dozen
	klog.SetOutput(io.Discard)
	if dir := os.Getenv(serverDir); dir != "" {
		if err := serve(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serve runs a server until the process is killed, and says when it is ready.
func serve(dir string) error {
	config := server.NewConfig(plugins.List)
	config.API.DataDir = dir
	config.API.SecureServing.BindPort = 0
	config.Admission.Enable = []string{"Initializers"}
	srv, err := server.New(context.Background(), config)
	if err != nil {
		return err
	}
	go func() {
		<-srv.Ready()
		fmt.Println("ready")
	}()
	return srv.Run(context.Background())
}

// cluster is a running server, as its administrator sees it, and as one who asks for all.
type cluster struct {
	*gatehousetest.Server
	client, all   *kubernetes.Clientset
	objects, full *dynamic.DynamicClient
}

func startCluster(t testing.TB, options ...gatehousetest.Option) *cluster {
	t.Helper()
	return connect(t, gatehousetest.Start(t, append(options, gatehousetest.WithPlugins("Initializers"))...))
}

func connect(t testing.TB, s *gatehousetest.Server) *cluster {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	config.QPS = -1
	full := initializers.Including(config)
	return &cluster{s, kubernetes.NewForConfigOrDie(config), kubernetes.NewForConfigOrDie(full), dynamic.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(full)}
}

// timeout makes creations wait so long.
func timeout(d time.Duration) gatehousetest.Option {
	return func(c *server.Config) { c.API.InitializationTimeout = d }
}

func (c *cluster) newNamespace(t testing.TB) string {
	t.Helper()
	created, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.Name
}

// configure makes objects of a resource wait for initializers, in this order, and waits until they do.
func (c *cluster) configure(t testing.TB, resource schema.GroupVersionResource, names ...string) {
	t.Helper()
	rule := fmt.Sprintf(`[{apiGroups: [%q], apiVersions: [%q], resources: [%q]}]`, resource.Group, resource.Version, resource.Resource)
	var list strings.Builder
	for _, name := range names {
		fmt.Fprintf(&list, "- {name: %s, rules: %s}\n", name, rule)
	}
	configuration := parsed(t, `
apiVersion: admissionregistration.k8s.io/v1alpha1
kind: InitializerConfiguration
metadata: {name: `+resource.Resource+`}
initializers:
`+list.String())
	if _, err := c.objects.Resource(admissionregistrationv1alpha1.InitializerConfigurations).Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	probe := newObject(resource, "probe")
	switch resource {
	case pods:
		probe = newPod("probe")
	case services:
		probe = newService("probe")
	}
	eventually(t, "the configuration to apply", func() bool {
		got, err := c.objects.Resource(resource).Namespace("default").Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && got.GetAnnotations()[initializers.PendingAnnotation] == strings.Join(names, ",")
	})
}

var kinds = map[string]string{"leases": "Lease", "secrets": "Secret", "pods": "Pod", "services": "Service", "widgets": "Widget"}

func parsed(t testing.TB, manifest string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

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
func (c *cluster) create(t testing.TB, resource schema.GroupVersionResource, namespace string, object *unstructured.Unstructured) <-chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	go func() {
		created, err := at(c.objects, resource, namespace).Create(t.Context(), object, metav1.CreateOptions{})
		done <- outcome{created, err}
	}()
	return done
}

// createHidden creates an object without waiting for it.
func (c *cluster) createHidden(t testing.TB, resource schema.GroupVersionResource, namespace string, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	body, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	root := "/apis/" + resource.Group
	if resource.Group == "" {
		root = "/api"
	}
	raw, err := c.client.Discovery().RESTClient().Post().AbsPath(root, resource.Version, "namespaces", namespace, resource.Resource).
		Param(initializers.Parameter, "true").SetHeader("Content-Type", "application/json").Body(body).Do(t.Context()).Raw()
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
	eventually(t, name+" to be stored", func() bool {
		_, err := at(c.full, resource, namespace).Get(t.Context(), name, metav1.GetOptions{})
		return err == nil
	})
}

// initialize is what an initializer does: it sets the label that it is called by, and leaves the rest of the list.
func (c *cluster) initialize(t testing.TB, resource schema.GroupVersionResource, namespace, name, label, rest string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata": {"labels": {%q: "done"}, "annotations": {%q: %q}}}`, label, initializers.PendingAnnotation, rest)
	if _, err := at(c.objects, resource, namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// fail is what an initializer does that doesn't want the object to be.
func (c *cluster) fail(t testing.TB, resource schema.GroupVersionResource, namespace, name, reason string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata": {"annotations": {%q: %q}}}`, initializers.ErrorAnnotation, reason)
	if _, err := at(c.objects, resource, namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// gone waits until an object isn't there for anybody.
func (c *cluster) gone(t testing.TB, resource schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	eventually(t, name+" to be gone", func() bool {
		_, err := at(c.full, resource, namespace).Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// as is a client for a user whom the administrator impersonates.
func (c *cluster) as(t testing.TB, user string) *dynamic.DynamicClient {
	t.Helper()
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// received is what comes next, which must come.
func received[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	select {
	case got, ok := <-from:
		if !ok {
			t.Fatal("the end, where something was to come")
		}
		return got
	case <-time.After(limit):
		t.Fatal("nothing comes")
		panic("unreachable")
	}
}

// watching watches the objects of a namespace from now on.
func watching(t testing.TB, client dynamic.Interface, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions) <-chan watch.Event {
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
	return strings.TrimSpace(fmt.Sprint(event.Type, " ", u.GetName(), " ", u.GetAnnotations()[initializers.PendingAnnotation]))
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, limit, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}
