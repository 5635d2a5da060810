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
// Whether a pod uses a claim is settled by two reads. A kubelet starts a pod only after it has
// found, when the pod was bound to its node, that the claim isn't being deleted. The controller
// takes the finalizer off only after it has found, when the claim was being deleted, that no pod
// bound to a node uses it. Each writes before it reads; so of a pod and a deletion at the same
// moment, one sees the other.
//
// But the controller spares itself lists: it looks at several claims of a namespace in turn, and
// lists the pods once, at the first of them. A claim that is deleted after that, while it waits for
// its turn, would be judged by a list from before. The controller's cache of pods, which it asks
// first, mostly knows better, but it is another watch than that of claims and may be behind. A
// refused claim comes up again, in a turn with a list of its own.
//
// It is for one worker: what the last list was for holds for the next update.
type claimClient struct {
	kubernetes.Interface
	claims corev1listers.PersistentVolumeClaimLister
	// deleted are the claims of the namespace whose pods were listed last that were known to be
	// deleted before.
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

// Update of a claim that is being deleted is how the controller takes the finalizer off.
func (u claimUpdater) Update(ctx context.Context, claim *corev1.PersistentVolumeClaim,
	o metav1.UpdateOptions) (*corev1.PersistentVolumeClaim, error) {
	if claim.DeletionTimestamp != nil && !u.client.deleted.Has(claim.UID) {
		return nil, apierrors.NewConflict(corev1.Resource("persistentvolumeclaims"), claim.Name,
			errors.New("the pods that may use it were listed before it was deleted"))
	}
	return u.PersistentVolumeClaimInterface.Update(ctx, claim, o)
}
