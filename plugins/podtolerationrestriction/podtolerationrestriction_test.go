// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podtolerationrestriction

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

const pressure = corev1.TaintNodeMemoryPressure + ":NoSchedule"

// none is a list that isn't there, which differs from one without elements.
const none = "(none)"

// namespace is the namespace ns with tolerations in its annotations, each as read has it, or none.
func namespace(t testing.TB, defaults, whitelist string) *corev1.Namespace {
	t.Helper()
	annotations := map[string]string{}
	for annotation, list := range map[string]string{defaultAnnotation: defaults, whitelistAnnotation: whitelist} {
		if list == none {
			continue
		}
		text, err := json.Marshal(read(list))
		if err != nil {
			t.Fatal(err)
		}
		annotations[annotation] = string(text)
	}
	return annotated(annotations)
}

func annotated(annotations map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Annotations: annotations}}
}

func configured(t testing.TB, defaults, whitelist string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"apiVersion": "podtolerationrestriction.admission.k8s.io/v1alpha1", "kind": "Configuration",
		"default": read(defaults), "whitelist": read(whitelist),
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func pod(tolerations string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}, Tolerations: read(tolerations)},
	}
}

// asking is the pod with cpu requested, and limited unless that is empty.
func asking(p *corev1.Pod, request, limit string) *corev1.Pod {
	resources := &p.Spec.Containers[0].Resources
	resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}
	if limit != "" {
		resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)}
	}
	return p
}

const notAllowed = `pods "p" is forbidden: pod tolerations (possibly merged with namespace default tolerations) ` +
	`conflict with its SCOPE whitelist: ` +
	`spec.tolerations[0]: Invalid value: ` +
	`{"key":"testKey","operator":"Equal","value":"testValue","effect":"NoSchedule"}: no toleration on the ` +
	`whitelist covers it`

// The cases of TestPodAdmission in
// k8s.io/kubernetes/plugin/pkg/admission/podtolerationrestriction/admission_test.go, and some more.
// One differs: upstream documents that a conflict is refused, but has ceased to.
func TestCreate(t *testing.T) {
	const (
		key  = "testKey=testValue:NoSchedule"
		key1 = "testKey=testValue1:NoSchedule"
		key2 = "testKey=testValue2:NoSchedule"
	)
	for name, test := range map[string]struct {
		cluster, namespace                   string // defaults
		clusterWhitelist, namespaceWhitelist string
		pod                                  *corev1.Pod
		want                                 string // the pod's tolerations
		refused                              string
	}{
		"cluster's defaults":                     {key, none, "", none, pod(""), key, ""},
		"the pod has them":                       {key, "", "", none, pod(key), key, ""},
		"namespace's defaults, the pod has them": {"", key, "", none, pod(key), key, ""},
		"namespace's defaults":                   {"", key, "", none, pod(""), key, ""},
		"conflict": {"", key, "", none, pod(key1), "",
			`pods "p" is forbidden: namespace tolerations and pod tolerations conflict: spec.tolerations[0]: ` +
				`Invalid value: {"key":"testKey","operator":"Equal","value":"testValue1","effect":"NoSchedule"}: ` +
				`differs from the default toleration for this key and effect, change or remove it`},
		"conflict with the cluster's": {key, none, "", none, pod("a " + key1), "",
			`pods "p" is forbidden: namespace tolerations and pod tolerations conflict: spec.tolerations[1]: ` +
				`Invalid value: {"key":"testKey","operator":"Equal","value":"testValue1","effect":"NoSchedule"}: ` +
				`differs from the default toleration for this key and effect, change or remove it`},
		"the cluster's, overridden by none":   {key2, "", "", none, pod(key1), key1, ""},
		"merged and on the whitelist":         {"", key, "", key, pod(""), key, ""},
		"the cluster's defaults, overridden":  {key, "", "", none, pod(""), "", ""},
		"the cluster's whitelist, overridden": {"", none, key1, "", pod(key), key, ""},
		"merged and not on the whitelist": {"", key, "", key1, pod(""), "",
			strings.ReplaceAll(notAllowed, "SCOPE", "namespace")},
		"not on the cluster's whitelist": {"", none, key1, none, pod(key), "",
			strings.ReplaceAll(notAllowed, "SCOPE", "cluster")},
		"nothing that should be on the whitelist": {"", none, key1, none, pod(""), "", ""},
		"burstable":               {"", key, "", "", asking(pod(""), "500m", "1"), key + " " + pressure, ""},
		"one key twice":           {"", "", "", "", pod(key + " " + key1), key + " " + key1, ""},
		"guaranteed":              {"", key, "", "", asking(pod(""), "1", "1"), key + " " + pressure, ""},
		"burstable, nothing else": {"", none, "", none, asking(pod(""), "500m", ""), pressure, ""},
		"burstable, and tolerates memory pressure": {"", none, "", none,
			asking(pod(corev1.TaintNodeMemoryPressure), "1", ""), corev1.TaintNodeMemoryPressure, ""},
		"two values of a key":   {"", "a=1 a=2", "", none, pod("a=2"), "a=2 a=1", ""},
		"what a default covers": {"", "a", "", none, pod("a=2"), "a", ""},
		"DefaultTolerationSeconds came before, wider": {"", "a:NoExecute@60", "", none, pod("a:NoExecute@300"),
			"a:NoExecute@300", ""},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, configured(t, test.cluster, test.clusterWhitelist),
				namespace(t, test.namespace, test.namespaceWhitelist))
			result := subject.Admit(t, plugintest.Create(test.pod))
			if test.refused != "" { // before anybody else is asked about the pod
				result.Refused(t, 403, test.refused)
				return
			}
			merged := result.Admitted(t).Object.(*corev1.Pod)
			if want := read(test.want); !apiequality.Semantic.DeepEqual(merged.Spec.Tolerations, want) {
				t.Errorf("got  %v\nwant %v", merged.Spec.Tolerations, want)
			}
			subject.Validate(t, plugintest.Create(merged)).Admitted(t)
		})
	}
}

