// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/plugin/podspec"
	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
)

var volumesPath = field.NewPath("spec", "volumes")

// checkVolumes checks the types of a pod's volumes, and host paths and drivers.
func (p *policy) checkVolumes(pod *corev1.Pod, found *reasons) {
	for i := range pod.Spec.Volumes {
		volume, path := &pod.Spec.Volumes[i], volumesPath.Index(i)
		of := volumeType(&volume.VolumeSource)
		switch {
		case of == "":
			found.add(field.Invalid(path, volume.Name, "unknown volume type"))
			continue
		case !p.allowsVolume(of, volume):
			found.add(field.Invalid(path, string(of), fmt.Sprintf("%s volumes are not allowed to be used", of)))
			continue
		}
		switch of {
		case policyv1beta1.HostPath:
			p.checkHostPath(pod, volume, path, found)
		case policyv1beta1.FlexVolume:
			if drivers := p.spec.AllowedFlexVolumes; len(drivers) > 0 &&
				!slices.Contains(drivers, policyv1beta1.AllowedFlexVolume{Driver: volume.FlexVolume.Driver}) {
				found.add(field.Invalid(path.Child("driver"), volume.FlexVolume.Driver,
					"Flexvolume driver is not allowed to be used"))
			}
		case policyv1beta1.CSI:
			if drivers := p.spec.AllowedCSIDrivers; len(drivers) > 0 &&
				!slices.Contains(drivers, policyv1beta1.AllowedCSIDriver{Name: volume.CSI.Driver}) {
				found.add(field.Invalid(path.Child("csi", "driver"), volume.CSI.Driver,
					"Inline CSI driver is not allowed to be used"))
			}
		}
	}
}

// allowsVolume reports whether the volume's type is allowed. If secrets are, so is the volume with
// the service account's token that every pod gets: while tokens were secrets, policies needed to
// allow only secrets for it.
func (p *policy) allowsVolume(of policyv1beta1.FSType, volume *corev1.Volume) bool {
	return slices.Contains(p.spec.Volumes, of) || slices.Contains(p.spec.Volumes, policyv1beta1.All) ||
		of == policyv1beta1.Projected && slices.Contains(p.spec.Volumes, policyv1beta1.Secret) &&
			isAccountToken(volume.Projected)
}

// isAccountToken reports whether a projected volume has only what the plugin ServiceAccount puts
// into one.
func isAccountToken(volume *corev1.ProjectedVolumeSource) bool {
	for _, source := range volume.Sources {
		switch {
		case source.ServiceAccountToken == nil && source.ConfigMap == nil && source.DownwardAPI == nil:
			return false
		case source.ServiceAccountToken != nil &&
			(source.ServiceAccountToken.Path != "token" || source.ServiceAccountToken.Audience != ""):
			return false
		case source.ConfigMap != nil && source.ConfigMap.Name != "kube-root-ca.crt":
			return false
		case source.DownwardAPI != nil &&
			slices.ContainsFunc(source.DownwardAPI.Items, func(item corev1.DownwardAPIVolumeFile) bool {
				return item.Path != "namespace" || item.FieldRef == nil || item.FieldRef.APIVersion != "v1" ||
					item.FieldRef.FieldPath != "metadata.namespace"
			}):
			return false
		}
	}
	return true
}

// checkHostPath finds fault with a path that isn't allowed, and with writable mounts of a path that
// is allowed only for reading.
func (p *policy) checkHostPath(pod *corev1.Pod, volume *corev1.Volume, path *field.Path, found *reasons) {
	allowed, onlyReading := p.allowsHostPath(volume.HostPath.Path)
	if !allowed {
		found.add(field.Invalid(path.Child("hostPath", "pathPrefix"), volume.HostPath.Path,
			"is not allowed to be used"))
		return
	}
	if !onlyReading {
		return
	}
	for position, c := range podspec.All(&pod.Spec) {
		for i, mount := range c.VolumeMounts {
			if mount.Name == volume.Name && !mount.ReadOnly {
				found.add(field.Invalid(place(position).container().Child("volumeMounts").Index(i).Child("readOnly"),
					false, "must be read-only"))
			}
		}
	}
}

func (p *policy) allowsHostPath(path string) (allowed, onlyReading bool) {
	if len(p.spec.AllowedHostPaths) == 0 {
		return true, false
	}
	for _, prefix := range p.spec.AllowedHostPaths {
		if isBelow(path, prefix.PathPrefix) {
			if !prefix.ReadOnly {
				return true, false
			}
			allowed = true
		}
	}
	return allowed, allowed
}

// isBelow reports whether path is prefix, or a path below it. (It ignores "..", which isn't valid
// in a pod.)
func isBelow(path, prefix string) bool {
	path, prefix = strings.TrimSuffix(path, "/"), strings.TrimSuffix(prefix, "/")
	rest, ok := strings.CutPrefix(path, prefix)
	return ok && (rest == "" || rest[0] == '/')
}

// volumeType returns the type of a volume, "" if it isn't known.
func volumeType(source *corev1.VolumeSource) policyv1beta1.FSType {
	for _, of := range []struct {
		name policyv1beta1.FSType
		set  bool
	}{
		{policyv1beta1.HostPath, source.HostPath != nil},
		{policyv1beta1.EmptyDir, source.EmptyDir != nil},
		{policyv1beta1.Secret, source.Secret != nil},
		{policyv1beta1.ConfigMap, source.ConfigMap != nil},
		{policyv1beta1.Projected, source.Projected != nil},
		{policyv1beta1.DownwardAPI, source.DownwardAPI != nil},
		{policyv1beta1.PersistentVolumeClaim, source.PersistentVolumeClaim != nil},
		{policyv1beta1.Ephemeral, source.Ephemeral != nil},
		{policyv1beta1.CSI, source.CSI != nil},
		{policyv1beta1.Image, source.Image != nil},
		{policyv1beta1.FlexVolume, source.FlexVolume != nil},
		{policyv1beta1.NFS, source.NFS != nil},
		{policyv1beta1.ISCSI, source.ISCSI != nil},
		{policyv1beta1.FC, source.FC != nil},
		{policyv1beta1.RBD, source.RBD != nil},
		{policyv1beta1.CephFS, source.CephFS != nil},
		{policyv1beta1.Cinder, source.Cinder != nil},
		{policyv1beta1.Glusterfs, source.Glusterfs != nil},
		{policyv1beta1.Flocker, source.Flocker != nil},
		{policyv1beta1.GitRepo, source.GitRepo != nil},
		{policyv1beta1.GCEPersistentDisk, source.GCEPersistentDisk != nil},
		{policyv1beta1.AWSElasticBlockStore, source.AWSElasticBlockStore != nil},
		{policyv1beta1.AzureFile, source.AzureFile != nil},
		{policyv1beta1.AzureDisk, source.AzureDisk != nil},
		{policyv1beta1.VsphereVolume, source.VsphereVolume != nil},
		{policyv1beta1.PhotonPersistentDisk, source.PhotonPersistentDisk != nil},
		{policyv1beta1.PortworxVolume, source.PortworxVolume != nil},
		{policyv1beta1.Quobyte, source.Quobyte != nil},
		{policyv1beta1.ScaleIO, source.ScaleIO != nil},
		{policyv1beta1.StorageOS, source.StorageOS != nil},
	} {
		if of.set {
			return of.name
		}
	}
	return ""
}
