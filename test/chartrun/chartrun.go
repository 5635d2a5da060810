// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package chartrun installs the Helm chart in deploy/chart on a running server and runs its pods as a
// cluster does, so that an installation runs as its objects say and not as a test would have it: see
// [Run].
//
//   - [Isolated] gives a test a network and mounts of its own, by running it again in a process
//     that has them. Addresses of 10.0.0.0/8 are those of its Services and pods.
//   - [Node.Run] runs a pod's container as its spec says. The API server has the spec, with all that
//     admission put into it: the user, the read-only root with nothing in it but the program and the
//     volumes, no capabilities, the environment and the token of its service account.
//   - [Node.Publish] and [Node.Serve] are the endpoints controller and the proxy: the Service's
//     EndpointSlice has the pod once its readiness probe says so, and connections to the Service's
//     cluster IP arrive there.
//
// Anything else in a spec fails the test. The package needs Linux and root; without them a test is
// skipped by its name, see package needs.
package chartrun

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/test/charts"
	"gatehouse.dev/test/program"
	"gatehouse.dev/test/servertest"
)

const (
	release, namespace = "gatehouse", "gatehouse-system"

	// programs is in the environment: the directory that has what Prepare has put there.
	programs = "GATEHOUSE_TEST_PROGRAMS"
)

// Isolated runs a test that calls Run once more, in a process with a network and mounts of its own,
// and reports whether this is that process. Another process has nothing left to do. It builds and
// fetches before what takes a network. The process gets the environment besides this one's.
func Isolated(t *testing.T, environment ...string) bool {
	t.Helper()
	if dir := os.Getenv(programs); dir == "" {
		dir = t.TempDir()
		_, err := program.Build(t.Context(), dir)
		if err := errors.Join(err, charts.BuildHelm(t.Context(), dir),
			charts.PutServiceMonitors(t.Context(), filepath.Join(dir, "crds"))); err != nil {
			t.Fatal(err)
		}
		environment = append(environment, programs+"="+dir)
	}
	return program.Isolated(t, environment...)
}

const values = `
plugins: [AlwaysPullImages, PodNodeSelector]
configuration: {PodNodeSelector: {podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: zone=a}}}
flags: [--v=2]
image: {repository: registry.example.com/gatehouse-webhook, tag: v1}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true}
dashboard: {enabled: true}
networkPolicy: {egress: [{ports: [{port: 443}]}]}
`

// A run is one of an installation.
type run struct {
	*testing.T
	client  kubernetes.Interface
	dynamic dynamic.Interface
	node    *Node
}

