// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func account(name string, changes ...func(*corev1.ServiceAccount)) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	for _, change := range changes {
		change(a)
	}
	return a
}

func pod(changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "i"}}, Containers: []corev1.Container{{Name: "c"}},
	}}
	for _, change := range changes {
		change(p)
	}
	return p
}

func named(account string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.ServiceAccountName = account }
}

func mirror(p *corev1.Pod) {
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
}

func refused(message string) string { return `pods "p" is forbidden: ` + message }

func same(t *testing.T, got, want any) {
	t.Helper()
	if !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("got instead of want:\n%s", diff.Diff(want, got))
	}
}

// attributes are those of the pod's creation, for calls that end differently each time.
func attributes(pod *corev1.Pod) admission.Attributes {
	return admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), pod.Namespace, pod.Name,
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false, nil)
}

// Upstream: TestAssignsDefaultServiceAccount… and TestAutomountsAPIToken in
// k8s.io/kubernetes/plugin/pkg/admission/serviceaccount/admission_test.go.
func TestANewPodGetsAnIdentity(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", account("default"))
	got := subject.Admit(t, plugintest.Create(pod())).Admitted(t).Object.(*corev1.Pod)
	if got.Spec.ServiceAccountName != "default" || got.Spec.DeprecatedServiceAccount != "default" ||
		len(got.Spec.Volumes) != 1 {
		t.Fatalf("account %q and %q, volumes %v", got.Spec.ServiceAccountName, got.Spec.DeprecatedServiceAccount,
			got.Spec.Volumes)
	}
	volume := got.Spec.Volumes[0]
	if suffix, ok := strings.CutPrefix(volume.Name, "kube-api-access-"); !ok || len(suffix) != 5 {
		t.Errorf("the volume is named %s", volume.Name)
	}
	want := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(int32(0o644)),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)),
				Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace",
					FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}},
			}}},
		},
	}}
	same(t, volume.VolumeSource, want)
	mount := []corev1.VolumeMount{{Name: volume.Name, ReadOnly: true,
		MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}}
	same(t, got.Spec.InitContainers[0].VolumeMounts, mount)
	same(t, got.Spec.Containers[0].VolumeMounts, mount)
	if calls := subject.Calls(); len(calls) > 0 {
		t.Errorf("calls %q although the account is in the cache", calls)
	}
	subject.Validate(t, plugintest.Create(got)).Admitted(t)
}

// The account has two names in a pod of v1. Source: Convert_v1_PodSpec_To_core_PodSpec and
// Convert_core_PodSpec_To_v1_PodSpec in k8s.io/kubernetes/pkg/apis/core/v1/conversion.go, between
// which upstream's plugin works.
func TestBothNames(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", account("default"), account("a"), account("b"))
	for _, test := range []struct{ name, deprecated, want string }{
		{"", "", "default"}, {"a", "", "a"}, {"", "a", "a"}, {"a", "b", "a"}, {"b", "b", "b"},
	} {
		given := pod()
		given.Spec.ServiceAccountName, given.Spec.DeprecatedServiceAccount = test.name, test.deprecated
		got := subject.Admit(t, plugintest.Create(given)).Admitted(t).Object.(*corev1.Pod).Spec
		if got.ServiceAccountName != test.want || got.DeprecatedServiceAccount != test.want {
			t.Errorf("%+v: got %q and %q", test, got.ServiceAccountName, got.DeprecatedServiceAccount)
		}
	}
}

