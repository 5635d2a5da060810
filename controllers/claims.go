// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/volume/pvcprotection"
)

// claimProtection takes the finalizer off deleted claims that no pod uses any more.
func claimProtection(ctx context.Context, e *environment) (func(context.Context), error) {
	client, err := kubernetes.NewForConfig(e.clientConfig("pvc-protection-controller"))
	if err != nil {
		return nil, err
	}
	claims := e.informers.Core().V1().PersistentVolumeClaims()
	pods := e.pods()
	c, err := pvcprotection.NewPVCProtectionController(klog.FromContext(ctx), claims, pods,
		&claimClient{Interface: client, claims: claims.Lister()})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

// claimClient is the client of the pvc-protection controller. It refuses to take the finalizer off
// a claim by a list of pods that was asked for before the claim was known to be deleted.
//
// Two reads settle whether a pod uses a claim. A kubelet starts a pod only if it has found, after
// the pod was bound to its node, that the claim isn't being deleted. The controller takes the
// finalizer off only if it has found, after the claim's deletion began, that no pod bound to a node
// uses it. Each writes before it reads. So if a pod and a deletion come at the same moment, one
// sees the other.
//
// But the controller saves lists: it looks at several claims of a namespace in turn, and lists the
// pods once, at the first of them. A claim that is deleted after that, while it waits for its turn,
// would be judged by an older list. The controller's cache of pods, which it asks first, is mostly
// newer, but its watch may be behind that of claims. A refused claim comes up again, in a turn with
// its own list.
//
// It works for a single worker only: the last list belongs to the next update.
type claimClient struct {
	kubernetes.Interface
	claims corev1listers.PersistentVolumeClaimLister
	// deleted holds the claims that were known to be deleted before their namespace's pods were last
	// listed.
	deleted sets.Set[types.UID]
}

func (c *claimClient) CoreV1() corev1client.CoreV1Interface {
	return claimCoreClient{c.Interface.CoreV1(), c}
}

type claimCoreClient struct {
	corev1client.CoreV1Interface
	client *claimClient
}

func (c claimCoreClient) Pods(namespace string) corev1client.PodInterface {
	return podLister{c.CoreV1Interface.Pods(namespace), c.client, namespace}
}

func (c claimCoreClient) PersistentVolumeClaims(namespace string) corev1client.PersistentVolumeClaimInterface {
	return claimUpdater{c.CoreV1Interface.PersistentVolumeClaims(namespace), c.client}
}

type podLister struct {
	corev1client.PodInterface
	client    *claimClient
	namespace string
}

func (p podLister) List(ctx context.Context, o metav1.ListOptions) (*corev1.PodList, error) {
	claims, err := p.client.claims.PersistentVolumeClaims(p.namespace).List(labels.Everything())
	if err != nil {
		return nil, err
	}
	p.client.deleted = sets.New[types.UID]()
	for _, claim := range claims {
		if claim.DeletionTimestamp != nil {
			p.client.deleted.Insert(claim.UID)
		}
	}
	return p.PodInterface.List(ctx, o)
}

type claimUpdater struct {
	corev1client.PersistentVolumeClaimInterface
	client *claimClient
}

// Update refuses to take the finalizer off a claim with a list of pods from before its deletion.
func (u claimUpdater) Update(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	o metav1.UpdateOptions) (*corev1.PersistentVolumeClaim, error) {
	if claim.DeletionTimestamp != nil && !u.client.deleted.Has(claim.UID) {
		return nil, apierrors.NewConflict(corev1.Resource("persistentvolumeclaims"), claim.Name,
			errors.New("the pods that may use it were listed before it was deleted"))
	}
	return u.PersistentVolumeClaimInterface.Update(ctx, claim, o)
}
