// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"

	"gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/internal/quota"
	"gatehouse.dev/test/needs"
)

var (
	podResource        = corev1.Resource("pods")
	claimResource      = corev1.Resource("persistentvolumeclaims")
	deploymentResource = appsv1.Resource("deployments")
	codec              = legacyscheme.Codecs.CodecForVersions(protobuf.NewSerializer(legacyscheme.Scheme,
		legacyscheme.Scheme),
		legacyscheme.Codecs.UniversalDeserializer(),
		schema.GroupVersions{corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, resourcev1.SchemeGroupVersion}, nil)
)

// shop is an etcd and what is in it.
type shop struct {
	t     *testing.T
	store *etcd.Server
	kv    clientv3.KV
}

func newShop(t *testing.T) *shop {
	needs.Server(t)
	dir, err := os.MkdirTemp("", "gatehouse-etcd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	store, err := etcd.Start(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Stop)
	return &shop{t, store, store.Client().KV}
}

// server is one server's storage.
type server struct {
	*Ledger
	shop *shop
	// before is called before each request to etcd, with its keys, and may fail it.
	before func(keys string) error
}

func (s *shop) server() *server {
	s.t.Helper()
	client := s.store.Client()
	srv := &server{shop: s, before: func(string) error { return nil }}
	client.KV = hooked{client.KV, srv}
	l := New(client, "/registry", Options{})
	s.t.Cleanup(l.Stop)
	for _, r := range []schema.GroupResource{quotaResource, podResource, claimResource, deploymentResource,
		classResource, deviceClaims, namespaceResource} {
		l.AccountFor(client, &storagebackend.ConfigForResource{
			Config: storagebackend.Config{Prefix: "/registry", Codec: codec}, GroupResource: r,
		}, "/"+r.Resource)
	}
	srv.Ledger = l
	return srv
}

// hooked is etcd as a server sees it.
type hooked struct {
	clientv3.KV
	server *server
}

func (h hooked) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	if err := h.server.before("get " + key); err != nil {
		return nil, err
	}
	return h.KV.Get(ctx, key, opts...)
}

func (h hooked) Txn(ctx context.Context) clientv3.Txn { return &hookedTxn{h.KV.Txn(ctx), h.server, ""} }

type hookedTxn struct {
	clientv3.Txn
	server *server
	what   string
}

func (h *hookedTxn) If(cs ...clientv3.Cmp) clientv3.Txn {
	h.Txn = h.Txn.If(cs...)
	return h
}

func (h *hookedTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	for _, op := range ops {
		verb := "get "
		if op.IsPut() {
			verb = "put "
		}
		h.what += verb + string(op.KeyBytes()) + " "
	}
	h.Txn = h.Txn.Then(ops...)
	return h
}

func (h *hookedTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	h.Txn = h.Txn.Else(ops...)
	return h
}

func (h *hookedTxn) Commit() (*clientv3.TxnResponse, error) {
	if err := h.server.before(h.what); err != nil {
		return nil, err
	}
	return h.Txn.Commit()
}

func keyOf(r schema.GroupResource, name string) string {
	return "/registry/" + r.Resource + "/demo/" + name
}