// What Kubernetes does today with a conflict. Source: MergeTolerations in
// k8s.io/kubernetes/pkg/util/tolerations/tolerations.go.
func TestConflictsAreMerged(t *testing.T) {
	for name, test := range map[string]struct{ defaults, pod, want string }{
		"another value":   {"a=1:NoSchedule", "a=2:NoSchedule", "a=2:NoSchedule a=1:NoSchedule"},
		"another time":    {"a=1:NoExecute@60", "a=2:NoExecute@300", "a=2:NoExecute@300 a=1:NoExecute@60"},
		"none":            {"a=1:NoSchedule", "b", "b a=1:NoSchedule"},
		"a wider default": {"a", "a=2", "a"},
		"a wider one":     {"a=2", "a", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			config := strings.NewReplacer(upstreamVersion, ownVersion, `"Configuration"`,
				`"`+ownKind+`","conflicts":"Merge"`).
				Replace(configured(t, test.defaults, ""))
			subject := plugintest.New(t, Descriptor, config, annotated(nil))
			got := subject.Admit(t, plugintest.Create(pod(test.pod))).Admitted(t).Object.(*corev1.Pod).Spec.Tolerations
			if want := read(test.want); !apiequality.Semantic.DeepEqual(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

// The whitelist holds at every update, as upstream: what is stored may have been so before it.
func TestUpdate(t *testing.T) {
	for name, test := range map[string]struct {
		pod, old *corev1.Pod
		want     string
		refused  string
	}{
		// TestIgnoreUpdatingInitializedPod in upstream's admission_test.go: no defaults, no
		// conflicts.
		"defaults are for new pods":               {pod("ok=other"), pod("ok=other"), "ok=other", ""},
		"stored before the whitelist":             {pod("x"), pod("x"), "", "spec.tolerations[0]"},
		"an addition":                             {pod("ok=1 ok"), pod("ok=1"), "ok=1 ok", ""},
		"an addition that isn't on the whitelist": {pod("ok y"), pod("ok"), "", "spec.tolerations[1]"},
		"memory pressure is kept": {asking(pod("ok"), "1", ""), asking(pod("ok "+pressure), "1", ""),
			"ok " + pressure, ""},
		"memory pressure, from before the plugin": {asking(pod("ok"), "1", ""), asking(pod("ok"), "1", ""), "ok " +
			pressure, ""},
		"nothing is taken away, be it redundant": {asking(pod("ok ok=1"), "1", ""),
			asking(pod("ok ok=1 "+pressure), "1", ""), "ok ok=1 " + pressure, ""},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "", namespace(t, "ok=1", "ok "+pressure))
			result := subject.Admit(t, plugintest.Update(test.pod, test.old))
			if test.refused != "" {
				for _, result := range []plugintest.Result{result,
					subject.Validate(t, plugintest.Update(test.pod, test.old))} {
					if result.Code() != 403 || !strings.Contains(result.Message(), test.refused) {
						t.Errorf("got %d %q, want %q", result.Code(), result.Message(), test.refused)
					}
				}
				return
			}
			updated := result.Admitted(t).Object.(*corev1.Pod)
			if want := read(test.want); !apiequality.Semantic.DeepEqual(updated.Spec.Tolerations, want) {
				t.Errorf("got  %v\nwant %v", updated.Spec.Tolerations, want)
			}
			subject.Validate(t, plugintest.Update(updated, test.old)).Admitted(t)
		})
	}
}

func TestWhatCannotBeReadOpensNoDoor(t *testing.T) {
	for name, annotation := range map[string]string{"not JSON": "{",
		"a misspelt field": `[{"keys": "foo", "operator": "Exists"}]`, "a wrong one": "[{}]"} {
		t.Run(name, func(t *testing.T) {
			namespace := annotated(map[string]string{defaultAnnotation: annotation, whitelistAnnotation: annotation})
			subject := plugintest.New(t, Descriptor, "", namespace)
			for _, request := range []plugintest.Request{plugintest.Create(namespace),
				plugintest.Update(namespace, annotated(nil))} {
				subject.Admit(t, request).Admitted(t)
				if warnings := subject.Validate(t, request).Admitted(t).Warnings; len(warnings) != 2 ||
					!strings.HasPrefix(warnings[0], "pods of this namespace will be refused: the tolerations of namespace ns "+
						"can't be parsed") {
					t.Errorf("the namespace: got %q", warnings)
				}
			}
			for annotation, result := range map[string]plugintest.Result{
				defaultAnnotation:   subject.Admit(t, plugintest.Create(pod(""))),
				whitelistAnnotation: subject.Validate(t, plugintest.Create(pod("foo"))),
			} {
				if want := `pods "p" is forbidden: the tolerations of namespace ns can't be parsed, ` +
					`correct or remove the annotation: metadata.annotations[` + annotation + "]"; result.Code() != 403 ||
					!strings.HasPrefix(result.Message(), want) {
					t.Errorf("got %d: %s\nwant 403: %s", result.Code(), result.Message(), want)
				}
			}
		})
	}
}

// An annotation with nothing in it is an empty list: extractNSTolerations in upstream's
// admission.go.
func TestABlankAnnotationIsAnEmptyList(t *testing.T) {
	subject := plugintest.New(t, Descriptor, configured(t, "a", "b"),
		annotated(map[string]string{defaultAnnotation: "", whitelistAnnotation: ""}))
	if subject.Admit(t, plugintest.Create(pod("c"))).Admitted(t).Changed {
		t.Error("the cluster's defaults are added")
	}
	subject.Validate(t, plugintest.Create(pod("c"))).Admitted(t)
}

// A pod has the cluster's defaults as its own, and so has the next one.
func TestTheClustersDefaultsAreNotShared(t *testing.T) {
	subject := plugintest.New(t, Descriptor, configured(t, "a:NoExecute@60", ""), annotated(nil))
	for range 2 {
		got := subject.Admit(t, plugintest.Create(asking(pod(""), "1", ""))).Object.(*corev1.Pod).Spec.Tolerations
		if want := read("a:NoExecute@60 " + pressure); !apiequality.Semantic.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		*got[0].TolerationSeconds = 1
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "",
		annotated(map[string]string{defaultAnnotation: "{", whitelistAnnotation: "{"}))
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for name, request := range map[string]plugintest.Request{
		"status":    plugintest.Update(asking(pod("a"), "1", ""), pod("")).On("pods", "status"),
		"resize":    plugintest.Update(asking(pod("a"), "1", ""), pod("")).On("pods", "resize"),
		"binding":   plugintest.Create(binding).On("pods", "binding"),
		"delete":    plugintest.Delete(pod("a")),
		"connect":   plugintest.Connect(pod("a"), "exec", &corev1.PodExecOptions{}),
		"configmap": plugintest.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}),
	} {
		t.Run(name, func(t *testing.T) {
			subject.Validate(t, request).Admitted(t)
			if subject.Admit(t, request).Admitted(t).Changed {
				t.Error("the object is changed")
			}
		})
	}
}

