// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/internal/quota"
)

func podIn(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func podsLimited(used string) *corev1.ResourceQuota {
	list := func(n string) corev1.ResourceList { return corev1.ResourceList{"pods": resource.MustParse(n)} }
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "q", UID: "q", ResourceVersion: "10"},
		Spec:       corev1.ResourceQuotaSpec{Hard: list("9")},
		Status:     corev1.ResourceQuotaStatus{Hard: list("9"), Used: list(used)},
	}
}

// Every namespace is counted in every period. Pods are listed only where the cache of them doesn't
// say what the quota shows and that isn't because the quota moves, and what is written is what was
// listed.
func TestQuotaCounter(t *testing.T) {
	ended := podIn("demo", "ended")
	ended.DeletionTimestamp, ended.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(-time.Minute)},
		new(int64(1))
	two := []any{podIn("demo", "a"), podIn("demo", "b"), podIn("other", "c"), ended}
	for name, test := range map[string]struct {
		cached        []any // nil: not known yet
		shown         string
		periods       int
		moves         bool // between periods
		listed, wrote bool
	}{
		"right":                     {cached: two, shown: "2", periods: 2},
		"wrong":                     {cached: two, shown: "3", periods: 2, listed: true, wrote: true},
		"wrong, for the first time": {cached: two, shown: "3", periods: 1},
		"on the move":               {cached: two, shown: "3", periods: maxDoubts, moves: true},
		"on the move for long": {cached: two, shown: "3", periods: maxDoubts + 1, moves: true,
			listed: true, wrote: true},
		"right, and the cache is late":         {cached: two[:1], shown: "2", periods: 2, listed: true},
		"wrong, until the cache has caught up": {cached: two[:1], shown: "1", periods: 2},
		"right, without a cache yet":           {shown: "2", periods: 1, listed: true},
		"wrong, without a cache yet":           {shown: "1", periods: 1, listed: true, wrote: true},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(podIn("demo", "a"), podIn("demo", "b"), ended, podIn("other", "c"),
				podsLimited(test.shown))
			pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc,
				cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			if err := pods.Replace(test.cached, "1"); err != nil {
				t.Fatal(err)
			}
			c := &quotaCounter{
				client: client, mapper: newMapper(client), pods: corev1listers.NewPodLister(pods),
				synced: func() bool { return test.cached != nil },
			}
			for period := range test.periods {
				if test.moves {
					q := podsLimited(test.shown)
					q.ResourceVersion = strconv.Itoa(11 + period)
					if err := client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("resourcequotas"), q,
						q.Namespace); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.sync(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			var listed, wrote bool
			for _, a := range client.Actions() {
				listed = listed || a.Matches("list", "pods")
				wrote = wrote || a.Matches("update", "resourcequotas")
			}
			if listed != test.listed || wrote != test.wrote {
				t.Errorf("listed: %t, want %t; wrote: %t, want %t", listed, test.listed, wrote, test.wrote)
			}
			q, err := client.CoreV1().ResourceQuotas("demo").Get(t.Context(), "q", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if used := q.Status.Used["pods"]; test.wrote && used.String() != "2" {
				t.Errorf("wrote %s", used.String())
			}
		})
	}
}

// The cost of a pod holds until it changes or its grace period ends.
func TestCachedPodsAreMeasuredAgain(t *testing.T) {
	for name, end := range map[string]func(pods cache.Indexer) error{
		"it is changed": func(pods cache.Indexer) error {
			ended := podIn("demo", "a")
			ended.Status.Phase = corev1.PodSucceeded
			return pods.Update(ended)
		},
		"its time is over": func(cache.Indexer) error {
			time.Sleep(time.Minute) // on the bubble's clock
			return nil
		},
		"it is deleted": func(pods cache.Indexer) error { return pods.Delete(podIn("demo", "a")) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod := podIn("demo", "a")
				pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()},
					new(int64(1))
				pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc,
					cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
				if err := pods.Add(pod); err != nil {
					t.Fatal(err)
				}
				c := &quotaCounter{pods: corev1listers.NewPodLister(pods),
					measured: map[string]map[*corev1.Pod]*quota.Cost{}}
				uses := func() (used int64) {
					costs, err := c.cached("demo")
					if err != nil {
						t.Fatal(err)
					}
					total := quota.Total(podsLimited("0"), slices.Values(costs))["pods"]
					return total.Value()
				}
				for range 2 {
					if used := uses(); used != 1 {
						t.Errorf("%d pods are counted, want 1", used)
					}
				}
				if err := end(pods); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if used := uses(); used != 0 {
						t.Errorf("%d pods are counted after the end", used)
					}
				}
			})
		})
	}
}

// Claims for devices are counted with their class, and with the pod that accounts for them.
func TestQuotaCounterOfDevices(t *testing.T) {
	const gpus corev1.ResourceName = "requests.example.com/gpu"
	two, yes, name := corev1.ResourceList{"example.com/gpu": resource.MustParse("2")}, true, "example.com/gpu"
	pod := podIn("demo", "p")
	pod.UID = "uid"
	pod.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: two}}}
	claim := func(name string) *resourcev1.ResourceClaim {
		return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name},
			Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
				Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpuclass", Count: 2,
					AllocationMode: resourcev1.DeviceAllocationModeExactCount}}}}}}
	}
	made := claim("made")
	made.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "uid",
		Controller: &yes}}
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpuclass"},
		Spec: resourcev1.DeviceClassSpec{ExtendedResourceName: &name}}
	for off, want := range map[quota.Gates]string{0: "4", quota.DRAExtendedResource: "2"} {
		q := podsLimited("0")
		q.Spec.Hard = corev1.ResourceList{gpus: resource.MustParse("9")}
		client := fake.NewClientset(pod, claim("own"), made, class, q)
		c := &quotaCounter{client: client, mapper: newMapper(client), synced: func() bool { return false }, off: off}
		if err := c.sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		after, err := client.CoreV1().ResourceQuotas("demo").Get(t.Context(), "q", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if used := after.Status.Used[gpus]; used.String() != want {
			t.Errorf("off %b: used %s, want %s", off, used.String(), want)
		}
	}
}
