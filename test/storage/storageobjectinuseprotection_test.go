// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/test/servertest"
)

// goes is how long an object may stay after its last use. That takes less than a second where the
// machine isn't busy.
const goes = 10 * time.Second

func newClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

func newVolume(name string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nfs.example",
				Path: "/"}},
		},
	}
}

// podWith makes a pod that has a claim as a volume, on a node unless that is empty.
func podWith(name, claim, node string) *corev1.Pod {
	pod := servertest.Pod(name)
	pod.Spec.NodeName = node
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return pod
}

var atOnce = metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}

func must[T any](object T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return object
	}
}

// A claim stays as long as a pod has it, and goes within a second after.
func TestClaimsInUse(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t)
	k := c.Kubectl(t, c.Namespace(t, nil))
	claims, pods := c.Client.CoreV1().PersistentVolumeClaims(k.Namespace), c.Client.CoreV1().Pods(k.Namespace)
	h := watching(t, claims.Watch, pods.Watch)
	for name, test := range map[string]struct {
		pod *corev1.Pod
		// end ends the use, however pods do that.
		end func(t *testing.T, pod string)
	}{
		"deleted": {podWith("deleted", "deleted", "node-1"),
			func(t *testing.T, pod string) { k.OK("", "delete", "pod", pod, "--force") }},
		"no grace": {podWith("no-grace", "no-grace", "node-1"),
			func(t *testing.T, pod string) { must(struct{}{}, pods.Delete(t.Context(), pod, atOnce))(t) }},
		// A pod that is done keeps its claims until it is deleted.
		"done": {podWith("done", "done", "node-1"), func(t *testing.T, pod string) {
			k.OK("", "patch", "pod", pod, "--subresource=status", `--patch={"status": {"phase": "Succeeded"}}`)
			k.OK("", "delete", "pod", pod, "--force")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			name := test.pod.Name
			claim := must(claims.Create(t.Context(), newClaim(name), metav1.CreateOptions{}))(t)
			if want := []string{"kubernetes.io/pvc-protection"}; !slices.Equal(claim.Finalizers, want) {
				t.Errorf("finalizers %q, want %q", claim.Finalizers, want)
			}
			pod := must(pods.Create(t.Context(), test.pod, metav1.CreateOptions{}))(t)
			k.OK("", "delete", "pvc", name, "--wait=false")
			// Whatever makes the controller look at it.
			k.OK("", "label", "pvc", name, "looked=at")
			k.OK("", "label", "pod", name, "looked=at")
			if got := k.OK("", "get", "pvc", name, "--no-headers"); !strings.Contains(got, "Terminating") {
				t.Errorf("got %s", got)
			}
			test.end(t, name)
			ended, gone := h.waitFor(h.gone, "the pod", pod.UID), h.waitFor(h.gone, "the claim", claim.UID)
			if gone.revision < ended.revision {
				t.Error("the claim was gone before its pod")
			}
			if took := gone.at.Sub(ended.at); took > goes {
				t.Errorf("the claim went %v after its pod", took)
			}
		})
	}

	t.Run("a pod without a node", func(t *testing.T) {
		claim := must(claims.Create(t.Context(), newClaim("waits"), metav1.CreateOptions{}))(t)
		must(pods.Create(t.Context(), podWith("waits", "waits", ""), metav1.CreateOptions{}))(t)
		must(struct{}{}, claims.Delete(t.Context(), "waits", metav1.DeleteOptions{}))(t)
		marked, gone := h.waitFor(h.marked, "the claim", claim.UID), h.waitFor(h.gone, "the claim", claim.UID)
		if took := gone.at.Sub(marked.at); took > goes {
			t.Errorf("the claim went %v after its deletion", took)
		}
	})

	// As in Kubernetes: neither a claim that isn't there nor one that is being deleted is a reason
	// to refuse a pod.
	t.Run("a new pod on a node, the claim being deleted", func(t *testing.T) {
		claim := must(claims.Create(t.Context(), newClaim("shared"), metav1.CreateOptions{}))(t)
		first := must(pods.Create(t.Context(), podWith("first", "shared", "node-1"), metav1.CreateOptions{}))(t)
		must(struct{}{}, claims.Delete(t.Context(), "shared", metav1.DeleteOptions{}))(t)
		second := must(pods.Create(t.Context(), podWith("second", "shared", "node-1"), metav1.CreateOptions{}))(t)
		must(struct{}{}, pods.Delete(t.Context(), "first", atOnce))(t)
		h.waitFor(h.gone, "the first pod", first.UID)
		must(claims.Get(t.Context(), "shared", metav1.GetOptions{}))(t)
		must(struct{}{}, pods.Delete(t.Context(), "second", atOnce))(t)
		if ended, gone := h.waitFor(h.gone, "the second pod", second.UID),
			h.waitFor(h.gone, "the claim", claim.UID); gone.revision < ended.revision {
			t.Error("the claim was gone before the second pod")
		}
	})
}