func TestAnotherObjectIsABadRequest(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", annotated(nil))
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	const want = "PodTolerationRestriction: the object of a request for pods is a *v1.ConfigMap"
	subject.Admit(t, plugintest.Create(config).On("pods", "")).Refused(t, 400, want)
	subject.Validate(t, plugintest.Create(config).On("pods", "")).Refused(t, 400, want)
}

func TestNamespaceIsReadLive(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	subject.Admit(t, plugintest.Create(pod(""))).Refused(t, 404, `namespaces "ns" not found`)
	subject.Validate(t, plugintest.Create(pod("a"))).Refused(t, 404, `namespaces "ns" not found`)
	fresh := namespace(t, "a", "a")
	subject.Client.PrependReactor("get", "namespaces",
		func(clienttesting.Action) (bool, runtime.Object, error) { return true, fresh, nil })
	if got := subject.Admit(t,
		plugintest.Create(pod(""))).Admitted(t).Object.(*corev1.Pod).Spec.Tolerations; len(got) != 1 {
		t.Errorf("got %v", got)
	}
	if code := subject.Validate(t, plugintest.Create(pod("b"))).Code(); code != 403 {
		t.Errorf("got %d", code)
	}
}

func TestItIsOff(t *testing.T) {
	if Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	if _, err := Descriptor.New(nil, &plugin.Env{}); err == nil ||
		err.Error() != "PodTolerationRestriction needs a client" {
		t.Errorf("got %v", err)
	}
}

