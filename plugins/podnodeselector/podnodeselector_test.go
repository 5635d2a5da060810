// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podnodeselector

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

const (
	conflicts      = `pods "p" is forbidden: pod node label selector conflicts with its namespace node label selector`
	notWhitelisted = `pods "p" is forbidden: pod node label selector labels conflict with its namespace whitelist`
)

// namespace is the namespace ns, with the node selector in the usual annotation unless that is
// none.
func namespace(selector string) *corev1.Namespace {
	if selector == none {
		return annotatedWith(nil)
	}
	return annotatedWith(map[string]string{annotation: selector})
}

const none = "(none)"

func annotatedWith(annotations map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Annotations: annotations}}
}

func pod(selector map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{NodeSelector: selector}}
}

// configured is a configuration with the cluster's default and a whitelist of the namespace ns.
func configured(clusterDefault, whitelist string) string {
	return "podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector: \"" + clusterDefault + "\"\n  ns: \"" +
		whitelist + "\"\n"
}

// The cases of TestPodAdmission in
// k8s.io/kubernetes/plugin/pkg/admission/podnodeselector/admission_test.go, and some more.
func TestCreate(t *testing.T) {
	type set = map[string]string
	for name, test := range map[string]struct {
		clusterDefault string
		namespace      string
		whitelist      string
		pod, want      set
		refused        string
	}{
		"no node selectors":                    {"", none, "", set{}, set{}, ""},
		"none, not even an empty one":          {"", none, "", nil, nil, ""},
		"the default":                          {"infra = false", none, "", set{}, set{"infra": "false"}, ""},
		"the default, for a pod without any":   {"infra = false", none, "", nil, set{"infra": "false"}, ""},
		"the namespace's, with spaces":         {"", " infra = false ", "", set{}, set{"infra": "false"}, ""},
		"the namespace's replaces the default": {"infra = false", "infra=true", "", set{}, set{"infra": "true"}, ""},
		"an empty one does, too":               {"infra = false", "", "", set{}, set{}, ""},
		"merged": {"infra = false", "infra=true", "", set{"env": "test"},
			set{"infra": "true", "env": "test"}, ""},
		"the same":              {"", "infra=true", "", set{"infra": "true"}, set{"infra": "true"}, ""},
		"a label without value": {"", "infra=", "", nil, set{"infra": ""}, ""},
		"conflict of one label": {"env = test", "infra=true", "", set{"infra": "false"}, nil,
			conflicts},
		"conflict of one label of several": {"env=dev", "infra=false, env = test", "",
			set{"env": "dev", "color": "blue"}, nil, conflicts},
		"conflict with the default": {"env=test", none, "", set{"env": "dev"}, nil, conflicts},
		"on the whitelist": {"env=dev", "infra=false, env = dev",
			"env=dev, infra=false, color=blue", set{"env": "dev", "color": "blue"},
			set{"infra": "false", "env": "dev", "color": "blue"}, ""},
		"another value than on the whitelist": {"env=dev", "infra=false, env = dev",
			"env=dev, infra=true, color=blue", set{"env": "dev", "color": "blue"}, nil, notWhitelisted},
		"the default isn't on the whitelist":    {"env=dev", none, "env=prd", set{}, nil, notWhitelisted},
		"a label that isn't on the whitelist":   {"", none, "env=dev", set{"zone": "b"}, nil, notWhitelisted},
		"nothing to be on the whitelist":        {"", none, "env=dev", nil, nil, ""},
		"a whitelist without labels allows all": {"", none, "", set{"zone": "b"}, set{"zone": "b"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, configured(test.clusterDefault, test.whitelist),
				namespace(test.namespace))
			result := subject.Admit(t, plugintest.Create(pod(test.pod)))
			if test.refused != "" { // before anybody else is asked about the pod
				result.Refused(t, 403, test.refused)
				return
			}
			merged := result.Admitted(t).Object.(*corev1.Pod)
			if !maps.Equal(merged.Spec.NodeSelector, test.want) {
				t.Errorf("got %v, want %v", merged.Spec.NodeSelector, test.want)
			}
			subject.Validate(t, plugintest.Create(merged)).Admitted(t)
		})
	}
}