func TestVolumesInUse(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t)
	k := c.Kubectl(t, c.Namespace(t, nil))
	volumes := c.Client.CoreV1().PersistentVolumes()
	h := watching(t, volumes.Watch)
	volume := must(volumes.Create(t.Context(), newVolume("v"), metav1.CreateOptions{}))(t)
	if want := []string{"kubernetes.io/pv-protection"}; !slices.Equal(volume.Finalizers, want) {
		t.Errorf("finalizers %q, want %q", volume.Finalizers, want)
	}
	// Whoever binds claims to volumes says so.
	k.OK("", "patch", "pv", "v", "--subresource=status", `--patch={"status": {"phase": "Bound"}}`)
	k.OK("", "delete", "pv", "v", "--wait=false")
	k.OK("", "label", "pv", "v", "looked=at")
	must(volumes.Get(t.Context(), "v", metav1.GetOptions{}))(t)
	released := time.Now()
	k.OK("", "patch", "pv", "v", "--subresource=status", `--patch={"status": {"phase": "Released"}}`)
	patched := time.Now()
	if gone := h.waitFor(h.gone, "the volume", volume.UID); gone.at.Before(released) || gone.at.Sub(patched) > goes {
		t.Errorf("the volume went %v after it was released", gone.at.Sub(patched))
	}
}

func TestVolumeAttributesClassesInUse(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t)
	k := c.Kubectl(t, c.Namespace(t, nil))
	classes, claims := c.Client.StorageV1().VolumeAttributesClasses(),
		c.Client.CoreV1().PersistentVolumeClaims(k.Namespace)
	h := watching(t, classes.Watch, claims.Watch)
	class := must(classes.Create(t.Context(), &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, DriverName: "example.com/disk",
		Parameters: map[string]string{"iops": "1000"},
	}, metav1.CreateOptions{}))(t)
	if want := []string{"kubernetes.io/vac-protection"}; !slices.Equal(class.Finalizers, want) {
		t.Errorf("finalizers %q, want %q", class.Finalizers, want)
	}
	template := newClaim("c")
	template.Spec.VolumeAttributesClassName = new("fast")
	claim := must(claims.Create(t.Context(), template, metav1.CreateOptions{}))(t)
	// The controller of classes asks its caches only. That they show the claim is seen by what
	// another controller, with the same cache, does: a claim from before the plugin was enabled
	// gets its finalizer.
	k.OK("", "patch", "pvc", "c", "--type=merge", `--patch={"metadata": {"finalizers": null}}`)
	servertest.Eventually(t, "the claim to have its finalizer again", func() bool {
		return len(must(claims.Get(t.Context(), "c", metav1.GetOptions{}))(t).Finalizers) == 1
	})
	k.OK("", "delete", "volumeattributesclass", "fast", "--wait=false")
	must(classes.Get(t.Context(), "fast", metav1.GetOptions{}))(t)
	k.OK("", "delete", "pvc", "c", "--wait=false")
	ended, gone := h.waitFor(h.gone, "the claim", claim.UID), h.waitFor(h.gone, "the class", class.UID)
	if gone.revision < ended.revision {
		t.Error("the class was gone before the claim")
	}
	if took := gone.at.Sub(ended.at); took > goes {
		t.Errorf("the class went %v after the claim", took)
	}
}