func (s *shop) encode(object runtime.Object) []byte {
	s.t.Helper()
	data, err := runtime.Encode(codec, object)
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

// put stores objects as they are, past all servers.
func (s *shop) put(r schema.GroupResource, objects ...runtime.Object) (revision int64) {
	s.t.Helper()
	for _, object := range objects {
		response, err := s.kv.Put(s.t.Context(), keyOf(r, object.(metav1.Object).GetName()), string(s.encode(object)))
		if err != nil {
			s.t.Fatal(err)
		}
		revision = response.Header.Revision
	}
	return revision
}

func (s *shop) quota(name string) *corev1.ResourceQuota {
	s.t.Helper()
	response, err := s.kv.Get(s.t.Context(), keyOf(quotaResource, name))
	if err != nil || len(response.Kvs) != 1 {
		s.t.Fatal(response, err)
	}
	q := &corev1.ResourceQuota{}
	if _, _, err := codec.Decode(response.Kvs[0].Value, nil, q); err != nil {
		s.t.Fatal(err)
	}
	q.ResourceVersion = fmt.Sprint(response.Kvs[0].ModRevision)
	return q
}

func shows(q *corev1.ResourceQuota, name corev1.ResourceName) string {
	used, shown := q.Status.Used[name]
	if !shown {
		return "unknown"
	}
	return used.String()
}

func (s *shop) wantUsed(name corev1.ResourceName, want string) {
	s.t.Helper()
	if got := shows(s.quota("q"), name); got != want {
		s.t.Errorf("the quota shows %s of %s, want %s", got, name, want)
	}
}

// wantCounted waits until the server has counted what its writes have caused it to, and then wants
// quota q to show it. Where the quota showed the same before, awaitUsed would wait for nothing.
func (s *server) wantCounted(name corev1.ResourceName, want string) {
	s.shop.t.Helper()
	if err := s.Counted(s.shop.t.Context()); err != nil {
		s.shop.t.Fatal(err)
	}
	s.shop.wantUsed(name, want)
}

// awaitUsed waits until quota q shows it.
func (s *shop) awaitUsed(ctx context.Context, name corev1.ResourceName, want string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	watch := s.store.Client().Watch(ctx, keyOf(quotaResource, "q"))
	for shows(s.quota("q"), name) != want {
		if _, open := <-watch; !open {
			s.t.Fatalf("the quota shows %s of %s, want %s", shows(s.quota("q"), name), name, want)
		}
	}
}

// write stores an object as a request does that is enforced: expected is the object's revision.
func (s *server) write(r schema.GroupResource, old, object runtime.Object, expected int64) (kubernetes.PutResponse,
	error) {
	s.shop.t.Helper()
	measure := func(object runtime.Object) *quota.Cost {
		cost, err := quota.CostOf(r, object)
		if err != nil {
			s.shop.t.Fatal(err)
		}
		return cost
	}
	e := &quota.Enforcement{Resource: r, New: measure(object)}
	if old != nil {
		e.Old = measure(old)
	}
	return s.writeEnforced(e, r, object, expected)
}

func (s *server) writeEnforced(e *quota.Enforcement, r schema.GroupResource, object runtime.Object,
	expected int64) (kubernetes.PutResponse, error) {
	name := object.(metav1.Object).GetName()
	e.Namespace, e.Name, e.Refuse = "demo", name, func(err error) error { return fmt.Errorf("forbidden: %w", err) }
	ctx := quota.WithHolder(s.shop.t.Context())
	quota.Enforce(ctx, e)
	return s.store(r).OptimisticPut(ctx, keyOf(r, name), s.shop.encode(object), expected,
		kubernetes.PutOptions{GetOnFailure: true})
}

// replace writes a quota over the stored one, or a new one.
func (s *server) replace(q *corev1.ResourceQuota) {
	s.shop.t.Helper()
	s.replaceAs(s.shop.t.Context(), q)
}

// replaceAs writes a quota as a request with that context does.
func (s *server) replaceAs(ctx context.Context, q *corev1.ResourceQuota) {
	s.shop.t.Helper()
	var expected int64
	_, _ = fmt.Sscan(q.ResourceVersion, &expected)
	q.ResourceVersion = ""
	response, err := s.store(quotaResource).OptimisticPut(ctx, keyOf(quotaResource, q.Name),
		s.shop.encode(q), expected, kubernetes.PutOptions{})
	if err != nil || !response.Succeeded {
		s.shop.t.Fatal(response, err)
	}
}

func refusedWith(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}

func newQuota(name corev1.ResourceName, hard, used string) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: "demo", UID: types.UID("uid of q")},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{name: resource.MustParse(hard)}},
	}
	if used != "" {
		q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard.DeepCopy(),
			Used: corev1.ResourceList{name: resource.MustParse(used)}}
	}
	return q
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "demo"},
		Spec: corev1.PodSpec{PriorityClassName: "high"}}
}

func ofClass(q *corev1.ResourceQuota, class string) *corev1.ResourceQuota {
	q.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
		{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn,
			Values: []string{class}},
	}}
	return q
}

