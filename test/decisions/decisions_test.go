// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decisions_test asks a running server for its decisions, as users do: with kubectl, with
// client-go's informers, and with rights or without.
package decisions_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/plugin"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

var suite servertest.Suite

func TestMain(m *testing.M) { suite.Main(m) }

// shared is a server with its defaults, and one plugin more.
var shared = sync.OnceValue(func() *servertest.Cluster {
	return servertest.Start(&suite, gatehousetest.WithConfig(func(c *server.Config) {
		c.Plugins = plugin.InsertBefore(c.Plugins, "MutatingAdmissionPolicy", obedient)
	}))
})

// refused makes a namespace with a quota of no pods, and has a pod refused there.
func refused(t *testing.T, c *servertest.Cluster) (namespace string) {
	t.Helper()
	namespace = c.Namespace(t, nil)
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("0")}}}
	if _, err := c.Client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), quota,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Retry(t, "the ServiceAccount", func() error {
		_, err := c.Client.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
	if _, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), servertest.Pod("web"),
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("the pod isn't refused: %v", err)
	}
	return namespace
}

func list(t *testing.T, c dynamic.Interface, namespace, fields string) ([]unstructured.Unstructured, error) {
	t.Helper()
	found, err := c.Resource(v1alpha1.Decisions).Namespace(namespace).List(t.Context(),
		metav1.ListOptions{FieldSelector: fields})
	if err != nil {
		return nil, err
	}
	return found.Items, nil
}

func TestKubectl(t *testing.T) {
	c := shared()
	namespace := refused(t, c)
	kubectl := c.Kubectl(t, namespace)
	table := kubectl.OK("", "get", "decisions", "--field-selector=verdict=Refused,request.name=web")
	lines := strings.Split(strings.TrimSpace(table), "\n")
	columns := strings.Join(strings.Fields(lines[0]), " ")
	if want := "NAME AGE VERDICT OPERATION OBJECT BY"; columns != want {
		t.Errorf("the columns are %s", lines[0])
	}
	if len(lines) != 2 || !strings.Contains(lines[1], "Refused") || !strings.Contains(lines[1], "pods/web") ||
		!strings.Contains(lines[1], "ResourceQuota") || len(lines[1]) > 120 {
		t.Errorf("the table is\n%s", table)
	}
	wide := kubectl.OK("", "get", "decisions", "--field-selector=verdict=Refused,request.name=web", "-o", "wide")
	if !strings.Contains(wide, "ServiceAccount") || !strings.Contains(wide, "exceeded quota") {
		t.Errorf("the wide table is\n%s", wide)
	}
	// What the API itself answers to clients that try again is no refusal, and has its own filter.
	kubectl.Fails("", []string{"create", "quota", "none"}, "already exists")
	if table := kubectl.OK("", "get", "decisions", "--field-selector=verdict=Refused,request.name=none"); table != "" {
		t.Errorf("refused are\n%s", table)
	}
	table = kubectl.OK("", "get", "decisions", "--field-selector=verdict=AlreadyExists,request.name=none")
	if !strings.Contains(table, "AlreadyExists") {
		t.Errorf("the table is\n%s", table)
	}
	kubectl.OK("", "create", "configmap", "dry", "--dry-run=server")
	if table := kubectl.OK("", "get", "decisions", "--field-selector=request.name=dry"); !strings.Contains(table,
		"CREATE (dry)") {
		t.Errorf("the table is\n%s", table)
	}
	quota := kubectl.OK("", "get", "decisions", "--field-selector=by=ResourceQuota", "-o",
		`jsonpath={.items[0].steps[?(@.plugin=="ResourceQuota")].calls[*].why}`)
	if want := "pods: 0 of 0 used, 1 requested, which is too much"; quota != want {
		t.Errorf("of the quota it says %q, want %q", quota, want)
	}
	if said := kubectl.OK("", "explain", "decision.steps.patch"); !strings.Contains(said, "RFC 6902") {
		t.Errorf("kubectl explains\n%s", said)
	}
	kubectl.Fails("", []string{"get", "decisions", "--field-selector=spec.nodeName=x"}, "is not a known field selector")
	if all := kubectl.OK("", "get", "decisions", "-l", v1alpha1.ServerLabel+"=another"); all != "" {
		t.Errorf("another server has\n%s", all)
	}
	kubectl.Fails("", []string{"delete", "decisions", "--all"}, "the server does not allow this method")

	cluster := c.Kubectl(t, "default").OK("", "get", "decisions", "-o", "jsonpath={.items[*].metadata.namespace}",
		"--field-selector=request.resource=namespaces,request.name="+namespace)
	if !strings.HasPrefix(cluster, "default") {
		t.Errorf("the decision about the namespace is in %q", cluster)
	}
}