// Claims are deleted at the moment when pods that name them are created, hundreds of them in one
// namespace, so that the controller looks at several at once. Each pod has a kubelet, which starts
// it only if it finds its claim, and finds that it isn't being deleted. A claim whose pod was
// started is there until the pod isn't.
//
// The race is that of https://github.com/kubernetes/kubernetes/issues/76703.
func TestNoStartedPodLosesItsClaim(t *testing.T) {
	t.Parallel()
	const (
		workers     = 8
		rounds      = 200
		podsOfClaim = 3
	)
	c := servertest.Start(t)
	namespace := c.Namespace(t, nil)
	claims, pods := c.Client.CoreV1().PersistentVolumeClaims(namespace), c.Client.CoreV1().Pods(namespace)
	h := watching(t, claims.Watch, pods.Watch)

	type run struct {
		claim   types.UID
		bound   []types.UID // the pods that were on a node
		started []types.UID // those of them that a kubelet has started
	}
	results := make([]run, rounds)
	one := func(round int) {
		name := fmt.Sprintf("c-%d", round)
		claim, err := claims.Create(t.Context(), newClaim(name), metav1.CreateOptions{})
		if err != nil {
			t.Error(err)
			return
		}
		r := &results[round]
		r.claim = claim.UID
		// Without a node: it keeps nothing, but makes the controller look at the claim already now.
		if _, err := pods.Create(t.Context(), podWith(name+"-waiting", name, ""), metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}

		created, deleted := make(chan struct{}, podsOfClaim), make(chan struct{})
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range podsOfClaim {
			all.Go(func() {
				pod, err := pods.Create(t.Context(), podWith(fmt.Sprint(name, "-", i), name, "node-1"),
					metav1.CreateOptions{})
				created <- struct{}{}
				if err != nil {
					t.Error(err)
					return
				}
				found, err := claims.Get(t.Context(), name, metav1.GetOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					t.Error(err)
				}
				starts := err == nil && found.DeletionTimestamp == nil
				mu.Lock()
				r.bound = append(r.bound, pod.UID)
				if starts {
					r.started = append(r.started, pod.UID)
				}
				mu.Unlock()
				<-deleted
				if starts {
					if found, err := claims.Get(t.Context(), name, metav1.GetOptions{}); err != nil ||
						found.UID != claim.UID {
						t.Errorf("%s was started, and its claim is gone: %v", pod.Name, err)
					}
				}
				if err := pods.Delete(t.Context(), pod.Name, atOnce); err != nil {
					t.Error(err)
				}
			})
		}
		// When some of them have been created: before the first, or after the last, or between.
		for range rand.IntN(podsOfClaim + 1) {
			<-created
		}
		if err := claims.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		close(deleted)
		all.Wait()
	}
	todo := make(chan int)
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for round := range todo {
				one(round)
			}
		})
	}
	for round := range rounds {
		todo <- round
	}
	close(todo)
	working.Wait()
	if t.Failed() {
		return
	}

	bound, started, without := 0, 0, 0
	var took []time.Duration
	for _, r := range results {
		gone := h.waitFor(h.gone, "a claim", r.claim)
		last := h.waitFor(h.marked, "a claim", r.claim)
		for _, pod := range r.bound {
			ended := h.waitFor(h.gone, "a pod", pod)
			switch {
			case gone.revision > ended.revision:
				if ended.revision > last.revision {
					last = ended
				}
			case slices.Contains(r.started, pod):
				t.Error("a pod was started, and its claim was gone before it")
			default:
				without++
			}
		}
		bound, started = bound+len(r.bound), started+len(r.started)
		took = append(took, gone.at.Sub(last.at))
	}
	slices.Sort(took)
	t.Logf("%d pods on a node, %d of them started, %d of the others left without a claim; claims went after their "+
		"last use: half of them within %v, the last %v",
		bound, started, without, took[len(took)/2], took[len(took)-1])
	if started == 0 || started == bound {
		t.Error("this tests nothing: there should be pods of both kinds")
	}
}