// The volumes and mounts that come of it, as "volumes / mounts of i / mounts of c". Upstream:
// TestRespectsExistingMount and shouldAutomount.
func TestMounts(t *testing.T) {
	token := corev1.VolumeMount{Name: "own", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
	automount := func(yes bool) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = &yes }
	}
	off := func(a *corev1.ServiceAccount) { a.AutomountServiceAccountToken = new(false) }
	on := func(a *corev1.ServiceAccount) { a.AutomountServiceAccountToken = new(true) }
	const all, none = "kube-api-access / kube-api-access / kube-api-access", " /  / "
	for name, test := range map[string]struct {
		account *corev1.ServiceAccount
		pod     *corev1.Pod
		want    string
	}{
		"nobody says":          {account("default"), pod(), all},
		"the account says yes": {account("default", on), pod(), all},
		"the account says no":  {account("default", off), pod(), none},
		"the pod says no":      {account("default", on), pod(automount(false)), none},
		"the pod says yes":     {account("default", off), pod(automount(true)), all},
		"a container has its own": {account("default"),
			pod(func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{token} }),
			"kube-api-access / kube-api-access / own"},
		"an init container does": {account("default"),
			pod(func(p *corev1.Pod) { p.Spec.InitContainers[0].VolumeMounts = []corev1.VolumeMount{token} }),
			"kube-api-access / own / kube-api-access"},
		"all have": {account("default"), pod(func(p *corev1.Pod) {
			p.Spec.InitContainers[0].VolumeMounts, p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{token},
				[]corev1.VolumeMount{token}
		}), " / own / own"},
		"one has something elsewhere": {account("default"), pod(func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		}), "kube-api-access / kube-api-access / data kube-api-access"},
		"a copied pod": {account("default"), pod(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "data"}, {Name: "kube-api-access-abcde"}}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access-abcde",
				MountPath: token.MountPath}}
		}), "data kube-api-access / kube-api-access / kube-api-access"},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "", test.account)
			spec := subject.Admit(t, plugintest.Create(test.pod)).Admitted(t).Object.(*corev1.Pod).Spec
			parts := []string{"", "", ""}
			add := func(i int, name string) {
				if strings.HasPrefix(name, volumePrefix) {
					name = strings.TrimSuffix(volumePrefix, "-")
				}
				parts[i] = strings.TrimSpace(parts[i] + " " + name)
			}
			for _, v := range spec.Volumes {
				add(0, v.Name)
			}
			for i, c := range []corev1.Container{spec.InitContainers[0], spec.Containers[0]} {
				for _, m := range c.VolumeMounts {
					add(i+1, m.Name)
				}
			}
			if got := strings.Join(parts, " / "); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

// Upstream: TestAddImagePullSecrets, TestDoNotAddImagePullSecrets.
func TestPullSecrets(t *testing.T) {
	ofAccount := []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}}
	a := account("default", func(a *corev1.ServiceAccount) { a.ImagePullSecrets = ofAccount })
	subject := plugintest.New(t, Descriptor, "", a)
	got := subject.Admit(t, plugintest.Create(pod())).Admitted(t).Object.(*corev1.Pod)
	same(t, got.Spec.ImagePullSecrets, ofAccount)
	if &got.Spec.ImagePullSecrets[0] == &a.ImagePullSecrets[0] {
		t.Error("the pod shares the list of the account in the cache")
	}
	own := []corev1.LocalObjectReference{{Name: "own"}}
	got = subject.Admit(t,
		plugintest.Create(pod(func(p *corev1.Pod) { p.Spec.ImagePullSecrets = own }))).Admitted(t).Object.(*corev1.Pod)
	same(t, got.Spec.ImagePullSecrets, own)
}

// Upstream: TestDeniesInvalidServiceAccount, TestFetchesUncachedServiceAccount.
func TestTheAccountMustExist(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	request := plugintest.Create(pod(named("other")))
	want := refused(`error looking up service account ns/other: serviceaccount "other" not found`)
	subject.Admit(t, request).Refused(t, 403, want)
	subject.Validate(t, request).Refused(t, 403, want)
	if calls := subject.Calls(); !slices.Equal(calls,
		[]string{"get serviceaccounts ns/other", "get serviceaccounts ns/other"}) {
		t.Errorf("calls %q: once each", calls)
	}
	subject.Validate(t, plugintest.Create(pod())).Refused(t, 403, refused("no service account specified for pod ns/p"))

	subject.Client.PrependReactor("get", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, account("other"), nil
	})
	subject.Admit(t, request).Admitted(t)
	subject.Client.PrependReactor("get", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("no leader")
	})
	subject.Admit(t, request).Refused(t, 403, refused("error looking up service account ns/other: no leader"))
}

// The bubble's time is exact: what the controller takes is what the pod waits, to the next read.
func TestTheDefaultAccountIsWaitedFor(t *testing.T) {
	for _, after := range []time.Duration{0, time.Millisecond, 50 * time.Millisecond, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			subject, made := plugintest.New(t, Descriptor, ""), time.Now().Add(after)
			subject.Client.PrependReactor("get", "serviceaccounts",
				func(clienttesting.Action) (bool, runtime.Object, error) {
					return !time.Now().Before(made), account("default"), nil
				})
			start := time.Now()
			subject.Admit(t, plugintest.Create(pod())).Admitted(t)
			if took, most := time.Since(start), 2*after+5*time.Millisecond; took < after || took > most+most/5 {
				t.Errorf("an account made after %s was found after %s", after, took)
			}
		})
	}
}

