// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"

	"gatehouse.dev/test/servertest"
)

func newDeployment(name string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
			},
		},
	}
}

func TestPodIsMutatedThenValidated(t *testing.T) {
	ns := namespace(t)
	m := newBackend(t,
		patch(`[{"op":"add","path":"/metadata/labels","value":{"mutated":"yes"}},{"op":"add",`+
			`"path":"/spec/containers/-","value":{"name":"sidecar","image":"envoy"}}]`))
	v := newBackend(t, allow)
	mutating(t, ns, m, nil, rule("", "v1", "pods"))
	validating(t, ns, v, nil, rule("", "v1", "pods"))

	pod, err := client.CoreV1().Pods(ns).Create(t.Context(), servertest.Pod("p"),
		metav1.CreateOptions{FieldManager: "tester"})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Labels["mutated"] != "yes" || len(pod.Spec.Containers) != 2 ||
		pod.Spec.Containers[1].ImagePullPolicy != corev1.PullAlways {
		t.Errorf("the patch, and defaults for what it adds, should be in the object, which is %+v", pod)
	}
	asked := m.only(t)
	before := decoded[corev1.Pod](t, asked.Object.Raw)
	if before.Kind != "Pod" || before.APIVersion != "v1" || before.Name != "p" || len(before.Spec.Containers) != 1 ||
		before.Spec.Containers[0].ImagePullPolicy == "" {
		t.Errorf("the mutating webhook was sent %s", asked.Object.Raw)
	}
	asked = v.only(t)
	after := decoded[corev1.Pod](t, asked.Object.Raw)
	if after.Labels["mutated"] != "yes" || len(after.Spec.Containers) != 2 ||
		after.Spec.Containers[1].ImagePullPolicy != corev1.PullAlways || after.UID != pod.UID {
		t.Errorf("the validating webhook was sent %s", asked.Object.Raw)
	}
	if asked.Operation != "CREATE" || asked.Namespace != ns || asked.Name != "p" || asked.OldObject.Raw != nil ||
		asked.UserInfo.Username != "kubernetes-admin" || *asked.DryRun {
		t.Errorf("the validating webhook was asked %+v", asked)
	}
	options := decoded[metav1.CreateOptions](t, asked.Options.Raw)
	if options.Kind != "CreateOptions" || options.APIVersion != "meta.k8s.io/v1" || options.FieldManager != "tester" {
		t.Errorf("options are %s", asked.Options.Raw)
	}
}

func TestDenied(t *testing.T) {
	ns := namespace(t)
	v := newBackend(t, func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{
			Warnings: []string{"told you"},
			Result: &metav1.Status{Code: 418, Reason: "Teapot", Message: "no coffee",
				Details: &metav1.StatusDetails{RetryAfterSeconds: 7}},
		}
	})
	validating(t, ns, v, nil, rule("", "v1", "pods"))
	_, err := client.CoreV1().Pods(ns).Create(t.Context(), servertest.Pod("p"), metav1.CreateOptions{})
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	if s := status.Status(); s.Code != 418 || s.Reason != "Teapot" ||
		s.Message != `admission webhook "validating.example.com" denied the request: no coffee` || s.Details == nil ||
		s.Details.RetryAfterSeconds != 7 {
		t.Errorf("the status is %+v", s)
	}
}

