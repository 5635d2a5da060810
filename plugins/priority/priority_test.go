// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package priority

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// class makes a PriorityClass of "name=value", with " default" and " Never" or "
// PreemptLowerPriority" behind it where it has that.
func class(text string) *schedulingv1.PriorityClass {
	words := strings.Fields(text)
	c := &schedulingv1.PriorityClass{}
	name, value, _ := strings.Cut(words[0], "=")
	c.Name = name
	fmt.Sscan(value, &c.Value)
	for _, word := range words[1:] {
		if word == "default" {
			c.GlobalDefault = true
			continue
		}
		c.PreemptionPolicy = new(corev1.PreemptionPolicy(word))
	}
	return c
}

func classes(texts ...string) []runtime.Object {
	var all []runtime.Object
	for _, text := range texts {
		all = append(all, class(text))
	}
	return all
}

// pod makes a pod that names a class and, where they are given, says a priority and a preemption
// policy: "name 1000 Never". "-" is what it doesn't say.
func pod(text string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	words := append(strings.Fields(text), "-", "-", "-")
	if words[0] != "-" {
		p.Spec.PriorityClassName = words[0]
	}
	if words[1] != "-" {
		p.Spec.Priority = new(int32)
		fmt.Sscan(words[1], p.Spec.Priority)
	}
	if words[2] != "-" {
		p.Spec.PreemptionPolicy = new(corev1.PreemptionPolicy(words[2]))
	}
	return p
}

// says is what pod made a pod of.
func says(p *corev1.Pod) string {
	words := []string{"-", "-", "-"}
	if p.Spec.PriorityClassName != "" {
		words[0] = p.Spec.PriorityClassName
	}
	if p.Spec.Priority != nil {
		words[1] = fmt.Sprint(*p.Spec.Priority)
	}
	if p.Spec.PreemptionPolicy != nil {
		words[2] = string(*p.Spec.PreemptionPolicy)
	}
	return strings.Join(words, " ")
}

// The cases of TestPodAdmission and TestDefaultPriority in
// k8s.io/kubernetes/plugin/pkg/admission/priority/admission_test.go, and some more.
func TestCreatePod(t *testing.T) {
	const (
		noSuch   = `pods "p" is forbidden: no PriorityClass with name %s was found`
		otherInt = `pods "p" is forbidden: the integer value of priority (%d) must not be provided in pod spec; ` +
			`priority admission controller computed %d from the given PriorityClass name`
		otherText = `pods "p" is forbidden: the string value of PreemptionPolicy (%s) must not be provided in pod ` +
			`spec; priority admission controller computed %s from the given PriorityClass name`
		critical = "system-cluster-critical=2000000000"
	)
	for name, test := range map[string]struct {
		classes []string
		pod     string
		want    string
		refused string
	}{
		"with a class": {[]string{"default1=1000 default", "other=2000"}, "default1",
			"default1 1000 -", ""},
		"with another than the default": {[]string{"default1=1000 default", "other=2000"}, "other", "other 2000 -",
			""},
		"without one":                      {[]string{"default1=1000 default"}, "", "default1 1000 -", ""},
		"without one, there are none":      {nil, "", "- 0 PreemptLowerPriority", ""},
		"without one, there is no default": {[]string{"other=2000"}, "", "- 0 PreemptLowerPriority", ""},
		"several defaults, the lowest":     {[]string{"a=2000 default", "b=1000 default"}, "", "b 1000 -", ""},
		"several defaults, the first": {[]string{"b=1000 default", "a=1000 default", "c=1000 default"}, "",
			"a 1000 -", ""},
		"a negative default": {[]string{"a=-5 default"}, "", "a -5 -", ""},
		"a system class": {[]string{critical}, "system-cluster-critical",
			"system-cluster-critical 2000000000 -", ""},
		"no such class": {[]string{"default1=1000 default"}, "non-existing", "",
			fmt.Sprintf(noSuch, "non-existing")},
		"a number and no such class":      {nil, "default1 1000", "", fmt.Sprintf(noSuch, "default1")},
		"no name that a class could have": {nil, "../x", "", fmt.Sprintf(noSuch, "../x")},
		"the number of no class":          {[]string{"other=2000"}, "- 0", "- 0 PreemptLowerPriority", ""},
		"the number of the default":       {[]string{"default2=2000 default"}, "- 2000", "default2 2000 -", ""},
		"the number of the class": {[]string{critical}, "system-cluster-critical 2000000000",
			"system-cluster-critical 2000000000 -", ""},
		"another number":           {[]string{"a=1000"}, "a 1", "", fmt.Sprintf(otherInt, 1, 1000)},
		"a number without a class": {nil, "- 7", "", fmt.Sprintf(otherInt, 7, 0)},
		"the class's policy":       {[]string{"a=2000 Never"}, "a 2000", "a 2000 Never", ""},
		"the default's policy":     {[]string{"a=2000 default Never"}, "", "a 2000 Never", ""},
		"the same policy": {[]string{"a=2000 PreemptLowerPriority"}, "a 2000 PreemptLowerPriority",
			"a 2000 PreemptLowerPriority", ""},
		"another policy": {[]string{"a=2000 PreemptLowerPriority"}, "a 2000 Never", "",
			fmt.Sprintf(otherText, "Never", "PreemptLowerPriority")},
		"a policy without a class": {nil, "- - Never", "",
			fmt.Sprintf(otherText, "Never", "PreemptLowerPriority")},
		"a policy, where the class has none": {[]string{"a=2000"}, "a - Never", "a 2000 Never", ""},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "", classes(test.classes...)...)
			result := subject.Admit(t, plugintest.Create(pod(test.pod)))
			if test.refused != "" {
				result.Refused(t, 403, test.refused)
				return
			}
			if got := says(result.Admitted(t).Object.(*corev1.Pod)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if calls := subject.Calls(); len(calls) != 0 {
				t.Errorf("the cache should do, but there were calls: %q", calls)
			}
		})
	}
}

