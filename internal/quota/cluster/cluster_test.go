// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"gatehouse.dev/internal/quota"
)

// client is that of a cluster with two device classes, of which one is an extended resource, too,
// and in the namespaces a and b a pod and a claim of the same names. Like the fake API it is, it
// lists by namespace alone: which object it is must be looked at.
func client() *fake.Clientset {
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	return fake.NewClientset(
		&resourcev1.DeviceClass{ObjectMeta: named("", "gpuclass"),
			Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: new("example.com/gpu")}},
		&resourcev1.DeviceClass{ObjectMeta: named("", "plain")},
		&corev1.Pod{ObjectMeta: named("a", "other")}, &corev1.Pod{ObjectMeta: named("a", "p")},
		&corev1.Pod{ObjectMeta: named("b", "p")},
		&resourcev1.ResourceClaim{ObjectMeta: named("a", "c")},
		&resourcev1.ResourceClaim{ObjectMeta: named("a", "d")},
		&resourcev1.ResourceClaim{ObjectMeta: named("b", "c")})
}

// ask returns o's answer to a question in words: class NAME, pod NAMESPACE/NAME, claims NAMESPACE.
func ask(o quota.RelatedObjects, question string) (string, error) {
	kind, about, _ := strings.Cut(question, " ")
	switch kind {
	case "class":
		return o.ExtendedResource(about)
	case "pod":
		namespace, name, _ := strings.Cut(about, "/")
		pod, err := o.Pod(namespace, name)
		if pod == nil {
			return "", err
		}
		return pod.Namespace + "/" + pod.Name, err
	case "claims":
		claims, err := o.Claims(about)
		var names []string
		for _, c := range claims {
			names = append(names, c.Namespace+"/"+c.Name)
		}
		slices.Sort(names)
		return strings.Join(names, " "), err
	}
	return "", fmt.Errorf("%q is no question", question)
}

// What there is, is found; what isn't there is no error; and it is asked for once, as of the
// revision, in a list, which alone can say what there was.
func TestAt(t *testing.T) {
	for question, test := range map[string]struct{ want, list string }{
		"class gpuclass": {"example.com/gpu", "deviceclasses metadata.name=gpuclass"},
		"class plain":    {"", "deviceclasses metadata.name=plain"},
		"class none":     {"", "deviceclasses metadata.name=none"},
		"pod a/p":        {"a/p", "a/pods metadata.name=p"},
		"pod b/p":        {"b/p", "b/pods metadata.name=p"},
		"pod b/other":    {"", "b/pods metadata.name=other"},
		"claims a":       {"a/c a/d", "a/resourceclaims"},
		"claims b":       {"b/c", "b/resourceclaims"},
		"claims c":       {"", "c/resourceclaims"},
	} {
		for revision, as := range map[string]string{"": "", "7": " 7 Exact"} {
			t.Run(question+" at "+revision, func(t *testing.T) {
				c := client()
				others := NewReader(t.Context(), c, revision)
				for range 2 {
					if got, err := ask(others, question); err != nil || got != test.want {
						t.Errorf("got %q, %v, want %q", got, err, test.want)
					}
				}
				if got, want := calls(c.Actions()), test.list+as; len(got) != 1 || got[0] != want {
					t.Errorf("asked %q, want %q once", got, want)
				}
			})
		}
	}
}

// calls are the lists that were asked for, with field selector and revision.
func calls(actions []k8stesting.Action) (all []string) {
	for _, action := range actions {
		list, isList := action.(k8stesting.ListActionImpl)
		if !isList {
			all = append(all, action.GetVerb())
			continue
		}
		what := list.Resource.Resource
		if list.Namespace != "" {
			what = list.Namespace + "/" + what
		}
		options := list.ListOptions
		all = append(all, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s", what, options.FieldSelector,
			options.ResourceVersion, options.ResourceVersionMatch)), " "))
	}
	return all
}

// If the API doesn't answer, that is an error, and the next call asks again. A server without
// device classes has none.
func TestErrors(t *testing.T) {
	missing := apierrors.NewNotFound(resourcev1.Resource("deviceclasses"), "")
	slow := apierrors.NewTimeoutError("too slow", 1)
	for name, test := range map[string]struct {
		question string
		fault    error
		want     error
		then     string
	}{
		"no answer about a class":   {"class gpuclass", slow, slow, "example.com/gpu"},
		"no device classes":         {"class gpuclass", missing, nil, ""},
		"no answer about a pod":     {"pod a/p", slow, slow, "a/p"},
		"no answer about claims":    {"claims a", slow, slow, "a/c a/d"},
		"claims that aren't served": {"claims a", missing, missing, "a/c a/d"},
	} {
		t.Run(name, func(t *testing.T) {
			c := client()
			fails := true
			c.PrependReactor("list", "*", func(k8stesting.Action) (bool, runtime.Object, error) {
				return fails, nil, test.fault
			})
			others := NewReader(t.Context(), c, "")
			if got, err := ask(others, test.question); got != "" || !errors.Is(err, test.want) {
				t.Errorf("got %q, %v, want %v", got, err, test.want)
			}
			fails = false
			if got, err := ask(others, test.question); err != nil || got != test.then {
				t.Errorf("then got %q, %v, want %q", got, err, test.then)
			}
		})
	}
}