// Patches of all kinds and apply are updates, with their own options, of the whole object.
func TestPatches(t *testing.T) {
	ns := namespace(t)
	m := newBackend(t, patch(`[{"op":"add","path":"/data/by","value":"webhook"}]`))
	mutating(t, ns, m, nil, rule("", "v1", "configmaps", "CREATE", "UPDATE"))
	maps := client.CoreV1().ConfigMaps(ns)
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Data: map[string]string{"a": "1"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i, test := range []struct {
		kind types.PatchType
		data string
	}{
		{types.JSONPatchType, `[{"op":"replace","path":"/data","value":{"a":"2"}}]`},
		{types.MergePatchType, `{"data":{"a":"3","by":null}}`},
		{types.StrategicMergePatchType, `{"data":{"a":"4","by":null}}`},
	} {
		got, err := maps.Patch(t.Context(), "c", test.kind, []byte(test.data),
			metav1.PatchOptions{FieldManager: "patcher"})
		if err != nil {
			t.Fatal(err)
		}
		if got.Data["by"] != "webhook" || got.Data["a"] == "1" {
			t.Errorf("patched by %s the data are %v", test.kind, got.Data)
		}
		asked := m.asked()[i+1]
		if object := decoded[corev1.ConfigMap](t, asked.Object.Raw); object.Data["a"] != got.Data["a"] ||
			object.Data["by"] != "" {
			t.Errorf("the webhook was sent %s", asked.Object.Raw)
		}
		if old := decoded[corev1.ConfigMap](t, asked.OldObject.Raw); old.Data["by"] != "webhook" {
			t.Errorf("the old object was %s", asked.OldObject.Raw)
		}
		// A patch that updates is an update: the type's documentation in k8s.io/api/admission/v1
		// says so of options.
		if options := decoded[metav1.UpdateOptions](t, asked.Options.Raw); asked.Operation != "UPDATE" ||
			options.Kind != "UpdateOptions" || options.FieldManager != "patcher" {
			t.Errorf("the webhook was asked about %s with %s", asked.Operation, asked.Options.Raw)
		}
	}
	// Apply, of a new object and of one that is there. What the webhook sets is the applier's, as
	// in Kubernetes.
	for range 2 {
		got, err := maps.Apply(t.Context(), applycorev1.ConfigMap("applied", ns).WithData(map[string]string{"x": "y"}),
			metav1.ApplyOptions{FieldManager: "applier"})
		if err != nil {
			t.Fatal(err)
		}
		if got.Data["by"] != "webhook" || got.Data["x"] != "y" {
			t.Errorf("applied data are %v", got.Data)
		}
	}
	asked := m.asked()
	if created, updated := asked[len(asked)-2], asked[len(asked)-1]; created.Operation != "CREATE" ||
		updated.Operation != "UPDATE" ||
		decoded[metav1.CreateOptions](t, created.Options.Raw).FieldManager != "applier" {
		t.Errorf("apply was a %s and a %s", created.Operation, updated.Operation)
	}
}

// Each object of a collection is deleted by itself, and webhooks see it.
func TestDeleteAndDeleteCollection(t *testing.T) {
	ns := namespace(t)
	v := newBackend(t, func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		old := decoded[corev1.ConfigMap](t, r.OldObject.Raw)
		return &admissionv1.AdmissionResponse{Allowed: old.Name != "kept",
			Result: &metav1.Status{Code: 403, Message: "stays"}}
	})
	validating(t, ns, v, nil, rule("", "v1", "configmaps", "DELETE"))
	maps := client.CoreV1().ConfigMaps(ns)
	for _, name := range []string{"one", "two", "three", "kept"} {
		if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{"name": name}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	orphan := metav1.DeletePropagationOrphan
	if err := maps.Delete(t.Context(), "one", metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	asked := v.only(t)
	if old := decoded[corev1.ConfigMap](t, asked.OldObject.Raw); asked.Operation != "DELETE" || asked.Name != "one" ||
		old.Labels["name"] != "one" || asked.Object.Raw != nil {
		t.Errorf("the webhook was asked %+v", asked)
	}
	if options := decoded[metav1.DeleteOptions](t, asked.Options.Raw); options.Kind != "DeleteOptions" ||
		*options.PropagationPolicy != orphan {
		t.Errorf("options are %s", asked.Options.Raw)
	}
	err := maps.DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "name in (two, three)"})
	if err != nil {
		t.Fatal(err)
	}
	// The request has no name: it is for the collection.
	seen := sets.New[string]()
	for _, r := range v.asked()[1:] {
		seen.Insert(r.Name + "/" + decoded[corev1.ConfigMap](t, r.OldObject.Raw).Name)
	}
	if !seen.Equal(sets.New("/two", "/three")) {
		t.Errorf("of the collection the webhook saw %v", seen)
	}
	if err := maps.DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{LabelSelector: "name=kept"}); err == nil || !strings.Contains(err.Error(), "stays") {
		t.Errorf("deleting what is kept: %v", err)
	}
	if _, err := maps.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