// admitPod in upstream's admission.go: what a stored pod has is preserved on update.
func TestUpdatePod(t *testing.T) {
	for name, test := range map[string]struct{ pod, old, want string }{
		"left out":               {"a", "a 1000 Never", "a 1000 Never"},
		"priority left out":      {"a - Never", "a 1000 Never", "a 1000 Never"},
		"policy left out":        {"a 1000", "a 1000 Never", "a 1000 Never"},
		"changed, which the API": {"b 2000 PreemptLowerPriority", "a 1000 Never", "b 2000 PreemptLowerPriority"},
		"stored without":         {"a", "a", "a - -"},
		"added, also the API's":  {"a 1000", "a", "a 1000 -"},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "", class("a=7 default Never"))
			result := subject.Admit(t, plugintest.Update(pod(test.pod), pod(test.old))).Admitted(t)
			if got := says(result.Object.(*corev1.Pod)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// The cases of TestPriorityClassAdmission in upstream's admission_test.go, and some more.
func TestOneDefaultClass(t *testing.T) {
	const refused = `priorityclasses.scheduling.k8s.io "%s" is forbidden: PriorityClass %s is already marked as ` +
		`default. Only one default can exist`
	create := func(text string) plugintest.Request { return plugintest.Create(class(text)) }
	update := func(text, old string) plugintest.Request { return plugintest.Update(class(text), class(old)) }
	for name, test := range map[string]struct {
		stored  []string
		request plugintest.Request
		refused string
	}{
		"create the first": {nil, create("a=1000 default"), ""},
		"create the second": {[]string{"a=1000 default"}, create("b=2000 default"),
			fmt.Sprintf(refused, "b", "a")},
		"create the same": {[]string{"a=1000 default"}, create("a=1000 default"),
			fmt.Sprintf(refused, "a", "a")},
		"create one that isn't": {[]string{"a=1000 default"}, create("b=2000"), ""},
		"create beside others":  {[]string{"a=1000"}, create("b=2000 default"), ""},
		"create a system class": {nil, create("system-test=1000000001"), ""},
		"create the second, dry run": {[]string{"a=1000 default"}, create("b=2000 default").AsDryRun(),
			fmt.Sprintf(refused, "b", "a")},
		"update the default": {[]string{"a=1000 default"}, update("a=1000 default Never", "a=1000 default"),
			""},
		"mark one": {[]string{"a=1000"}, update("a=1000 default", "a=1000"), ""},
		"mark a second": {[]string{"a=1000 default", "b=2000"}, update("b=2000 default", "b=2000"),
			fmt.Sprintf(refused, "b", "a")},
		"unmark": {[]string{"a=1000 default", "b=2000 default"},
			update("b=2000", "b=2000 default"), ""},
		"of two, update the lower one": {[]string{"a=1000 default", "b=2000 default"},
			update("a=1000 default", "a=1000 default"), ""},
		"delete": {[]string{"a=1000 default"}, plugintest.Delete(class("a=1000 default")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "", classes(test.stored...)...)
			result := subject.Validate(t, test.request)
			if test.refused != "" {
				result.Refused(t, 403, test.refused)
				return
			}
			result.Admitted(t)
		})
	}
}

func TestAClassTheCacheDoesNotShowIsReadLive(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	var failure error
	subject.Client.PrependReactor("get", "priorityclasses", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, class("fresh=5"), failure
	})
	if got := says(subject.Admit(t,
		plugintest.Create(pod("fresh"))).Admitted(t).Object.(*corev1.Pod)); got != "fresh 5 -" {
		t.Errorf("got %s", got)
	}
	if calls := subject.Calls(); !slices.Contains(calls, "get priorityclasses fresh") {
		t.Errorf("calls: %q", calls)
	}
	subject.Client.ClearActions()
	subject.Admit(t, plugintest.Create(pod("../fresh"))).Refused(t, 403,
		`pods "p" is forbidden: no PriorityClass with name ../fresh was found`)
	if calls := subject.Calls(); len(calls) != 0 {
		t.Errorf("what can't be a name is read: %q", calls)
	}
	failure = errors.New("no leader")
	subject.Admit(t, plugintest.Create(pod("fresh"))).Refused(t, 500,
		"Internal error occurred: failed to resolve PriorityClass with name fresh: no leader")
}