// The answer names its decision, an informer is told of it, and discovery and OpenAPI have the
// kind.
func TestClients(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	told := make(chan string, 100)
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(c.Dynamic, 0, namespace, nil)
	informer := factory.ForResource(v1alpha1.Decisions).Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		told <- object.(*unstructured.Unstructured).GetName()
	}}); err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer doesn't sync")
	}
	config := servertest.Quick(c.Config)
	var id string
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if err == nil && r.Method == http.MethodPost {
				id = response.Header.Get("Audit-Id")
			}
			return response, err
		})
	})
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(namespace).Create(
		t.Context(), servertest.Parsed(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}`),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for name := range told {
		if name == id {
			break
		}
	}
	d, err := c.Dynamic.Resource(v1alpha1.Decisions).Namespace(namespace).Get(t.Context(), id, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if name, _, _ := unstructured.NestedString(d.Object, "request", "name"); name != "c" {
		t.Errorf("the decision is about %q", name)
	}

	groups, err := c.Client.Discovery().ServerPreferredNamespacedResources()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, group := range groups {
		found = found || group.GroupVersion == v1alpha1.SchemeGroupVersion.String()
	}
	if !found {
		t.Error("discovery doesn't have the group")
	}
	for path, want := range map[string]string{
		"/openapi/v2": "dev.gatehouse.decisions.v1alpha1.Decision",
		"/openapi/v3/apis/decisions.gatehouse.dev/v1alpha1": "dev.gatehouse.decisions.v1alpha1.Decision",
	} {
		data, err := c.Client.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").
			DoRaw(t.Context())
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s: %v, %d bytes without %s", path, err, len(data), want)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Nobody but administrators sees anything; who has the role in a namespace sees that one.
func TestRights(t *testing.T) {
	c := shared()
	mine, other := refused(t, c), refused(t, c)
	all, err := list(t, c.Dynamic, other, "verdict=Refused")
	if err != nil || len(all) == 0 {
		t.Fatalf("%d decisions: %v", len(all), err)
	}
	name := all[0].GetName()
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "viewers"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "gatehouse:decisions-viewer"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "viewer"}}}
	if _, err := c.Client.RbacV1().RoleBindings(mine).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// An editor of the namespace has no right to its decisions by that.
	editor := binding.DeepCopy()
	editor.Name, editor.RoleRef.Name, editor.Subjects[0].Name = "editors", "edit", "editor"
	if _, err := c.Client.RbacV1().RoleBindings(mine).Create(t.Context(), editor, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	as := func(user string) dynamic.Interface { return client(t, c.As(user)) }
	servertest.Retry(t, "the viewer's rights", func() error {
		_, err := list(t, as("viewer"), mine, "")
		return err
	})
	servertest.Retry(t, "the editor's rights", func() error {
		_, err := as("editor").Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(mine).List(
			t.Context(), metav1.ListOptions{})
		return err
	})
	seen, _ := list(t, as("viewer"), mine, "")
	for _, d := range seen {
		if d.GetNamespace() != mine {
			t.Errorf("the viewer sees %s in %s", d.GetName(), d.GetNamespace())
		}
	}
	if len(seen) == 0 {
		t.Error("the viewer sees nothing")
	}
	if others, err := list(t, as("viewer"), mine, "metadata.namespace="+other); err != nil || len(others) > 0 {
		t.Errorf("the viewer selects %d of another namespace, %v", len(others), err)
	}
	seesOnly(t, c, as("viewer"), mine, other)
	if _, err := as("viewer").Resource(v1alpha1.Decisions).Namespace(mine).Get(t.Context(), name,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("by another namespace's name: %v", err)
	}
	for _, user := range []string{"viewer", "editor", "nobody"} {
		for _, namespace := range []string{mine, other, "default", ""} {
			if user == "viewer" && namespace == mine {
				continue
			}
			decisions := as(user).Resource(v1alpha1.Decisions).Namespace(namespace)
			_, byList := decisions.List(t.Context(), metav1.ListOptions{})
			_, byField := decisions.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
			_, byNamespace := decisions.List(t.Context(),
				metav1.ListOptions{FieldSelector: "metadata.namespace=" + mine})
			_, byWatch := decisions.Watch(t.Context(), metav1.ListOptions{})
			errs := map[string]error{"list": byList, "field": byField, "namespace": byNamespace, "watch": byWatch}
			if namespace != "" {
				_, errs["name"] = decisions.Get(t.Context(), name, metav1.GetOptions{})
			}
			for by, err := range errs {
				if !apierrors.IsForbidden(err) {
					t.Errorf("%s in %q by %s: %v", user, namespace, by, err)
				}
			}
		}
	}
}

// seesOnly has a watch in one namespace told of what is there and of what comes, and of nothing
// that comes in another one meanwhile.
func seesOnly(t *testing.T, c *servertest.Cluster, viewer dynamic.Interface, mine, other string) {
	t.Helper()
	watching, err := viewer.Resource(v1alpha1.Decisions).Namespace(mine).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	for _, namespace := range []string{other, mine} {
		if _, err := c.Client.CoreV1().ConfigMaps(namespace).Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "last"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	refused := false
	for event := range watching.ResultChan() {
		d, ok := event.Object.(*unstructured.Unstructured)
		if !ok || d.GetNamespace() != mine {
			t.Fatalf("the viewer's watch is told of %v", event)
		}
		name, _, _ := unstructured.NestedString(d.Object, "request", "name")
		verdict, _, _ := unstructured.NestedString(d.Object, "verdict")
		if refused = refused || verdict == "Refused"; name == "last" {
			break
		}
	}
	if !refused {
		t.Error("the viewer's watch isn't told of what was there")
	}
}

func client(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// With --decisions=false there is no group.
func TestDecisionsOff(t *testing.T) {
	off := servertest.Start(t, gatehousetest.WithConfig(func(c *server.Config) { c.Decisions.Enabled = false }))
	if _, err := list(t, off.Dynamic, "default", ""); !apierrors.IsNotFound(err) {
		t.Errorf("a list of decisions: %v", err)
	}
}