// Run installs the chart, in a namespace that takes pods of the Pod Security Standard restricted
// only, starts a pod as its Deployment says, sees that the plugins are in force, and removes all
// again, as Helm does, beginning with the hook. The server is at 127.0.0.1, and config is its
// administrator's. dir is the chart's directory.
func Run(t *testing.T, config *rest.Config, dir string) {
	r := &run{T: t, client: kubernetes.NewForConfigOrDie(config), dynamic: dynamic.NewForConfigOrDie(config)}
	r.node = newNode(t, r.client, strings.TrimPrefix(config.Host, "https://"),
		filepath.Join(os.Getenv(programs), program.Name))
	objects, hook := r.rendered(dir)
	r.install(objects, config)
	service, err := r.client.CoreV1().Services(namespace).Get(t.Context(), release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.node.Serve(t, service)

	deployment, err := r.client.AppsV1().Deployments(namespace).Get(t.Context(), release, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.restricted(deployment.Spec.Template)
	pod := r.pod(deployment.Spec.Template)
	replica := r.node.Run(t, pod)
	replica.Ready(t)
	servertest.Eventually(t, "the replica to wait for its Service", func() bool {
		return strings.Contains(replica.Log(), "has no endpoint that is ready")
	})
	if left := r.configurations(); left != "" {
		t.Errorf("before its Service has endpoints there are %s", left)
	}
	r.node.Publish(t, service, pod)
	servertest.Retry(t, "the plugins to be in force", func() error {
		return r.pulls(metav1.NamespaceDefault, "Always, on nodes with map[zone:a]")
	})
	const untouched = "IfNotPresent, on nodes with map[]"
	if err := r.pulls(metav1.NamespaceSystem, untouched); err != nil {
		t.Error(err)
	}
	if lacking := forbidden(replica.Log()); lacking != "" {
		t.Errorf("the service account lacks rights:\n%s", lacking)
	}

	r.uninstall(hook, pod, replica)
	servertest.Retry(t, "the plugins to be gone", func() error { return r.pulls(metav1.NamespaceDefault, untouched) })
	for _, object := range objects {
		if err := r.of(object).Delete(t.Context(), object.GetName(), metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// rendered are the chart's objects, in Helm's order, and its hook.
func (r *run) rendered(dir string) (objects []*unstructured.Unstructured, hook *unstructured.Unstructured) {
	r.Helper()
	file := filepath.Join(r.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		r.Fatal(err)
	}
	cmd := exec.CommandContext(r.Context(), filepath.Join(os.Getenv(programs), "helm"), "template", release, dir,
		"--namespace="+namespace, "-f", file)
	output, err := cmd.Output()
	if err != nil {
		r.Fatal(err)
	}
	for _, document := range strings.Split(string(output), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			r.Fatal(err)
		}
		switch {
		case object.GetAnnotations()["helm.sh/hook"] == "pre-delete":
			hook = object
		case len(object.Object) > 0:
			objects = append(objects, object)
		}
	}
	return objects, hook
}

// of is where an object is.
func (r *run) of(object *unstructured.Unstructured) dynamic.ResourceInterface {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	if object.GetNamespace() == "" {
		return r.dynamic.Resource(resource)
	}
	return r.dynamic.Resource(resource).Namespace(object.GetNamespace())
}

// strictly has the server refuse what an object's schema doesn't know.
var strictly = metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}

func (r *run) install(objects []*unstructured.Unstructured, config *rest.Config) {
	r.Helper()
	if _, err := r.client.CoreV1().Namespaces().Create(r.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}},
		metav1.CreateOptions{}); err != nil {
		r.Fatal(err)
	}
	// Controllers write these, which not every server has beside it.
	for _, in := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		if _, err := r.client.CoreV1().ServiceAccounts(in).Create(r.Context(), &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			r.Fatal(err)
		}
	}
	authority := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"},
		Data: map[string]string{"ca.crt": string(config.CAData)}}
	if _, err := r.client.CoreV1().ConfigMaps(namespace).Create(r.Context(), authority,
		metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		r.Fatal(err)
	}
	for _, plural := range []string{"servicemonitors", "prometheusrules"} {
		definition := &unstructured.Unstructured{}
		content, err := os.ReadFile(filepath.Join(os.Getenv(programs), "crds", "monitoring.coreos.com_"+plural+".yaml"))
		if err == nil {
			err = yaml.Unmarshal(content, &definition.Object)
		}
		if err == nil {
			_, err = r.of(definition).Create(r.Context(), definition, metav1.CreateOptions{})
		}
		if err != nil {
			r.Fatal(err)
		}
	}
	for _, object := range objects {
		servertest.Retry(r, object.GetKind()+" to be known", func() error {
			_, err := r.of(object).Create(r.Context(), object, strictly)
			if apierrors.IsNotFound(err) && object.GroupVersionKind().Group == "monitoring.coreos.com" { // until it is served
				return err
			}
			if err != nil {
				r.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
			}
			return nil
		})
	}
	// That is no rubber stamp.
	for _, object := range objects {
		wrong := object.DeepCopy()
		wrong.SetName("wrong")
		wrong.Object["unheard-of"] = "field"
		if _, err := r.of(wrong).Create(r.Context(), wrong, strictly); err == nil ||
			!strings.Contains(err.Error(), `unknown field "unheard-of"`) {
			r.Errorf("%s with an unknown field: %v", wrong.GetKind(), err)
		}
	}
}