// Another default class is looked for where it is for sure.
func TestDefaultClassesAreListedLive(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	var failure error
	subject.Client.PrependReactor("list", "priorityclasses", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &schedulingv1.PriorityClassList{Items: []schedulingv1.PriorityClass{*class("fresh=5 default")}},
			failure
	})
	subject.Validate(t, plugintest.Create(class("a=1 default"))).
		Refused(t, 403,
			`priorityclasses.scheduling.k8s.io "a" is forbidden: PriorityClass fresh is already marked as default. `+
				`Only one default can exist`)
	failure = errors.New("no leader")
	subject.Validate(t, plugintest.Create(class("a=1 default"))).Refused(t, 500,
		"Internal error occurred: failed to get default priority class: no leader")
	subject.Client.ClearActions()
	subject.Validate(t, plugintest.Create(class("a=1"))).Admitted(t)
	if calls := subject.Calls(); len(calls) != 0 {
		t.Errorf("for a class that isn't to be the default there were calls: %q", calls)
	}
}

// A pod's priority is its own.
func TestNothingOfTheClassIsShared(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", class("a=5 Never"))
	for given, want := range map[string]string{"a": "a 5 Never", "-": "- 0 PreemptLowerPriority"} {
		for range 2 {
			got := subject.Admit(t, plugintest.Create(pod(given))).Admitted(t).Object.(*corev1.Pod)
			if says(got) != want {
				t.Errorf("got %s, want %s", says(got), want)
			}
			*got.Spec.Priority, *got.Spec.PreemptionPolicy = 7, "Changed"
		}
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", class("a=5 default"))
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for name, request := range map[string]plugintest.Request{
		"status":      plugintest.Update(pod(""), pod("a 5")).On("pods", "status"),
		"binding":     plugintest.Create(binding).On("pods", "binding"),
		"delete":      plugintest.Delete(pod("b")),
		"connect":     plugintest.Connect(pod("b"), "exec", &corev1.PodExecOptions{}),
		"configmap":   plugintest.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}),
		"subresource": plugintest.Update(class("b=1 default"), class("b=1 default")).On("priorityclasses", "status"),
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
	subject := plugintest.New(t, Descriptor, "")
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	subject.Admit(t, plugintest.Create(config).On("pods", "")).Refused(t, 400,
		"Priority: the object of a request for pods is a *v1.ConfigMap")
	update := plugintest.Update(pod(""), pod(""))
	update.OldObject = config
	subject.Admit(t, update).Refused(t, 400, "Priority: the object of a request for pods is a *v1.ConfigMap")
	create := plugintest.Create(class("a=5"))
	create.Object = config
	subject.Validate(t, create).Refused(t, 400,
		"Priority: the object of a request for priorityclasses is a *v1.ConfigMap")
}

// The informers of this host never start; ten seconds pass at once in the bubble.
func TestItWaitsForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		built, err := Descriptor.New(nil,
			&plugin.Env{Client: client, Informers: informers.NewSharedInformerFactory(client, 0)})
		if err != nil {
			t.Fatal(err)
		}
		subject := plugintest.Plugin{Built: built}
		subject.Admit(t, plugintest.Create(pod(""))).Refused(t, 403,
			`pods "p" is forbidden: not yet ready to handle request`)
	})
}

func TestItIsOn(t *testing.T) {
	if !Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
}

func BenchmarkAdmit(b *testing.B) {
	for _, given := range []string{"-", "system-node-critical"} {
		b.Run(given, func(b *testing.B) {
			subject := plugintest.New(b, Descriptor, "", classes("system-node-critical=2000001000",
				"system-cluster-critical=2000000000", "a=1", "b=2", "c=3", "d=4")...).Built.(*priority)
			template := pod(given)
			b.ReportAllocs()
			for b.Loop() {
				p := *template
				a := admission.NewAttributesRecord(&p, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
					corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
				if err := subject.Admit(b.Context(), a, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