// Whatever somebody writes of a quota, and though the server dies right after it: at no moment does
// the quota show a usage that isn't true, and the other server enforces what is.
func TestQuotaIsNeverWrong(t *testing.T) {
	for name, test := range map[string]struct {
		stored *corev1.ResourceQuota
		edit   func(*corev1.ResourceQuota)
		shown  string // right after the edit
	}{
		"a status by hand": {newQuota("pods", "2", "2"),
			func(q *corev1.ResourceQuota) { q.Status.Used["pods"] = resource.MustParse("0") }, "unknown"},
		"no status": {newQuota("pods", "2", "2"),
			func(q *corev1.ResourceQuota) { q.Status = corev1.ResourceQuotaStatus{} }, "unknown"},
		"a limit in the status": {newQuota("pods", "2", "2"),
			func(q *corev1.ResourceQuota) { q.Status.Hard["pods"] = resource.MustParse("9") }, "2"},
		"other objects": {ofClass(newQuota("pods", "2", "0"), "low"),
			func(q *corev1.ResourceQuota) { ofClass(q, "high") }, "unknown"},
		"a label": {newQuota("pods", "2", "2"),
			func(q *corev1.ResourceQuota) { q.Labels = map[string]string{"a": "b"} }, "2"},
		"a lower limit": {newQuota("pods", "3", "2"),
			func(q *corev1.ResourceQuota) { q.Spec.Hard["pods"] = resource.MustParse("2") }, "2"},
		"a name that was limited once": {newQuota("services", "3", "2"), func(q *corev1.ResourceQuota) {
			q.Spec.Hard = corev1.ResourceList{"pods": resource.MustParse("2")}
			q.Status.Hard["pods"] = resource.MustParse("2")
		}, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			a, b := s.server(), s.server()
			s.put(podResource, newPod("one"), newPod("two"))
			s.put(quotaResource, test.stored)
			written := false
			a.before = func(what string) error {
				if written {
					return errors.New("died")
				}
				written = strings.HasPrefix(what, "put /registry/resourcequotas/")
				return nil
			}
			q := s.quota("q")
			test.edit(q)
			a.replace(q)
			s.wantUsed("pods", test.shown)
			if after := s.quota("q"); len(after.Status.Used) > len(after.Spec.Hard) {
				t.Errorf("shows what is not limited: %v", after.Status.Used)
			}
			if _, err := b.write(podResource, nil, newPod("three"), 0); !refusedWith(err,
				"forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2") {
				t.Errorf("the third pod: %v", err)
			}
			s.wantUsed("pods", "2")
		})
	}
}

// Hard limits that somebody writes into the status are stored, bound nothing, and are replaced by
// those of the spec when the quota moves.
func TestHardInStatusByHand(t *testing.T) {
	s := newShop(t)
	a := s.server()
	s.put(podResource, newPod("one"))
	s.put(quotaResource, newQuota("pods", "2", "1"))
	expect := func(when, hard, used string) {
		t.Helper()
		if q := s.quota("q"); q.Status.Hard.Pods().String() != hard || shows(q, "pods") != used {
			t.Errorf("%s the status is %+v, want hard %s and used %s", when, q.Status, hard, used)
		}
	}
	q := s.quota("q")
	q.Status.Hard["pods"] = resource.MustParse("9")
	a.replace(q)
	expect("when it was written,", "9", "1")
	if _, err := a.write(podResource, nil, newPod("two"), 0); err != nil {
		t.Fatal(err)
	}
	expect("after a charge", "2", "2")
	q = s.quota("q")
	q.Status.Hard["pods"] = resource.MustParse("9")
	a.replace(q)
	if _, err := a.write(podResource, nil, newPod("three"), 0); !refusedWith(err, "exceeded quota: q") {
		t.Errorf("the third pod: %v", err)
	}
	q = s.quota("q")
	q.Labels = map[string]string{"a": "b"}
	a.replace(q)
	expect("after a label was written,", "2", "2")
}

// A quota that is given its usage is counted before the answer; one of which nothing that matters
// changes isn't counted.
func TestQuotaIsCountedOnlyIfNeeded(t *testing.T) {
	s := newShop(t)
	a := s.server()
	s.put(podResource, newPod("one"))
	s.put(quotaResource, newQuota("pods", "2", "1"))
	counted := 0
	a.before = func(what string) error {
		if what == "get /registry/pods/demo/" {
			counted++
		}
		return nil
	}
	q := s.quota("q")
	q.Labels, q.Spec.Hard["pods"] = map[string]string{"a": "b"}, resource.MustParse("3")
	a.replace(q)
	if q := s.quota("q"); counted != 0 || q.Labels["a"] != "b" || q.Status.Hard.Pods().String() != "3" ||
		shows(q, "pods") != "1" {
		t.Errorf("counted %d times, stored %+v", counted, q)
	}
	q = s.quota("q")
	q.Status.Used["pods"] = resource.MustParse("7")
	a.replace(q)
	if counted != 1 {
		t.Errorf("counted %d times", counted)
	}
	s.wantUsed("pods", "1")
}