// A request with as many tolerations as one can carry takes no longer than reading it.
func TestAnyNumberOfTolerations(t *testing.T) {
	subject := plugintest.New(t, Descriptor, configured(t, "a:NoExecute@60", "a b "+pressure),
		annotated(nil)).Built.(*podTolerationRestriction)
	huge := asking(pod(""), "1", "")
	for i := range 100_000 {
		seconds := int64(i)
		huge.Spec.Tolerations = append(huge.Spec.Tolerations,
			corev1.Toleration{Key: "b", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: &seconds})
	}
	attributes := func(operation admission.Operation, old runtime.Object) admission.Attributes {
		return admission.NewAttributesRecord(huge, old, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
			corev1.SchemeGroupVersion.WithResource("pods"), "", operation, nil, false, nil)
	}
	began := time.Now()
	create, update := attributes(admission.Create, nil), attributes(admission.Update, huge.DeepCopy())
	if err := errors.Join(subject.Admit(t.Context(), create, nil), subject.Validate(t.Context(), create, nil),
		subject.Admit(t.Context(), update, nil), subject.Validate(t.Context(), update, nil)); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 30*time.Second { // by pairs it would be minutes
		t.Errorf("took %v", took)
	}
}

func BenchmarkPlugin(b *testing.B) {
	for name, in := range map[string]*corev1.Namespace{"unannotated": annotated(nil),
		"annotated": namespace(b, "a=1:NoSchedule", "a b:NoExecute@300")} {
		b.Run(name, func(b *testing.B) {
			subject := plugintest.New(b, Descriptor, "", in).Built.(*podTolerationRestriction)
			given := pod("b:NoExecute@300")
			b.ReportAllocs()
			for b.Loop() {
				a := admission.NewAttributesRecord(given.DeepCopy(), nil, corev1.SchemeGroupVersion.WithKind("Pod"),
					"ns", "p",
					corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
				if err := subject.Admit(b.Context(), a, nil); err != nil {
					b.Fatal(err)
				}
				if err := subject.Validate(b.Context(), a, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
