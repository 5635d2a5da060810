// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"go.etcd.io/etcd/client/v3/kubernetes"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"gatehouse.dev/internal/quota"
)

const gpus corev1.ResourceName = "requests.example.com/gpu"

// classify stores a device class that is an extended resource, "" for none; of nil it is deleted.
func (s *server) classify(extended *string) {
	s.shop.t.Helper()
	store := s.store(classResource)
	key := store.prefix + "gpuclass"
	stored, err := s.shop.kv.Get(s.shop.t.Context(), key)
	if err != nil {
		s.shop.t.Fatal(err)
	}
	var revision int64
	if len(stored.Kvs) == 1 {
		revision = stored.Kvs[0].ModRevision
	}
	if extended == nil {
		if response, err := store.OptimisticDelete(s.shop.t.Context(), key, revision,
			kubernetes.DeleteOptions{}); err != nil || !response.Succeeded {
			s.shop.t.Fatal(response, err)
		}
		return
	}
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpuclass"}}
	if *extended != "" {
		class.Spec.ExtendedResourceName = extended
	}
	if response, err := store.OptimisticPut(s.shop.t.Context(), key, s.shop.encode(class), revision,
		kubernetes.PutOptions{}); err != nil || !response.Succeeded {
		s.shop.t.Fatal(response, err)
	}
}

func called(name string) *string { return &name }

// devices is a claim for n devices of the class.
func devices(name string, n int64) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "demo"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpuclass",
				AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n}}}}},
	}
}

// scheduled is a claim that the scheduler made for pod p.
func scheduled(name string, n int64) *resourcev1.ResourceClaim {
	claim, yes := devices(name, n), true
	claim.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "uid of p",
		Controller: &yes}}
	return claim
}

// needing is pod p, which requests n of the extended resource.
func needing(n string) *corev1.Pod {
	pod := newPod("p")
	pod.UID = "uid of p"
	list := corev1.ResourceList{"example.com/gpu": resource.MustParse(n)}
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: list,
		Limits: list}}}
	return pod
}

// claim stores a new claim as a request does.
func (s *server) claim(c *resourcev1.ResourceClaim) (int64, error) {
	response, err := s.writeEnforced(&quota.Enforcement{Resource: deviceClaims}, deviceClaims, c, 0)
	return response.Revision, err
}

func (s *server) mustClaim(c *resourcev1.ResourceClaim) int64 {
	s.shop.t.Helper()
	revision, err := s.claim(c)
	if err != nil || revision == 0 {
		s.shop.t.Fatal(revision, err)
	}
	return revision
}

// Claims count by the extended resource that their class is, and are refused beyond it.
func TestClaimsCountByExtendedResource(t *testing.T) {
	s := newShop(t)
	a := s.server()
	s.put(quotaResource, newQuota(gpus, "4", "0"))
	a.classify(called("example.com/gpu"))
	revision := a.mustClaim(devices("c", 3))
	s.wantUsed(gpus, "3")
	if _, err := a.claim(devices("d", 2)); !refusedWith(err,
		"exceeded quota: q, requested: requests.example.com/gpu=2, used: requests.example.com/gpu=3, limited: "+
			"requests.example.com/gpu=4") {
		t.Errorf("a claim beyond the limit: %v", err)
	}
	a.remove(deviceClaims, "c", revision)
	s.wantUsed(gpus, "0")
}