// While a server counts, the quota gets its usage from another one, a pod is stored, and somebody
// takes the usage away again: the quota is stored as it was, but what the server has counted isn't
// true any more.
func TestWhatWasCountedForAnotherState(t *testing.T) {
	s := newShop(t)
	a, b := s.server(), s.server()
	s.put(quotaResource, newQuota("pods", "5", ""))
	a.before = func(what string) error {
		if what == "put /registry/resourcequotas/demo/q " {
			a.before = func(string) error { return nil }
			if _, err := b.write(podResource, nil, newPod("b"), 0); err != nil {
				t.Error(err)
			}
			s.put(quotaResource, newQuota("pods", "5", ""))
		}
		return nil
	}
	if _, err := a.write(podResource, nil, newPod("a"), 0); err != nil {
		t.Fatal(err)
	}
	s.wantUsed("pods", "2")
}

// An update that was computed from a state that the cache had, and isn't stored any more, is
// computed again, not refused.
func TestStaleUpdateIsAConflict(t *testing.T) {
	claim := func(size string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "demo"},
			Spec: corev1.PersistentVolumeClaimSpec{
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{"storage": resource.MustParse(size)},
				},
			},
		}
	}
	s := newShop(t)
	a := s.server()
	s.put(quotaResource, newQuota("requests.storage", "10Gi", "9Gi"))
	stale := s.put(claimResource, claim("1Gi"))
	current := s.put(claimResource, claim("9Gi"))
	response, err := a.write(claimResource, claim("1Gi"), claim("9728Mi"), stale)
	if err != nil || response.Succeeded || response.KV == nil || response.KV.ModRevision != current {
		t.Fatalf("from the stale state: %+v, %v", response, err)
	}
	if _, err := a.write(claimResource, claim("9Gi"), claim("11Gi"), current); !refusedWith(err,
		"exceeded quota: q, requested: requests.storage=2Gi, used: requests.storage=9Gi, limited: "+
			"requests.storage=10Gi") {
		t.Errorf("too much: %v", err)
	}
	if response, err := a.write(claimResource, claim("9Gi"), claim("9728Mi"), current); err != nil ||
		!response.Succeeded {
		t.Errorf("from the current state: %+v, %v", response, err)
	}
	s.wantUsed("requests.storage", "9728Mi")
}

// Custom resources that other servers have stored count, though this one has had no request for
// them yet.
func TestCountsWhatIsNotServedYet(t *testing.T) {
	s := newShop(t)
	a := s.server()
	for _, name := range []string{"a", "b", "c"} {
		if _, err := s.kv.Put(t.Context(), "/registry/example.com/widgets/demo/"+name, "{}"); err != nil {
			t.Fatal(err)
		}
	}
	a.replace(newQuota("count/widgets.example.com", "3", ""))
	s.wantUsed("count/widgets.example.com", "3")
}

// A kind that is served in two groups is charged as the one in which it is stored.
func TestChargesAsStored(t *testing.T) {
	s := newShop(t)
	a := s.server()
	s.put(quotaResource, newQuota("count/deployments.apps", "1", "0"))
	create := func(name string) error {
		cost, err := quota.CostOf(schema.GroupResource{Group: "extensions", Resource: "deployments"},
			&metav1.PartialObjectMetadata{})
		if err != nil {
			t.Fatal(err)
		}
		e := &quota.Enforcement{Resource: schema.GroupResource{Group: "extensions", Resource: "deployments"}, New: cost}
		_, err = a.writeEnforced(e, deploymentResource,
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "demo"}}, 0)
		return err
	}
	if err := create("a"); err != nil {
		t.Error(err)
	}
	if err := create("b"); !refusedWith(err, "exceeded quota: q") {
		t.Errorf("the second deployment: %v", err)
	}
	s.wantUsed("count/deployments.apps", "1")
}

// A request may end while its transaction is under way. If that fails, it isn't decided again.
func TestNoTurnForWhatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := newAccount()
	for range 100 {
		if err := a.wait(ctx); err == nil {
			t.Fatal("a request that has ended got the turn")
		}
	}
}

// Nothing tells of a namespace that another server deletes. What is remembered of namespaces is
// bounded.
func TestForgetsNamespaces(t *testing.T) {
	l := New(nil, "", Options{})
	t.Cleanup(l.Stop)
	first := l.account("first")
	for i := range maxAccounts {
		l.account(fmt.Sprint(i))
	}
	if n := l.accounts.Len(); n != maxAccounts {
		t.Errorf("%d namespaces are remembered", n)
	}
	if l.account("first") == first {
		t.Error("the one that was last used longest ago is not forgotten")
	}
}

