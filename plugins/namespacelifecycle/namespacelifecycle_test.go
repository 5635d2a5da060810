// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package namespacelifecycle

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func namespace(name string, phase corev1.NamespacePhase) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NamespaceStatus{Phase: phase}}
}

func pod(namespace string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
}

func TestRequests(t *testing.T) {
	const (
		missing     = `namespaces "gone" not found`
		terminating = `pods "p" is forbidden: unable to create new content in namespace ending because it is being ` +
			`terminated`
		protected = `namespaces "NAME" is forbidden: this namespace may not be deleted`
	)
	active, ending := namespace("active", corev1.NamespaceActive), namespace("ending", corev1.NamespaceTerminating)
	review := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "gone"}}
	immortal := func(name string) plugintest.Request {
		return plugintest.Delete(namespace(name, corev1.NamespaceActive))
	}

	for name, test := range map[string]struct {
		request plugintest.Request
		code    int
		message string
	}{
		"create in an active namespace":      {plugintest.Create(pod("active")), 0, ""},
		"update in an active namespace":      {plugintest.Update(pod("active"), pod("active")), 0, ""},
		"create in a terminating namespace":  {plugintest.Create(pod("ending")), 403, terminating},
		"dry run in a terminating namespace": {plugintest.Create(pod("ending")).AsDryRun(), 403, terminating},
		"evict in a terminating namespace": {plugintest.Create(pod("ending")).On("pods", "eviction"), 403,
			terminating},
		"update in a terminating namespace": {plugintest.Update(pod("ending"), pod("ending")), 0, ""},
		"delete in a terminating namespace": {plugintest.Delete(pod("ending")), 0, ""},
		"create in no namespace":            {plugintest.Create(pod("gone")), 404, missing},
		"dry run in no namespace":           {plugintest.Create(pod("gone")).AsDryRun(), 404, missing},
		"update in no namespace":            {plugintest.Update(pod("gone"), pod("gone")), 0, ""},
		"delete in no namespace":            {plugintest.Delete(pod("gone")), 0, ""},
		"connect in no namespace": {plugintest.Connect(pod("gone"), "exec", &corev1.PodExecOptions{}), 0,
			""},
		"access review in no namespace": {plugintest.Create(review), 0, ""},
		"cluster-scoped": {plugintest.Create(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}), 0, ""},
		"create a namespace":             {plugintest.Create(namespace("gone", "")), 0, ""},
		"update a namespace":             {plugintest.Update(active, active), 0, ""},
		"update a terminating namespace": {plugintest.Update(ending, ending), 0, ""},
		"delete a namespace":             {plugintest.Delete(active), 0, ""},
		"delete kube-node-lease":         {immortal("kube-node-lease"), 0, ""},
		"delete default": {immortal("default"), 403,
			strings.ReplaceAll(protected, "NAME", "default")},
		"delete kube-system": {immortal("kube-system"), 403,
			strings.ReplaceAll(protected, "NAME", "kube-system")},
		"delete kube-public": {immortal("kube-public"), 403,
			strings.ReplaceAll(protected, "NAME", "kube-public")},
		"delete default, without privileges": {immortal("default").By("alice"), 403,
			strings.ReplaceAll(protected, "NAME", "default")},
		"delete default, dry run": {immortal("default").AsDryRun(), 403,
			strings.ReplaceAll(protected, "NAME", "default")},
		"update default": {plugintest.Update(namespace("default", ""), namespace("default", "")),
			0, ""},
		"delete a pod that's named kube-system": {plugintest.Delete(
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "active", Name: "kube-system"}}), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				subject := plugintest.New(t, Descriptor, "", active, ending)
				result := subject.Admit(t, test.request)
				if test.code != 0 {
					result.Refused(t, test.code, test.message)
				} else if result.Admitted(t); result.Changed {
					t.Error("the object is changed")
				}
				if calls := subject.Calls(); test.code != 404 && len(calls) != 0 {
					t.Errorf("the cache should do, but there were calls: %q", calls)
				}
			})
		})
	}
}