// So do claims that an older version of Kubernetes has stored as it had them.
func TestClaimsInAnOlderVersion(t *testing.T) {
	s := newShop(t)
	a := s.server()
	s.put(quotaResource, newQuota(gpus, "4", "3"))
	a.classify(called("example.com/gpu"))
	claim := &resourcev1beta2.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "demo"},
		Spec: resourcev1beta2.ResourceClaimSpec{Devices: resourcev1beta2.DeviceClaim{
			Requests: []resourcev1beta2.DeviceRequest{{Name: "r", Exactly: &resourcev1beta2.ExactDeviceRequest{
				DeviceClassName: "gpuclass", AllocationMode: resourcev1beta2.DeviceAllocationModeExactCount,
				Count: 3}}}}},
	}
	data, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(resourcev1beta2.SchemeGroupVersion), claim)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := s.kv.Put(t.Context(), keyOf(deviceClaims, "c"), string(data))
	if err != nil {
		t.Fatal(err)
	}
	a.remove(deviceClaims, "c", stored.Header.Revision)
	s.wantUsed(gpus, "0")
}

// With its gate off they count by their class only.
func TestClaimsWithTheGateOff(t *testing.T) {
	s := newShop(t)
	a := s.server()
	a.Off = quota.DRAExtendedResource
	s.put(quotaResource, newQuota(gpus, "4", "0"))
	a.classify(called("example.com/gpu"))
	response, err := a.write(deviceClaims, nil, devices("c", 5), 0)
	if err != nil || !response.Succeeded {
		t.Fatal(response, err)
	}
	s.wantUsed(gpus, "0")
}

// A class that becomes an extended resource, another one, none, or goes: what is stored counts
// accordingly.
func TestClassChanges(t *testing.T) {
	s := newShop(t)
	a := s.server()
	s.put(quotaResource, newQuota(gpus, "9", "0"))
	a.classify(called(""))
	a.mustClaim(devices("c", 3))
	s.wantUsed(gpus, "0")
	for _, change := range []struct {
		to   *string
		used string
	}{
		{called("example.com/gpu"), "3"}, {called("example.com/other"), "0"}, {called("example.com/gpu"), "3"},
		{called(""), "0"}, {called("example.com/gpu"), "3"}, {nil, "0"},
	} {
		a.classify(change.to)
		s.awaitUsed(t.Context(), gpus, change.used)
	}
}

// A class that changes while a claim is charged: it is the class at the claim's revision that
// counts.
func TestClassChangesMeanwhile(t *testing.T) {
	s := newShop(t)
	a, b := s.server(), s.server()
	s.put(quotaResource, newQuota(gpus, "9", "0"))
	b.classify(called(""))
	once := true
	a.before = func(keys string) error {
		if once && strings.Contains(keys, "put "+keyOf(deviceClaims, "c")) {
			once = false
			b.classify(called("example.com/gpu"))
		}
		return nil
	}
	a.mustClaim(devices("c", 3))
	if once {
		t.Fatal("nothing happened meanwhile")
	}
	s.wantUsed(gpus, "3")
}

// The scheduler's claims for a pod aren't counted a second time, except for devices that the pod doesn't
// ask for, and for claims beyond the first.
func TestClaimsOfAPodCountOnce(t *testing.T) {
	s := newShop(t)
	a := s.server()
	s.put(quotaResource, newQuota(gpus, "9", "0"))
	a.classify(called("example.com/gpu"))
	if response, err := a.write(podResource, nil, needing("2"), 0); err != nil || !response.Succeeded {
		t.Fatal(response, err)
	}
	s.wantUsed(gpus, "2")
	first := a.mustClaim(scheduled("c", 3))
	s.wantUsed(gpus, "3")
	second := a.mustClaim(scheduled("d", 4))
	s.wantUsed(gpus, "7")
	// Once the first has gone, the second is the first.
	a.remove(deviceClaims, "c", first)
	s.awaitUsed(t.Context(), gpus, "4")
	a.remove(deviceClaims, "d", second)
	s.awaitUsed(t.Context(), gpus, "2")
}

