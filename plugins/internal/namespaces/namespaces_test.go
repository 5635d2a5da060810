// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func requestIn(namespace string) admission.Attributes {
	return admission.NewAttributesRecord(nil, nil, corev1.SchemeGroupVersion.WithKind("Pod"), namespace, "p",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
}

// user is a plugin that only has Namespaces, so that plugintest gives it a cluster.
type user struct {
	plugin.Validator
	*Namespaces
}

func start(t *testing.T, objects ...runtime.Object) (*Namespaces, *plugintest.Plugin) {
	t.Helper()
	subject := plugintest.New(t, plugin.Descriptor{Name: "User", Phases: plugin.Validating, Operations: plugin.EveryOperation,
		Access: []rbacv1.PolicyRule{plugin.To("get list watch", "", "namespaces")},
		New: func(_ io.Reader, env *plugin.Env) (plugin.Plugin, error) {
			namespaces, err := New("User", env)
			return user{Namespaces: namespaces}, err
		}}, "", objects...)
	return subject.Built.(user).Namespaces, subject
}

func TestOf(t *testing.T) {
	for name, test := range map[string]struct {
		in    string
		live  error // what a live read of "fresh" gives, where it isn't the namespace
		calls []string
		err   string
	}{
		"in the cache":  {in: "here"},
		"not yet in it": {in: "fresh", calls: []string{"get namespaces fresh"}},
		"nowhere":       {in: "gone", calls: []string{"get namespaces gone"}, err: `namespaces "gone" not found`},
		"the read fails": {in: "fresh", live: errors.New("no leader"), calls: []string{"get namespaces fresh"},
			err: "Internal error occurred: no leader"},
	} {
		t.Run(name, func(t *testing.T) {
			namespaces, subject := start(t, namespace("here"))
			subject.Client.PrependReactor("get", "namespaces",
				func(action clienttesting.Action) (bool, runtime.Object, error) {
					return action.(clienttesting.GetAction).GetName() == "fresh", namespace("fresh"), test.live
				})
			got, err := namespaces.Of(t.Context(), requestIn(test.in))
			switch {
			case test.err == "" && (err != nil || got.Name != test.in):
				t.Errorf("got %v, %v", got, err)
			case test.err != "" && (err == nil || err.Error() != test.err):
				t.Errorf("got error %v, want %s", err, test.err)
			}
			if calls := subject.Calls(); !slices.Equal(calls, test.calls) {
				t.Errorf("calls %q, want %q", calls, test.calls)
			}
		})
	}
}

// The informers of this host never start; ten seconds pass at once in the bubble.
func TestOfWaitsForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(namespace("here"))
		namespaces,
			err := New("User", &plugin.Env{Client: client, Informers: informers.NewSharedInformerFactory(client, 0)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = namespaces.Of(t.Context(), requestIn("here"))
		if err == nil || err.Error() != `pods "p" is forbidden: not yet ready to handle request` {
			t.Errorf("got %v", err)
		}
	})
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	client := fake.NewClientset()
	for want, env := range map[string]*plugin.Env{
		"User needs a client":  {Informers: informers.NewSharedInformerFactory(client, 0)},
		"User needs informers": {Client: client},
	} {
		if _, err := New("User", env); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