// unread fails the test when a plugin looks at an object, which could mean converting it.
type unread struct {
	admission.Attributes
	t *testing.T
}

func (u unread) GetObject() runtime.Object    { u.t.Error("the object is looked at"); return nil }
func (u unread) GetOldObject() runtime.Object { u.t.Error("the old object is looked at"); return nil }

func TestObjectsAreNotLookedAt(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", namespace("active", corev1.NamespaceActive),
		namespace("ending", corev1.NamespaceTerminating))
	mutation := subject.Built.(plugin.Mutator)
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	for _, operation := range []admission.Operation{admission.Create, admission.Update, admission.Delete} {
		for _, namespace := range []string{"active", "ending"} {
			a := admission.NewAttributesRecord(nil, nil, corev1.SchemeGroupVersion.WithKind("Pod"), namespace, "p",
				pods, "", operation, nil, false, nil)
			err := mutation.Admit(t.Context(), unread{a, t}, nil)
			if refused := namespace == "ending" && operation == admission.Create; (err != nil) != refused {
				t.Errorf("%s in %s: %v", operation, namespace, err)
			}
		}
	}
}

func BenchmarkAdmit(b *testing.B) {
	subject := plugintest.New(b, Descriptor, "", namespace("active", corev1.NamespaceActive))
	mutation := subject.Built.(plugin.Mutator)
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	a := admission.NewAttributesRecord(nil, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "active", "p", pods, "",
		admission.Create, nil, false, nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := mutation.Admit(b.Context(), a, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func TestRefusalNamesItsCause(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", namespace("ending", corev1.NamespaceTerminating))
	result := subject.Admit(t, plugintest.Create(pod("ending")))
	got, _ := apierrors.StatusCause(result.Err, corev1.NamespaceTerminatingCause)
	want := metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: "namespace ending is being terminated",
		Field:   "metadata.namespace",
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// answerLive makes live reads answer something else than the cache holds.
func answerLive(subject *plugintest.Plugin, namespace *corev1.Namespace, err error) {
	subject.Client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, namespace, err
	})
}

func TestMissInTheCacheIsReadLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request := plugintest.Create(pod("fresh"))
		subject := plugintest.New(t, Descriptor, "")
		answerLive(subject, namespace("fresh", corev1.NamespaceActive), nil)
		subject.Admit(t, request).Admitted(t)
		if !slices.Contains(subject.Calls(), "get namespaces fresh") {
			t.Errorf("calls: %q", subject.Calls())
		}

		subject = plugintest.New(t, Descriptor, "")
		answerLive(subject, nil, errors.New("no leader"))
		subject.Admit(t, request).Refused(t, 500, "Internal error occurred: no leader")
	})
}

func TestCreateWaitsForTheCacheToCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject := plugintest.New(t, Descriptor, "")
		time.AfterFunc(missingWait/2, func() {
			if err := subject.Client.Tracker().Add(namespace("fresh", corev1.NamespaceActive)); err != nil {
				t.Error(err)
			}
		})
		began := time.Now()
		subject.Admit(t, plugintest.Create(pod("fresh"))).Admitted(t)
		if waited := time.Since(began); waited > missingWait/2+missingPoll {
			t.Errorf("waited %v, although the cache had it after %v", waited, missingWait/2)
		}
		if calls := subject.Calls(); len(calls) != 0 {
			t.Errorf("the cache should do, but there were calls: %q", calls)
		}
	})
}

func TestOnlyCreatesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject := plugintest.New(t, Descriptor, "")
		began := time.Now()
		subject.Admit(t, plugintest.Update(pod("gone"), pod("gone"))).Admitted(t)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("an update waited %v", waited)
		}
		subject.Admit(t, plugintest.Create(pod("gone"))).Refused(t, 404, `namespaces "gone" not found`)
		if waited := time.Since(began); waited != missingWait {
			t.Errorf("a create waited %v", waited)
		}
	})
}

