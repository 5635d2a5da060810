// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initializers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/removed/apis/initializers"
)

const (
	denied = `pods "p" is forbidden: update to uninitialized resource denied: not today`
	atList = `pods "p" is forbidden: metadata.annotations[initializers.gatehouse.dev/pending]: Invalid value: `
	atErr  = `pods "p" is forbidden: metadata.annotations[initializers.gatehouse.dev/error]: Invalid value: `
)

// labelled is a pod with one label more.
func labelled(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	metav1.SetMetaDataLabel(&pod.ObjectMeta, "new", "")
	return pod
}

func failed(list, reason string) *corev1.Pod {
	return newPod(initializers.PendingAnnotation, list, initializers.ErrorAnnotation, reason)
}

// What is stated here is TestAdmitUpdate in plugin/pkg/admission/initialization of Kubernetes 1.13,
// and of ValidateInitializersUpdate in apimachinery; and that the list is worked off from its
// beginning, which Kubernetes left to the initializers.
func TestUpdate(t *testing.T) {
	subject := newPlugin(t)
	for name, test := range map[string]struct {
		old, object *corev1.Pod
		user        string
		want        string // the refusal, 403; empty for none
	}{
		"what is initialized":    {old: newPod(), object: labelled(newPod()), user: anyone},
		"what has an empty list": {old: pending(""), object: newPod(), user: anyone},
		"an empty list, later":   {old: newPod(), object: pending(""), user: anyone},
		"a list, later": {newPod(), pending("a.example.com"), trusted, atList +
			`"a.example.com": ` + immutable},
		"an error, later": {newPod(), newPod(initializers.ErrorAnnotation, "no"), trusted, atErr +
			`"no": ` + immutable},
		"what waits, by anyone":    {pending(both), labelled(pending(both)), anyone, denied},
		"what waits, by right":     {old: pending(both), object: labelled(pending(both)), user: trusted},
		"the first off, by anyone": {pending(both), pending("two.example.com"), anyone, denied},
		"the first off": {old: pending(both), object: labelled(pending("two.example.com")),
			user: trusted},
		"the last off":                     {old: pending("two.example.com"), object: pending(""), user: trusted},
		"the last off, and the annotation": {old: pending("two.example.com"), object: newPod(), user: trusted},
		"the second off": {pending(both), pending("one.example.com"), trusted, atList +
			`"one.example.com": only the first initializer, one.example.com, may be taken off ` + both},
		"both off": {pending(both), newPod(), trusted, atList +
			`"": only the first initializer, one.example.com, may be taken off ` + both},
		"one on": {pending(both), pending(both + ",x.example.com"), trusted, atList +
			`"` + both + `,x.example.com": only the first initializer, one.example.com, may be taken off ` + both},
		"another order": {pending(both), pending("two.example.com,one.example.com"), trusted,
			atList +
				`"two.example.com,one.example.com": only the first initializer, one.example.com, may be taken off ` +
				both},
		"an error, by anyone": {pending(both), failed(both, "no"), anyone, denied},
		"an error":            {old: pending(both), object: failed(both, "no"), user: trusted},
		"an error, and the name off": {pending(both), failed("two.example.com", "no"), trusted, atList +
			`"two.example.com": one.example.com must stay in the list, as initialization failed`},
		"another error": {failed(both, "no"), failed(both, "yes"), trusted, atErr +
			`"yes": field is immutable`},
		"no error any more": {failed(both, "no"), pending(both), trusted, atErr +
			`"": field is immutable`},
		"who can't be asked about, not asked":  {old: newPod(), object: newPod(), user: broken},
		"owners, by anyone":                    {old: pending(both), object: owned(pending(both)), user: anyone},
		"nothing, by anyone":                   {pending(both), pending(both), anyone, denied},
		"nothing, by right":                    {old: pending(both), object: pending(both), user: trusted},
		"owners and something else, by anyone": {pending(both), labelled(owned(pending(both))), anyone, denied},
		"owners and the list, by anyone":       {pending(both), owned(pending("two.example.com")), anyone, denied},
	} {
		t.Run(name, func(t *testing.T) {
			request := plugintest.Update(test.object, test.old).By(test.user)
			subject.Admit(t, request).Admitted(t)
			if result := subject.Validate(t, request); test.want == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, test.want)
			}
		})
	}
}

