// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	corev1listers "k8s.io/client-go/listers/core/v1"
	storagev1listers "k8s.io/client-go/listers/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	csitrans "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/ready"
)

// admitToken lets a node have the tokens that its pods need. The API server itself checks that the
// account is the pod's.
func (p *nodeRestriction) admitToken(ctx context.Context, r request) error {
	if r.GetOperation() != admission.Create || r.GetSubresource() != "token" {
		return nil
	}
	asked, ok := r.GetObject().(*authenticationv1.TokenRequest)
	if !ok {
		return r.forbid("unexpected type %T", r.GetObject())
	}
	ref := asked.Spec.BoundObjectRef
	if ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "" {
		return r.forbid("node requested token not bound to a pod")
	}
	if ref.UID == "" {
		return r.forbid("node requested token with a pod binding without a uid")
	}
	pod, err := p.cluster.pod(ctx, r, ref.Name,
		func(pod *corev1.Pod) bool { return pod.UID == ref.UID && pod.Spec.NodeName == r.node })
	if err != nil {
		return err
	}
	if pod.UID != ref.UID {
		return r.forbid("the UID in the bound object reference (%s) does not match the UID in record. The object "+
			"might have been deleted and then recreated", ref.UID)
	}
	if pod.Spec.NodeName != r.node {
		return r.forbid("node requested token bound to a pod scheduled on a different node")
	}
	if p.audiences == nil {
		return nil
	}
	return p.admitAudience(ctx, r, asked.Spec.Audiences, pod)
}

// audiences limits the tokens that nodes request to the audiences that pods name.
type audiences struct {
	synced  ready.Gate
	claims  corev1listers.PersistentVolumeClaimLister
	volumes corev1listers.PersistentVolumeLister
	drivers storagev1listers.CSIDriverLister
	inTree  csitrans.CSITranslator
}

func newAudiences(env *plugin.Env) *audiences {
	core, drivers := env.Informers.Core().V1(), env.Informers.Storage().V1().CSIDrivers()
	return &audiences{
		synced: ready.After(core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer(),
			drivers.Informer()),
		claims:  core.PersistentVolumeClaims().Lister(),
		volumes: core.PersistentVolumes().Lister(),
		drivers: drivers.Lister(),
	}
}

// admitAudience refuses a token for an audience that no volume of the pod needs. It admits the token
// nevertheless if the node has the verb request-serviceaccounts-token-audience on the audience, as
// if that were a resource. A token without an audience is for the API server.
//
// Source: k8s.io/kubernetes/plugin/pkg/admission/noderestriction#Plugin.validateNodeServiceAccountAudience 0065397e
func (p *nodeRestriction) admitAudience(ctx context.Context, r request, asked []string, pod *corev1.Pod) error {
	audience := ""
	switch len(asked) {
	case 0:
	case 1:
		audience = asked[0]
	default:
		return r.forbid("node may only request 0 or 1 audiences")
	}
	if err := p.audiences.synced.Wait(ctx, r.Attributes); err != nil {
		return err
	}
	named, err := p.audiences.inPod(ctx, pod, audience)
	if err != nil {
		return r.forbid("error validating audience %q: %w", audience, err)
	}
	if named {
		return nil
	}
	allowed, err := p.allowed(ctx, r, "request-serviceaccounts-token-audience", audience, r.GetName())
	switch {
	case allowed:
		return nil
	case err != nil:
		return r.forbid("error authorizing %s to request tokens for audience %q: %w", r.GetUserInfo().GetName(), audience,
			err)
	}
	return r.forbid("%s is not authorized to request tokens for audience %q", r.GetUserInfo().GetName(), audience)
}

// inPod reports whether a volume of the pod needs tokens for an audience: a projected token, or a
// volume whose CSI driver requests them. A failed look-up is an error only if no other volume needs
// them.
func (u *audiences) inPod(ctx context.Context, pod *corev1.Pod, audience string) (bool, error) {
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if projects(v, audience) {
			return true, nil
		}
		driver, err := u.driverOf(ctx, pod, v)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if driver == "" {
			continue
		}
		wants, err := u.driverWants(driver, audience)
		if err != nil {
			errs = append(errs, err)
		}
		if wants {
			return true, nil
		}
	}
	return false, utilerrors.NewAggregate(errs)
}

func projects(v *corev1.Volume, audience string) bool {
	if v.Projected == nil {
		return false
	}
	for i := range v.Projected.Sources {
		if token := v.Projected.Sources[i].ServiceAccountToken; token != nil && token.Audience == audience {
			return true
		}
	}
	return false
}

// driverOf returns the CSI driver that mounts a volume of the pod, empty if none does. Volumes that
// Kubernetes itself mounted before there were CSI drivers have a driver, too.
func (u *audiences) driverOf(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (string, error) {
	switch {
	case v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		return u.driverOfClaim(ctx, pod.Namespace, ephemeral.VolumeClaimName(pod, v))
	case v.PersistentVolumeClaim != nil:
		return u.driverOfClaim(ctx, pod.Namespace, v.PersistentVolumeClaim.ClaimName)
	case v.CSI != nil:
		return v.CSI.Driver, nil
	case u.inTree.IsInlineMigratable(v):
		volume, err := u.inTree.TranslateInTreeInlineVolumeToCSI(klog.FromContext(ctx), v, pod.Namespace)
		return driverOfVolume(volume), err
	}
	return "", nil
}

func (u *audiences) driverOfClaim(ctx context.Context, namespace, name string) (string, error) {
	claim, err := u.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return "", err
	}
	if claim.Spec.VolumeName == "" {
		return "", fmt.Errorf("persistentvolumeclaim %q is not bound", name)
	}
	volume, err := u.volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return "", err
	}
	if volume.Spec.CSI == nil && u.inTree.IsPVMigratable(volume) {
		volume, err = u.inTree.TranslateInTreePVToCSI(klog.FromContext(ctx), volume)
	}
	return driverOfVolume(volume), err
}

func driverOfVolume(volume *corev1.PersistentVolume) string {
	if volume == nil || volume.Spec.CSI == nil {
		return ""
	}
	return volume.Spec.CSI.Driver
}

// driverWants reports whether a CSI driver requests tokens for an audience.
func (u *audiences) driverWants(name, audience string) (bool, error) {
	driver, err := u.drivers.Get(name)
	if err != nil {
		return false, err
	}
	for _, token := range driver.Spec.TokenRequests {
		if token.Audience == audience {
			return true, nil
		}
	}
	return false, nil
}