// Subresources have objects of their own: Eviction, Binding, Scale, the options of a connection.
func TestSubresources(t *testing.T) {
	ns := namespace(t)
	v := newBackend(t, allow)
	validating(t, ns, v, nil, rule("", "v1", "pods/*"), rule("*", "*", "*/scale"))
	pods := client.CoreV1().Pods(ns)
	if _, err := pods.Create(t.Context(), servertest.Pod("p"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	exec := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(ns).Name("p").SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: "main", Command: []string{"ls", "-l"}, Stdout: true},
			scheme.ParameterCodec)
	executor, err := remotecommand.NewSPDYExecutor(config, "POST", exec.URL())
	if err != nil {
		t.Fatal(err)
	}
	// there is no node to do it
	_ = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &strings.Builder{}})
	// the first time it was about the pod: pods/* matches that, too
	asked := v.asked()[1]
	if options := decoded[corev1.PodExecOptions](t, asked.Object.Raw); asked.Operation != "CONNECT" ||
		asked.SubResource != "exec" || asked.Name != "p" ||
		options.Kind != "PodExecOptions" || options.APIVersion != "v1" || len(options.Command) != 2 ||
		asked.Options.Raw != nil || asked.Kind.Kind != "PodExecOptions" {
		t.Errorf("about exec the webhook was asked %+v, %s", asked, asked.Object.Raw)
	}

	if err := pods.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	asked = v.asked()[2]
	if binding := decoded[corev1.Binding](t, asked.Object.Raw); asked.Operation != "CREATE" ||
		asked.SubResource != "binding" || asked.Kind.Kind != "Binding" || binding.Target.Name != "n" {
		t.Errorf("about a binding the webhook was asked %+v, %s", asked, asked.Object.Raw)
	}

	if err := pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}}); err != nil {
		t.Fatal(err)
	}
	asked = v.asked()[3]
	if asked.Operation != "CREATE" || asked.SubResource != "eviction" ||
		asked.Kind != (metav1.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}) {
		t.Errorf("about an eviction the webhook was asked %+v, %s", asked, asked.Object.Raw)
	}

	if _, err := client.AppsV1().Deployments(ns).Create(t.Context(), newDeployment("d"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.AppsV1().Deployments(ns).UpdateScale(t.Context(), "d",
		&autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: ns},
			Spec: autoscalingv1.ScaleSpec{Replicas: 3}}, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	all := v.asked()
	asked = all[len(all)-1]
	if scale := decoded[autoscalingv1.Scale](t, asked.Object.Raw); asked.Operation != "UPDATE" ||
		asked.SubResource != "scale" || asked.Resource.Resource != "deployments" ||
		asked.Kind != (metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}) ||
		scale.Spec.Replicas != 3 {
		t.Errorf("about a scale the webhook was asked %+v, %s", asked, asked.Object.Raw)
	}
	if old := decoded[autoscalingv1.Scale](t, asked.OldObject.Raw); old.Spec.Replicas != 1 {
		t.Errorf("the old scale was %s", asked.OldObject.Raw)
	}
}

// A dry run is one whether the URL or the body says so, and leaves the objects where they are.
func TestDryRunInBody(t *testing.T) {
	ns := namespace(t)
	v := newBackend(t, allow)
	validating(t, ns, v, nil, rule("", "v1", "pods/eviction"), rule("", "v1", "pods", "DELETE"))
	pods := client.CoreV1().Pods(ns)
	if _, err := pods.Create(t.Context(), servertest.Pod("p"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	evict := func(options *metav1.DeleteOptions) error {
		return pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"},
			DeleteOptions: options})
	}
	old := &policyv1beta1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}, DeleteOptions: &dry}
	for i, tried := range []struct {
		what string
		by   func() error
		dry  bool
	}{
		{"eviction", func() error { return evict(&dry) }, true},
		{"eviction in the old version", func() error { return pods.EvictV1beta1(t.Context(), old) }, true},
		{"deletion", func() error { return pods.Delete(t.Context(), "p", dry) }, true},
		{"deletion of all", func() error {
			return pods.DeleteCollection(t.Context(), dry, metav1.ListOptions{})
		}, true},
		{"real eviction", func() error { return evict(nil) }, false},
	} {
		if err := tried.by(); err != nil {
			t.Fatalf("%s: %v", tried.what, err)
		}
		asked := v.asked()
		if len(asked) != i+1 || asked[i].DryRun == nil || *asked[i].DryRun != tried.dry {
			t.Errorf("%s: asked %d times, the last time with dryRun %v", tried.what, len(asked),
				asked[len(asked)-1].DryRun)
		}
		if _, err := pods.Get(t.Context(), "p", metav1.GetOptions{}); (err == nil) != tried.dry {
			t.Errorf("%s: getting the pod: %v", tried.what, err)
		}
	}
}

