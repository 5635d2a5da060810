// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/pvcprotection"
)

const protected = "kubernetes.io/pvc-protection"

// claim makes a claim that has the finalizer, deleted or not.
func claim(name string, deleted bool) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(name), Finalizers: []string{protected},
	}}
	if deleted {
		c.DeletionTimestamp = new(metav1.Now())
	}
	return c
}

// The controller, whose cache of pods is behind, lists the pods for one claim. Another claim gets
// into use and is deleted before its turn comes; what the controller has is a list from before.
// Nothing but claimClient keeps it from taking that claim away from its pod.
func TestClaimsAreNotJudgedByAListFromBefore(t *testing.T) {
	for name, test := range map[string]struct {
		client func(kubernetes.Interface, informers.SharedInformerFactory) kubernetes.Interface
		lost   bool
	}{
		"with our client": {func(c kubernetes.Interface, f informers.SharedInformerFactory) kubernetes.Interface {
			return &claimClient{Interface: c, claims: f.Core().V1().PersistentVolumeClaims().Lister()}
		}, false},
		// So it is without. Once it isn't any more, Kubernetes has mended it, and claimClient can
		// go.
		"with any client": {func(c kubernetes.Interface,
			_ informers.SharedInformerFactory) kubernetes.Interface {
			return c
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset(claim("earlier", true))
				client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
					return true, watch.NewFake(), nil // which tells of nothing
				})
				// An update of a claim of these names says that it has come, and waits until it may
				// go on.
				come, goOn := make(chan string), make(chan struct{})
				stops := map[string]bool{"earlier": true, "first": true}
				client.PrependReactor("update", "persistentvolumeclaims",
					func(action clienttesting.Action) (bool, runtime.Object, error) {
						name := action.(clienttesting.UpdateAction).GetObject().(metav1.Object).GetName()
						if stops[name] {
							come <- name
							<-goOn
						}
						return false, nil, nil
					})
				factory := informers.NewSharedInformerFactory(client, 0)
				core := factory.Core().V1()
				c, err := pvcprotection.NewPVCProtectionController(klog.FromContext(t.Context()),
					core.PersistentVolumeClaims(), core.Pods(), test.client(client, factory))
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				factory.StartWithContext(ctx)
				var running sync.WaitGroup
				running.Go(func() { c.Run(ctx, 1) })
				defer func() {
					cancel()
					running.Wait()
					factory.Shutdown()
				}()
				tracked := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				claims := corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")

				// While one claim keeps the controller busy, two more are there to be looked at:
				// one is deleted, one has no finalizer.
				if got := <-come; got != "earlier" {
					t.Fatalf("%s is updated", got)
				}
				synctest.Wait() // the informer may have listed the claims and not begun to watch them
				tracked(client.Tracker().Add(claim("first", true)))
				fresh := claim("second", false)
				fresh.Finalizers = nil
				tracked(client.Tracker().Add(fresh))
				goOn <- struct{}{}

				// Pods have been listed for the first of the two. Now the second one gets a pod,
				// and then is deleted.
				if got := <-come; got != "first" {
					t.Fatalf("%s is updated", got)
				}
				tracked(client.Tracker().Add(&corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
					Spec: corev1.PodSpec{NodeName: "node", Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
						PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "second"},
					}}}},
				}))
				tracked(client.Tracker().Update(claims, claim("second", true), "ns"))
				goOn <- struct{}{}
				time.Sleep(time.Minute) // and however often it comes up again

				for name, want := range map[string]bool{"first": true, "second": test.lost} {
					got, err := client.Tracker().Get(claims, "ns", name)
					if err != nil {
						t.Fatal(err)
					}
					if lost := len(got.(metav1.Object).GetFinalizers()) == 0; lost != want {
						t.Errorf("%s has lost its finalizer: %t, want %t", name, lost, want)
					}
				}
			})
		})
	}
}