// With KeepStatus the status that a client writes is stored and enforced. What it lacks is counted, and so is
// all of it when a quota controller writes it, or when the quota counts other objects.
func TestKeepStatus(t *testing.T) {
	controller := request.WithUser(t.Context(), &user.DefaultInfo{Name: user.KubeControllerManager})
	for name, test := range map[string]struct {
		ctx        context.Context
		edit       func(*corev1.ResourceQuota)
		used, hard string
		refused    string // of a third pod; empty if it is admitted
		after      string // what is used then
	}{
		"less": {t.Context(), func(q *corev1.ResourceQuota) { q.Status.Used["pods"] = resource.MustParse("0") }, "0", "2", "",
			"1"},
		"more": {t.Context(), func(q *corev1.ResourceQuota) { q.Status.Used["pods"] = resource.MustParse("7") }, "7", "2",
			"used: pods=7, limited: pods=2", "7"},
		"a higher limit": {t.Context(), func(q *corev1.ResourceQuota) { q.Status.Hard["pods"] = resource.MustParse("9") }, "2", "9",
			"", "3"},
		"a lower limit": {t.Context(), func(q *corev1.ResourceQuota) {
			q.Status.Used["pods"], q.Status.Hard["pods"] = resource.MustParse("1"), resource.MustParse("1")
		}, "1", "1", "used: pods=1, limited: pods=1", "1"},
		"no limit": {t.Context(), func(q *corev1.ResourceQuota) { q.Status.Hard = nil }, "2", "0", "used: pods=2, limited: pods=2",
			"2"},
		"nothing": {t.Context(), func(q *corev1.ResourceQuota) { q.Status = corev1.ResourceQuotaStatus{} }, "2", "2",
			"used: pods=2, limited: pods=2", "2"},
		"another limit in the spec": {t.Context(), func(q *corev1.ResourceQuota) { q.Spec.Hard["pods"] = resource.MustParse("5") },
			"2", "5", "", "3"},
		"one name more": {t.Context(), func(q *corev1.ResourceQuota) {
			q.Spec.Hard["count/pods"], q.Status.Used["pods"] = resource.MustParse("9"), resource.MustParse("7")
		}, "2", "2", "used: pods=2, limited: pods=2", "2"},
		"other objects": {t.Context(), func(q *corev1.ResourceQuota) { ofClass(q, "low") }, "0", "2", "", "0"},
		"a controller's count": {controller, func(q *corev1.ResourceQuota) { q.Status.Used["pods"] = resource.MustParse("0") },
			"2", "2", "used: pods=2, limited: pods=2", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			a := s.server()
			a.KeepStatus = true
			s.put(podResource, newPod("one"), newPod("two"))
			s.put(quotaResource, newQuota("pods", "2", "2"))
			q := s.quota("q")
			test.edit(q)
			a.replaceAs(test.ctx, q)
			if q := s.quota("q"); shows(q, "pods") != test.used || q.Status.Hard.Pods().String() != test.hard {
				t.Errorf("the status is %+v, want %s of %s", q.Status, test.used, test.hard)
			}
			_, err := a.write(podResource, nil, newPod("three"), 0)
			if test.refused == "" && err != nil || test.refused != "" && !refusedWith(err, test.refused) {
				t.Errorf("the third pod: %v", err)
			}
			s.wantUsed("pods", test.after)
		})
	}
}

// A quota keeps the status that was written when another quota gets its own, and loses it when pods have
// ended.
func TestKeptStatusAmongCounts(t *testing.T) {
	s := newShop(t)
	a := s.server()
	a.KeepStatus = true
	s.put(quotaResource, newQuota("pods", "9", "7"))
	s.put(podResource, newPod("one"))
	other := newQuota("pods", "9", "")
	other.Name, other.UID = "other", "uid of other"
	a.replace(other)
	s.wantUsed("pods", "7")
	if got := shows(s.quota("other"), "pods"); got != "1" {
		t.Errorf("the other quota shows %s", got)
	}
	s.put(podResource, ending("p", time.Now().Add(-time.Minute)))
	third := newQuota("pods", "9", "")
	third.Name, third.UID = "third", "uid of third"
	a.replace(third)
	s.wantUsed("pods", "1")
}