// A claim that is left behind by its pod counts in full, and what is given back for it isn't given
// back twice, in whichever order the two go.
func TestClaimOutlivesItsPod(t *testing.T) {
	for name, podFirst := range map[string]bool{"the pod goes first": true, "the claim goes first": false} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			a := s.server()
			s.put(quotaResource, newQuota(gpus, "9", "0"))
			a.classify(called("example.com/gpu"))
			a.mustClaim(devices("other", 1))
			response, err := a.write(podResource, nil, needing("2"), 0)
			if err != nil || !response.Succeeded {
				t.Fatal(response, err)
			}
			made := a.mustClaim(scheduled("c", 2))
			s.wantUsed(gpus, "3")
			if podFirst {
				a.remove(podResource, "p", response.Revision)
				a.wantCounted(gpus, "3")
				a.remove(deviceClaims, "c", made)
			} else {
				a.remove(deviceClaims, "c", made)
				s.wantUsed(gpus, "3")
				a.remove(podResource, "p", response.Revision)
			}
			s.awaitUsed(t.Context(), gpus, "1")
		})
	}
}

// A claim whose pod another server has deleted and not counted yet: at no moment is less shown than
// is used.
func TestClaimOutlivesItsPodUncounted(t *testing.T) {
	s := newShop(t)
	a := s.server()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpuclass"},
		Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: called("example.com/gpu")}}
	if _, err := s.kv.Put(t.Context(), a.store(classResource).prefix+"gpuclass", string(s.encode(class))); err != nil {
		t.Fatal(err)
	}
	s.put(quotaResource, newQuota(gpus, "9", "1"))
	s.put(deviceClaims, devices("other", 1))
	made := s.put(deviceClaims, scheduled("c", 2))
	a.remove(deviceClaims, "c", made)
	s.wantUsed(gpus, "1")
	a.wantCounted(gpus, "1")
}

// A pod that has ended accounts for nothing any more.
func TestPodOfAClaimEnds(t *testing.T) {
	s := newShop(t)
	a := s.server()
	s.put(quotaResource, newQuota(gpus, "9", "0"))
	a.classify(called("example.com/gpu"))
	response, err := a.write(podResource, nil, needing("2"), 0)
	if err != nil || !response.Succeeded {
		t.Fatal(response, err)
	}
	a.mustClaim(scheduled("c", 2))
	s.wantUsed(gpus, "2")
	ended := needing("2")
	ended.Status.Phase = corev1.PodSucceeded
	if response, err := a.store(podResource).OptimisticPut(t.Context(), keyOf(podResource, "p"), s.encode(ended),
		response.Revision, kubernetes.PutOptions{}); err != nil || !response.Succeeded {
		t.Fatal(response, err)
	}
	a.wantCounted(gpus, "2")
}

// However many pods end while the claims of their namespace are read, the claims are read once more.
func TestPodsThatEndTogether(t *testing.T) {
	const pods = 30
	s := newShop(t)
	a := s.server()
	s.put(quotaResource, newQuota(gpus, "99", "0"))
	a.classify(called("example.com/gpu"))
	a.mustClaim(devices("other", 1))
	if err := a.Counted(t.Context()); err != nil {
		t.Fatal(err)
	}
	named := func(i int) *corev1.Pod {
		pod := needing("1")
		pod.Name = fmt.Sprint("p", i)
		pod.UID = types.UID(pod.Name)
		return pod
	}
	revisions := make([]int64, pods)
	for i := range revisions {
		response, err := a.write(podResource, nil, named(i), 0)
		if err != nil || !response.Succeeded {
			t.Fatal(response, err)
		}
		revisions[i] = response.Revision
	}
	var reads atomic.Int32
	ended := make(chan struct{})
	a.before = func(what string) error {
		if what == "get /registry/resourceclaims/demo/" {
			if reads.Add(1) == 1 {
				<-ended
			}
		}
		return nil
	}
	for i, revision := range revisions {
		a.remove(podResource, fmt.Sprint("p", i), revision)
	}
	close(ended)
	a.wantCounted(gpus, "1")
	if n := reads.Load(); n > 2 {
		t.Errorf("the claims were read %d times", n)
	}
}