// The documentation of Kubernetes has named other annotations, which it has never read.
func TestAnnotations(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		want        map[string]string
		refused     string
	}{
		"the one": {map[string]string{annotation: "a=1,b=2"}, map[string]string{"a": "1", "b": "2"}, ""},
		"others": {map[string]string{"scheduler.kubernetes.io/node-selector": "a=1",
			"scheduler.kubernetes.io/nodeSelector": "a=="}, map[string]string{"by": "default"}, ""},
		"the one and others": {map[string]string{annotation: "a=1", "scheduler.kubernetes.io/node-selector": "a=2"},
			map[string]string{"a": "1"}, ""},
		"no value": {map[string]string{annotation: "a"}, nil, unreadable(annotation) +
			`"a": invalid selector: [a]`},
		"a trailing comma": {map[string]string{annotation: "a=1,"}, nil, unreadable(annotation) +
			`"a=1,": invalid selector: []`},
		"two signs": {map[string]string{annotation: "a==1"}, nil, unreadable(annotation) +
			`"a==1": invalid selector: [a  1]`},
		"set-based": {map[string]string{annotation: "a in (1)"}, nil, unreadable(annotation) +
			`"a in (1)": invalid selector: [a in (1)]`},
		"no label": {map[string]string{annotation: "-=1"}, nil, unreadable(annotation) +
			`"-": name part must consist of alphanumeric characters, '-', '_' or '.', ` +
			`and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', ` +
			`regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`},
		"no label value": {map[string]string{annotation: "a=/"}, nil,
			`the node selector of namespace ns can't be parsed, correct or remove the annotation: ` +
				`metadata.annotations[` + annotation +
				`][a]: Invalid value: "/": ` +
				`a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and ` +
				`must ` +
				`start and end with an alphanumeric character ` +
				`(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is ` +
				`'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, configured("by=default", ""), annotatedWith(test.annotations))
			admit, validate := subject.Admit(t, plugintest.Create(pod(nil))),
				subject.Validate(t, plugintest.Create(pod(nil)))
			written, want := annotatedWith(test.annotations), []string(nil)
			if test.refused != "" {
				want = []string{"pods of this namespace will be refused: " + test.refused}
			}
			for _, request := range []plugintest.Request{plugintest.Create(written),
				plugintest.Update(written, annotatedWith(nil))} {
				subject.Admit(t, request).Admitted(t)
				if result := subject.Validate(t, request); !slices.Equal(result.Admitted(t).Warnings, want) {
					t.Errorf("the namespace: got %q, want %q", result.Warnings, want)
				}
			}
			if test.refused != "" {
				// What can't be read opens no door, in neither phase.
				admit.Refused(t, 403, `pods "p" is forbidden: `+test.refused)
				validate.Refused(t, 403, `pods "p" is forbidden: `+test.refused)
				return
			}
			validate.Admitted(t)
			if got := admit.Admitted(t).Object.(*corev1.Pod).Spec.NodeSelector; !maps.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func unreadable(annotation string) string {
	return "the node selector of namespace ns can't be parsed, correct or remove the annotation: " +
		"metadata.annotations[" + annotation + "]: Invalid value: "
}

// What others changed after the mutating phase, a webhook say.
func TestValidateSeesTheFinalPod(t *testing.T) {
	subject := plugintest.New(t, Descriptor, configured("", "infra=true, env=test"), namespace("infra=true"))
	subject.Validate(t, plugintest.Create(pod(map[string]string{"infra": "false"}))).Refused(t, 403, conflicts)
	subject.Validate(t, plugintest.Create(pod(map[string]string{"infra": "true", "zone": "b"}))).Refused(t, 403,
		notWhitelisted)
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", namespace("=="))
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for name, request := range map[string]plugintest.Request{
		"update":      plugintest.Update(pod(map[string]string{"a": "b"}), pod(nil)),
		"status":      plugintest.Update(pod(map[string]string{"a": "b"}), pod(nil)).On("pods", "status"),
		"resize":      plugintest.Update(pod(map[string]string{"a": "b"}), pod(nil)).On("pods", "resize"),
		"binding":     plugintest.Create(binding).On("pods", "binding"),
		"delete":      plugintest.Delete(pod(nil)),
		"connect":     plugintest.Connect(pod(nil), "exec", &corev1.PodExecOptions{}),
		"configmap":   plugintest.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}),
		"other group": plugintest.Create(podMetrics()),
	} {
		t.Run(name, func(t *testing.T) {
			subject.Validate(t, request).Admitted(t)
			if subject.Admit(t, request).Admitted(t).Changed {
				t.Error("the object is changed")
			}
		})
	}
}

// podMetrics is of another group's resource named pods.
func podMetrics() runtime.Object {
	object := pod(nil)
	object.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("Pod"))
	object.APIVersion = "metrics.k8s.io/v1"
	return object
}

func TestAnotherObjectIsABadRequest(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", namespace("infra=true"))
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	const want = "PodNodeSelector: the object of a request for pods is a *v1.ConfigMap"
	subject.Admit(t, plugintest.Create(config).On("pods", "")).Refused(t, 400, want)
	subject.Validate(t, plugintest.Create(config).On("pods", "")).Refused(t, 400, want)
}

func TestNamespaceIsReadLive(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	live := func(object *corev1.Namespace, err error) {
		subject.Client.PrependReactor("get", "namespaces",
			func(clienttesting.Action) (bool, runtime.Object, error) { return true, object, err })
	}
	subject.Admit(t, plugintest.Create(pod(nil))).Refused(t, 404, `namespaces "ns" not found`)
	subject.Client.ClearActions()
	live(namespace("infra=true"), nil)
	got := subject.Admit(t, plugintest.Create(pod(nil))).Admitted(t).Object.(*corev1.Pod).Spec.NodeSelector
	if !maps.Equal(got, map[string]string{"infra": "true"}) || !slices.Contains(subject.Calls(), "get namespaces ns") {
		t.Errorf("got %v after %q", got, subject.Calls())
	}
	live(nil, errors.New("no leader"))
	subject.Admit(t, plugintest.Create(pod(nil))).Refused(t, 500, "Internal error occurred: no leader")
}

// The selector that a pod gets is its own.
func TestTheDefaultIsNotShared(t *testing.T) {
	subject := plugintest.New(t, Descriptor, configured("infra=true", ""), namespace(none))
	subject.Admit(t, plugintest.Create(pod(nil))).Object.(*corev1.Pod).Spec.NodeSelector["infra"] = "false"
	if got := subject.Admit(t,
		plugintest.Create(pod(nil))).Object.(*corev1.Pod).Spec.NodeSelector["infra"]; got != "true" {
		t.Errorf("the default has become %q", got)
	}
}

// A namespace without a selector and a whitelist: nobody looks at the pod, which could mean
// converting it.
func TestAPodIsNotLookedAtForNothing(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", namespace(none)).Built.(*podNodeSelector)
	a := unread{admission.NewAttributesRecord(nil, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil), t}
	if err := errors.Join(subject.Admit(t.Context(), a, nil), subject.Validate(t.Context(), a, nil)); err != nil {
		t.Error(err)
	}
}

type unread struct {
	admission.Attributes
	t *testing.T
}

func (u unread) GetObject() runtime.Object { u.t.Error("the object is looked at"); return nil }

func TestItIsOff(t *testing.T) {
	if Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	if _, err := Descriptor.New(nil, &plugin.Env{}); err == nil || err.Error() != "PodNodeSelector needs a client" {
		t.Errorf("got %v", err)
	}
}

// Whatever an annotation says: it is an error that names it, or labels that can be written and read
// again.
func FuzzAnnotation(f *testing.F) {
	for _, seed := range []string{
		"", "a=b", " a = b ", "a=b,c=d", "a=b,a=c", "a", "=", "a=", "=b", ",", "a=b,", "a==b", "a!=b", "a in (b)",
		"example.com/a=b", "a/b/c=d", "\x00=\xff",
		"a=" + strings.Repeat("b", 64), strings.Repeat("a=b,", 1000),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		said := readAnnotation(namespace(text))
		if said.err != nil {
			if message := said.err.Error(); !strings.Contains(message, "metadata.annotations[") {
				t.Errorf("the error says not where: %s", message)
			}
			return
		}
		if !said.found && text != none {
			t.Error("the annotation is not found")
		}
		again, invalid := parse(said.selector.String(), field.NewPath("again"))
		if invalid != nil || !labels.Equals(said.selector, again) {
			t.Errorf("%q is %v, which reads %v, %v", text, said.selector, again, invalid)
		}
	})
}

func BenchmarkAdmit(b *testing.B) {
	for name, selector := range map[string]string{"none": none, "annotated": "infra=true"} {
		b.Run(name, func(b *testing.B) {
			subject := plugintest.New(b, Descriptor, "", namespace(selector)).Built.(*podNodeSelector)
			a := admission.NewAttributesRecord(pod(nil), nil, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
				corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
			b.ReportAllocs()
			for b.Loop() {
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
