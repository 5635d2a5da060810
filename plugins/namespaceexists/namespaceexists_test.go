// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaceexists

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
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

func TestNamespaceMustExist(t *testing.T) {
	const missing = `namespaces "gone" not found`
	terminating := namespace("ending")
	terminating.Status.Phase = corev1.NamespaceTerminating
	for name, test := range map[string]struct {
		request plugintest.Request
		refused string
	}{
		"create":               {plugintest.Create(pod("here")), ""},
		"update":               {plugintest.Update(pod("here"), pod("here")), ""},
		"delete":               {plugintest.Delete(pod("here")), ""},
		"terminating exists":   {plugintest.Create(pod("ending")), ""},
		"create, missing":      {plugintest.Create(pod("gone")), missing},
		"update, missing":      {plugintest.Update(pod("gone"), pod("gone")), missing},
		"delete, missing":      {plugintest.Delete(pod("gone")), missing},
		"dry run, missing":     {plugintest.Create(pod("gone")).AsDryRun(), missing},
		"subresource, missing": {plugintest.Create(pod("gone")).On("pods", "eviction"), missing},
		"connect is not asked": {plugintest.Connect(pod("gone"), "exec", &corev1.PodExecOptions{}), ""},
		"the namespace itself": {plugintest.Create(namespace("gone")), ""},
		"cluster-scoped":       {plugintest.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "", namespace("here"), terminating)
			if test.refused != "" {
				subject.Validate(t, test.request).Refused(t, 404, test.refused)
				return
			}
			subject.Validate(t, test.request).Admitted(t)
			if calls := subject.Calls(); len(calls) != 0 {
				t.Errorf("the cache should do, but there were calls: %q", calls)
			}
		})
	}
}

// liveOnly makes the namespace exist for reads, while the cache knows nothing of it.
func liveOnly(subject *plugintest.Plugin, namespace *corev1.Namespace, err error) {
	subject.Client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, namespace, err
	})
}

func TestMissInTheCacheIsReadLive(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	liveOnly(subject, namespace("fresh"), nil)
	subject.Validate(t, plugintest.Create(pod("fresh"))).Admitted(t)
	if calls := subject.Calls(); !slices.Equal(calls, []string{"get namespaces fresh"}) {
		t.Errorf("calls: %q", calls)
	}
}

func TestFailingReadIsAnInternalError(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	liveOnly(subject, nil, errors.New("no leader"))
	subject.Validate(t, plugintest.Create(pod("fresh"))).Refused(t, 500, "Internal error occurred: no leader")
}

// The informers of this host never start; ten seconds pass at once in the bubble.
func TestItWaitsForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(namespace("here"))
		built, err := Descriptor.New(nil,
			&plugin.Env{Client: client, Informers: informers.NewSharedInformerFactory(client, 0)})
		if err != nil {
			t.Fatal(err)
		}
		subject := plugintest.Plugin{Built: built}
		subject.Validate(t, plugintest.Create(pod("here"))).Refused(t, 403,
			`pods "p" is forbidden: not yet ready to handle request`)
	})
}

func TestItIsOff(t *testing.T) {
	if Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
}
