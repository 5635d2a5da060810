// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package node

import (
	"context"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	volumehelpers "k8s.io/component-helpers/storage/volume"
)

// provisioner is the provisioner of the default StorageClass.
const provisioner = "example.com/hack-conformance"

// createStorageClass creates the default StorageClass.
func (n *Node) createStorageClass(ctx context.Context) error {
	_, err := n.client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "standard",
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: provisioner,
	}, metav1.CreateOptions{})
	return err
}

// provision creates a volume for each claim of the default class, and deletes those whose claims are
// gone, until ctx ends. Nothing is ever written to them.
func (n *Node) provision(ctx context.Context) {
	n.all.Go(func() {
		n.watch(ctx, "persistentvolumeclaims", &corev1.PersistentVolumeClaim{}, func(object any) {
			claim := object.(*corev1.PersistentVolumeClaim)
			if claim.Spec.VolumeName == "" && claim.Annotations[volumehelpers.AnnStorageProvisioner] == provisioner {
				n.createVolume(ctx, claim)
			}
		})
	})
	n.all.Go(func() {
		n.watch(ctx, "persistentvolumes", &corev1.PersistentVolume{}, func(object any) {
			volume := object.(*corev1.PersistentVolume)
			if volume.Status.Phase != corev1.VolumeReleased || volume.DeletionTimestamp != nil ||
				volume.Annotations[volumehelpers.AnnDynamicallyProvisioned] != provisioner ||
				volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
				return
			}
			err := n.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				n.logf("deleting volume %s: %v", volume.Name, err)
			}
		})
	})
}

// watch calls a function for every new and changed object of a resource.
func (n *Node) watch(ctx context.Context, resource string, kind runtime.Object, changed func(object any)) {
	source := cache.NewListWatchFromClient(n.client.CoreV1().RESTClient(), resource, metav1.NamespaceAll,
		fields.Everything())
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: source, ObjectType: kind,
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, object any) { changed(object) }}})
	informer.RunWithContext(ctx)
}

// createVolume creates a volume for a claim. The volume's name is the claim's, so that there is one.
func (n *Node) createVolume(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
	name := "pvc-" + string(claim.UID)
	_, err := n.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{volumehelpers.AnnDynamicallyProvisioned: provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:      claim.Spec.AccessModes,
			VolumeMode:       claim.Spec.VolumeMode,
			StorageClassName: *claim.Spec.StorageClassName,
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace,
				Name: claim.Name, UID: claim.UID},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join("/volumes", name)}},
		},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
		n.logf("creating a volume for claim %s/%s: %v", claim.Namespace, claim.Name, err)
	}
}