// A mutating webhook may change a scale, and the target follows.
func TestScaleIsMutated(t *testing.T) {
	ns := namespace(t)
	m := newBackend(t, patch(`[{"op":"replace","path":"/spec/replicas","value":2}]`))
	mutating(t, ns, m, nil, rule("apps", "v1", "deployments/scale"))
	deployments := client.AppsV1().Deployments(ns)
	if _, err := deployments.Create(t.Context(), newDeployment("d"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := deployments.Patch(t.Context(), "d", types.MergePatchType, []byte(`{"spec":{"replicas":9}}`),
		metav1.PatchOptions{}, "scale"); err != nil {
		t.Fatal(err)
	}
	d, err := deployments.Get(t.Context(), "d", metav1.GetOptions{})
	if err != nil || *d.Spec.Replicas != 2 {
		t.Errorf("the deployment has %v replicas (%v)", d.Spec.Replicas, err)
	}
}

// Who asks for apps/v1 is asked about apps/v1 also where apps/v1beta1 was sent, and its patch
// arrives in the object that was sent.
func TestEquivalentVersion(t *testing.T) {
	ns := namespace(t)
	m := newBackend(t, patch(`[{"op":"replace","path":"/spec/replicas","value":4}]`))
	v := newBackend(t, allow)
	mutating(t, ns, m, nil, rule("apps", "v1", "deployments", "CREATE"))
	validating(t, ns, v,
		func(w *admissionregistrationv1.ValidatingWebhook) { w.AdmissionReviewVersions = []string{"v1beta1"} },
		rule("apps", "v1", "deployments", "CREATE"))
	sent := &appsv1beta1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"},
		Spec: appsv1beta1.DeploymentSpec{Template: newDeployment("d").Spec.Template}}
	got, err := client.AppsV1beta1().Deployments(ns).Create(t.Context(), sent, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// apps/v1beta1 takes the selector from the template, which apps/v1 doesn't.
	if *got.Spec.Replicas != 4 || got.Spec.Selector.MatchLabels["app"] != "d" || *got.Spec.RevisionHistoryLimit != 2 {
		t.Errorf("the deployment is %+v", got.Spec)
	}
	for _, b := range []*backend{m, v} {
		asked := b.only(t)
		if asked.Kind.Version != "v1" || asked.Resource.Version != "v1" || asked.RequestKind.Version != "v1beta1" ||
			asked.RequestResource.Version != "v1beta1" {
			t.Errorf("the webhook was asked %+v", asked)
		}
		if d := decoded[appsv1.Deployment](t, asked.Object.Raw); d.APIVersion != "apps/v1" ||
			d.Spec.Selector.MatchLabels["app"] != "d" {
			t.Errorf("the webhook was sent %s", asked.Object.Raw)
		}
	}
	if v.versions[0] != "admission.k8s.io/v1beta1" || m.versions[0] != "admission.k8s.io/v1" {
		t.Errorf("the reviews were %s and %s", m.versions[0], v.versions[0])
	}
}

func TestDryRunIsTold(t *testing.T) {
	ns := namespace(t)
	m := newBackend(t, patch(`[{"op":"add","path":"/metadata/labels","value":{"mutated":"yes"}}]`))
	sideEffects := admissionregistrationv1.SideEffectClassNoneOnDryRun
	mutating(t, ns, m, func(w *admissionregistrationv1.MutatingWebhook) { w.SideEffects = &sideEffects },
		rule("", "v1", "pods"))
	pod, err := client.CoreV1().Pods(ns).Create(t.Context(), servertest.Pod("p"),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatal(err)
	}
	asked := m.only(t)
	if pod.Labels["mutated"] != "yes" || !*asked.DryRun ||
		len(decoded[metav1.CreateOptions](t, asked.Options.Raw).DryRun) != 1 {
		t.Errorf("the pod is %+v, the webhook was asked %+v", pod, asked)
	}
	if _, err := client.CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run has stored the pod: %v", err)
	}
}

// A Namespace is selected by its own labels, and no webhook of the API is asked about
// configurations.
func TestNamespacesAndConfigurations(t *testing.T) {
	ns := namespace(t)
	v := newBackend(t, allow)
	mine := func(w *admissionregistrationv1.ValidatingWebhook) {
		w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"for": ns}}
	}
	if _, err := client.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"for":"`+ns+`"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	validating(t, ns, v, mine, rule("", "v1", "namespaces"), rule("admissionregistration.k8s.io", "*", "*"))
	for name, labels := range map[string]map[string]string{"a-" + ns: {"for": ns}, "b-" + ns: {"for": "others"}} {
		if _, err := client.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	other := namespace(t)
	mutating(t, other, newBackend(t, allow), nil, rule("", "v1", "secrets"))
	if asked := v.only(t); asked.Name != "a-"+ns || asked.Resource.Resource != "namespaces" {
		t.Errorf("the webhook was asked about %s %s", asked.Resource, asked.Name)
	}
}