func TestTheDefaultAccountIsNotWaitedForForever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		subject, start := plugintest.New(t, Descriptor, ""), time.Now()
		subject.Admit(t, plugintest.Create(pod())).Refused(t, 403,
			refused(`error looking up service account ns/default: serviceaccount "default" not found`))
		if took := time.Since(start); took < 5*time.Second || took > 8*time.Second {
			t.Errorf("it took %s", took)
		}
		if calls := subject.Calls(); len(calls) != 12 {
			t.Errorf("%d calls: %q", len(calls), calls)
		}
	})
}

// A request whose client has gone doesn't go on reading.
func TestWhoGivesUpIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plugintest.New(t, Descriptor, "").Built.(*serviceAccount)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		err := p.Admit(ctx, attributes(pod()), nil)
		if !apierrors.IsTimeout(err) || time.Since(start) != time.Second {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
	})
}

// The informers of this host never start; ten seconds pass at once in the bubble.
func TestPodsWaitForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(account("default"))
		built, err := Descriptor.New(nil,
			&plugin.Env{Client: client, Informers: informers.NewSharedInformerFactory(client, 0)})
		if err != nil {
			t.Fatal(err)
		}
		subject := plugintest.Plugin{Built: built}
		subject.Admit(t, plugintest.Create(pod())).Refused(t, 403, refused("not yet ready to handle request"))
		subject.Admit(t, plugintest.Create(pod(mirror))).Admitted(t)
		subject.Validate(t, plugintest.Update(pod(), pod())).Admitted(t)
	})
}

// Upstream: TestIgnoresNonCreate, TestIgnoresNonPodResource and, for what isn't a pod,
// TestIgnoresNonPodObject, which admits it.
func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for _, request := range []plugintest.Request{
		plugintest.Update(pod(), pod()),
		plugintest.Update(pod(), pod()).On("pods", "status"),
		plugintest.Update(pod(), pod()).On("pods", "resize"),
		plugintest.Create(binding).On("pods", "binding"),
		plugintest.Create(pod()).On("podtemplates", ""),
		plugintest.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}),
		plugintest.Delete(pod()),
		plugintest.Connect(pod(), "exec", &corev1.PodExecOptions{}),
	} {
		if result := subject.Admit(t, request).Admitted(t); result.Changed {
			t.Errorf("%s %s/%s: changed", request.Operation, request.Resource.Resource, request.Subresource)
		}
		subject.Validate(t, request).Admitted(t)
	}
	if result := subject.Admit(t,
		plugintest.Update(pod(), pod()).On("pods", "ephemeralcontainers")).Admitted(t); result.Changed {
		t.Error("ephemeral containers change what was mounted")
	}
	request := plugintest.Create(binding).On("pods", "")
	subject.Admit(t, request).Refused(t, 400, "ServiceAccount: the object of a request for pods is a *v1.Binding")
	subject.Validate(t, request).Refused(t, 400, "ServiceAccount: the object of a request for pods is a *v1.Binding")
	if calls := subject.Calls(); len(calls) > 0 {
		t.Errorf("calls %q", calls)
	}
}

func TestItIsOn(t *testing.T) {
	if !Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
}

// What isn't a pod's creation costs nothing.
func TestOtherRequestsDoNotAllocate(t *testing.T) {
	p := plugintest.New(t, Descriptor, "").Built.(*serviceAccount)
	a := admission.NewAttributesRecord(pod(), pod(), corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
		corev1.SchemeGroupVersion.WithResource("pods"), "status", admission.Update, nil, false, nil)
	if n := testing.AllocsPerRun(100, func() {
		if err := errors.Join(p.Admit(t.Context(), a, nil), p.Validate(t.Context(), a, nil)); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCreate(b *testing.B) {
	p := plugintest.New(b, Descriptor, "", account("default")).Built.(*serviceAccount)
	b.ReportAllocs()
	for b.Loop() {
		a := attributes(pod())
		if err := errors.Join(p.Admit(b.Context(), a, nil), p.Validate(b.Context(), a, nil)); err != nil {
			b.Fatal(err)
		}
	}
}
