// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaceautoprovision

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func pod(namespace string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
}

func TestNamespaceIsCreatedWhereMissing(t *testing.T) {
	for name, test := range map[string]struct {
		request plugintest.Request
		creates bool
	}{
		"create":                {plugintest.Create(pod("new")), true},
		"update":                {plugintest.Update(pod("new"), pod("new")), true},
		"subresource":           {plugintest.Create(pod("new")).On("pods", "eviction"), true},
		"namespace exists":      {plugintest.Create(pod("old")), false},
		"dry run":               {plugintest.Create(pod("new")).AsDryRun(), false},
		"delete":                {plugintest.Delete(pod("new")), false},
		"connect":               {plugintest.Connect(pod("new"), "exec", &corev1.PodExecOptions{}), false},
		"the namespace itself":  {plugintest.Create(namespace("new")), false},
		"update of a namespace": {plugintest.Update(namespace("new"), namespace("new")), false},
		"cluster-scoped, no effect": {plugintest.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}),
			false},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "", namespace("old"))
			subject.Admit(t, test.request).Admitted(t)
			if calls := subject.Calls(); slices.Contains(calls, "create namespaces new") != test.creates {
				t.Errorf("should create: %t, calls: %q", test.creates, calls)
			} else if !test.creates && len(calls) != 0 {
				t.Errorf("needless calls: %q", calls)
			}
		})
	}
}

func TestConcurrentCreationIsSuccess(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	var requests sync.WaitGroup
	for range 16 {
		requests.Go(func() { subject.Admit(t, plugintest.Create(pod("new"))).Admitted(t) })
	}
	requests.Wait()
	if _, err := subject.Client.CoreV1().Namespaces().Get(t.Context(), "new", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestFailureToCreateRefusesTheRequest(t *testing.T) {
	for name, test := range map[string]struct {
		failure error
		message string
	}{
		"forbidden stays what it is": {
			apierrors.NewForbidden(corev1.Resource("namespaces"), "new", errors.New("no more of them")),
			`namespaces "new" is forbidden: no more of them`,
		},
		"anything else is told": {errors.New("no leader"), `pods "p" is forbidden: no leader`},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "")
			subject.Client.PrependReactor("create", "namespaces",
				func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, test.failure
				})
			subject.Admit(t, plugintest.Create(pod("new"))).Refused(t, 403, test.message)
		})
	}
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
		subject.Admit(t, plugintest.Create(pod("new"))).Refused(t, 403,
			`pods "p" is forbidden: not yet ready to handle request`)
		if len(client.Actions()) != 0 {
			t.Errorf("calls before the cache is ready: %v", client.Actions())
		}
	})
}

func TestItIsOff(t *testing.T) {
	if Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
}