// The cache of these tests never learns that the namespace is deleted.
func TestDeletionIsRememberedWhileTheCacheLags(t *testing.T) {
	deleted := namespace("ns", corev1.NamespaceActive)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	active := namespace("ns", corev1.NamespaceActive)

	for name, test := range map[string]struct {
		notice  plugintest.Request
		noticed bool
	}{
		"delete":                  {plugintest.Delete(active), true},
		"update of a deleted one": {plugintest.Update(deleted, deleted), true},
		"finalize of a deleted one": {plugintest.Update(deleted, deleted).On("namespaces", "finalize"),
			true},
		"update of an active one":               {plugintest.Update(active, active), false},
		"update that only claims it is deleted": {plugintest.Update(deleted, active), false},
		"delete of something else of that name": {plugintest.Delete(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const refusal = `pods "p" is forbidden: unable to create new content in namespace ns because it is ` +
					`being terminated`
				subject := plugintest.New(t, Descriptor, "", active)
				answerLive(subject, namespace("ns", corev1.NamespaceTerminating), nil)
				create := plugintest.Create(pod("ns"))

				subject.Admit(t, create).Admitted(t)
				subject.Admit(t, test.notice).Admitted(t)
				if calls := subject.Calls(); len(calls) != 0 {
					t.Errorf("calls before anything was doubtful: %q", calls)
				}
				if !test.noticed {
					subject.Admit(t, create).Admitted(t)
					return
				}
				subject.Admit(t, create).Refused(t, 403, refusal)
				subject.Admit(t, plugintest.Update(pod("ns"), pod("ns"))).Admitted(t)
				time.Sleep(deletionMemory)
				subject.Admit(t, create).Refused(t, 403, refusal)
				time.Sleep(time.Millisecond)
				subject.Admit(t, create).Admitted(t)
			})
		})
	}
}

func TestDeletedAndGoneIsNotFound(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", namespace("ns", corev1.NamespaceActive))
	subject.Admit(t, plugintest.Delete(namespace("ns", corev1.NamespaceActive))).Admitted(t)
	answerLive(subject, nil, apierrors.NewNotFound(corev1.Resource("namespaces"), "ns"))
	subject.Admit(t, plugintest.Create(pod("ns"))).Refused(t, 404, `namespaces "ns" not found`)
}

// With the namespace back, the live read says so.
func TestDeletedAndCreatedAgainIsAdmitted(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", namespace("ns", corev1.NamespaceActive))
	subject.Admit(t, plugintest.Delete(namespace("ns", corev1.NamespaceActive))).Admitted(t)
	subject.Admit(t, plugintest.Create(pod("ns"))).Admitted(t)
}

func TestTheTerminatingCacheIsBelieved(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", namespace("ns", corev1.NamespaceTerminating))
	subject.Admit(t, plugintest.Delete(namespace("ns", corev1.NamespaceTerminating))).Admitted(t)
	if subject.Admit(t, plugintest.Create(pod("ns"))); len(subject.Calls()) != 0 {
		t.Errorf("calls: %q", subject.Calls())
	}
}

// The informers of this host never start; ten seconds pass at once in the bubble.
func TestItWaitsForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(namespace("active", corev1.NamespaceActive))
		built, err := Descriptor.New(nil,
			&plugin.Env{Client: client, Informers: informers.NewSharedInformerFactory(client, 0)})
		if err != nil {
			t.Fatal(err)
		}
		subject := plugintest.Plugin{Built: built}
		subject.Admit(t, plugintest.Create(pod("active"))).Refused(t, 403,
			`pods "p" is forbidden: not yet ready to handle request`)
		subject.Admit(t, plugintest.Create(namespace("new", ""))).Admitted(t)
		subject.Admit(t, plugintest.Delete(pod("active"))).Admitted(t)
	})
}

func TestItIsOn(t *testing.T) {
	if !Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
}