// owned is a pod as garbage collection leaves it.
func owned(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "o", UID: "1"}}
	pod.Finalizers = []string{metav1.FinalizerDeleteDependents}
	pod.ResourceVersion = "2"
	return pod
}

// Subresources of what waits can be written, but the list is out of their reach.
func TestSubresources(t *testing.T) {
	subject := newPlugin(t)
	running := pending(both)
	running.Status.Phase = corev1.PodRunning
	binding := func(annotation string) *corev1.Binding {
		return &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p",
			Annotations: map[string]string{annotation: ""}}}
	}
	scale := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale",
		"metadata": map[string]any{"name": "p", "namespace": "ns"}}}
	const refused = `: Forbidden: can't be set through a Binding or a subresource, remove it`
	for name, test := range map[string]struct {
		request plugintest.Request
		want    string
	}{
		"status of what waits": {plugintest.Update(running, pending(both)).On("pods", "status"), ""},
		"the first off by way of status": {plugintest.Update(pending("two.example.com"), pending(both)).On("pods",
			"status"), denied},
		"a list by way of status": {plugintest.Update(pending(both), newPod()).On("pods", "status"), atList +
			`"` + both + `": ` + immutable},
		"an error by way of status": {plugintest.Update(failed(both, "no"), pending(both)).On("pods", "status"),
			denied},
		"scale":   {plugintest.Update(scale, scale).On("deployments", "scale"), ""},
		"binding": {plugintest.Create(binding("a")).On("pods", "binding"), ""},
		"a list by way of a binding": {plugintest.Create(binding(initializers.PendingAnnotation)).On("pods",
			"binding"), `pods "p" is forbidden: metadata.annotations[initializers.gatehouse.dev/pending]` + refused},
		"an error by way of a binding": {plugintest.Create(binding(initializers.ErrorAnnotation)).On("pods",
			"binding"), `pods "p" is forbidden: metadata.annotations[initializers.gatehouse.dev/error]` + refused},
		"a list by way of an old binding": {plugintest.Create(binding(initializers.PendingAnnotation)),
			`bindings "p" is forbidden: metadata.annotations[initializers.gatehouse.dev/pending]` + refused},
		"what has no metadata is no object": {plugintest.Request{Operation: "CREATE", Object: &runtime.Unknown{},
			Subresource: "s"}, ""},
		"what has no metadata is no update": {plugintest.Request{Operation: "UPDATE", Object: &runtime.Unknown{},
			OldObject: &runtime.Unknown{}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			request := test.request.By(anyone)
			subject.Admit(t, request).Admitted(t)
			if result := subject.Validate(t, request); test.want == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, test.want)
			}
		})
	}
}

// FuzzTransition states what must hold of any two lists: an update that passes leaves the list as
// it is or without its first name, and an object that failed stays hidden.
func FuzzTransition(f *testing.F) {
	f.Add("a.b.c,d.e.f", "d.e.f", "", "")
	f.Add("a.b.c", "", "", "no")
	f.Add(",", "", "no", "no")
	f.Add("", "a.b.c", "", "")
	f.Add("a.b.c,", "", "", "")
	subject := newPlugin(f)
	f.Fuzz(func(t *testing.T, before, after, errBefore, errAfter string) {
		old, object := failed(before, errBefore), failed(after, errAfter)
		if subject.Validate(t, plugintest.Update(object, old).By(trusted)).Err != nil {
			return
		}
		names, left := strings.Split(before, ","), strings.Split(after, ",")
		switch {
		case before == after:
		case before == "", len(left) > len(names), strings.Join(names[1:], ",") != after:
			t.Errorf("%q becomes %q", before, after)
		case errAfter != "":
			t.Errorf("%q, which failed, becomes %q", before, after)
		}
		if errBefore != "" && errBefore != errAfter {
			t.Errorf("the error %q becomes %q", errBefore, errAfter)
		}
	})
}
