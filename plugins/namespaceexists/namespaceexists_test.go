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

	"gatehouse.dev/chain"
	"gatehouse.dev/chain/chaintest"
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
		request chaintest.Request
		refused string
	}{
		"create":               {chaintest.Create(pod("here")), ""},
		"update":               {chaintest.Update(pod("here"), pod("here")), ""},
		"delete":               {chaintest.Delete(pod("here")), ""},
		"terminating exists":   {chaintest.Create(pod("ending")), ""},
		"create, missing":      {chaintest.Create(pod("gone")), missing},
		"update, missing":      {chaintest.Update(pod("gone"), pod("gone")), missing},
		"delete, missing":      {chaintest.Delete(pod("gone")), missing},
		"dry run, missing":     {chaintest.Create(pod("gone")).AsDryRun(), missing},
		"subresource, missing": {chaintest.Create(pod("gone")).On("pods", "eviction"), missing},
		"connect is not asked": {chaintest.Connect(pod("gone"), "exec", &corev1.PodExecOptions{}), ""},
		"the namespace itself": {chaintest.Create(namespace("gone")), ""},
		"cluster-scoped":       {chaintest.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := chaintest.New(t, Descriptor, "", namespace("here"), terminating)
			if test.refused != "" {
				plugin.Validate(t, test.request).Refused(t, 404, test.refused)
				return
			}
			plugin.Validate(t, test.request).Admitted(t)
			if calls := plugin.Calls(); len(calls) != 0 {
				t.Errorf("the cache should do, but there were calls: %q", calls)
			}
		})
	}
}

// liveOnly makes the namespace exist for reads, while the cache knows nothing of it.
func liveOnly(plugin *chaintest.Plugin, namespace *corev1.Namespace, err error) {
	plugin.Client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, namespace, err
	})
}

func TestMissInTheCacheIsReadLive(t *testing.T) {
	plugin := chaintest.New(t, Descriptor, "")
	liveOnly(plugin, namespace("fresh"), nil)
	plugin.Validate(t, chaintest.Create(pod("fresh"))).Admitted(t)
	if calls := plugin.Calls(); !slices.Equal(calls, []string{"get namespaces fresh"}) {
		t.Errorf("calls: %q", calls)
	}
}

func TestFailingReadIsAnInternalError(t *testing.T) {
	plugin := chaintest.New(t, Descriptor, "")
	liveOnly(plugin, nil, errors.New("no leader"))
	plugin.Validate(t, chaintest.Create(pod("fresh"))).Refused(t, 500, "Internal error occurred: no leader")
}

// The informers of this host never start; ten seconds pass at once in the bubble.
func TestItWaitsForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(namespace("here"))
		built, err := Descriptor.New(nil,
			&chain.Env{Client: client, Informers: informers.NewSharedInformerFactory(client, 0)})
		if err != nil {
			t.Fatal(err)
		}
		plugin := chaintest.Plugin{Interface: built}
		plugin.Validate(t, chaintest.Create(pod("here"))).Refused(t, 403,
			`pods "p" is forbidden: not yet ready to handle request`)
	})
}

func TestItIsOff(t *testing.T) {
	if Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
}
