// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podrefs finds the other API objects that a pod refers to, for plugins that allow a pod
// some of them, or none, as for mirror pods. It doesn't follow references of these objects, such as
// the secret of a claim's volume.
package podrefs

import (
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/plugin/podspec"
)

// InContainer returns the names of the Secrets in a container's environment. With each comes its
// place, as messages have it: "envFrom", or "envVar" and the variable's name.
func InContainer(c *corev1.Container) iter.Seq2[string, string] {
	return func(yield func(secret, where string) bool) {
		for i := range c.EnvFrom {
			if ref := c.EnvFrom[i].SecretRef; ref != nil && !yield(ref.Name, "envFrom") {
				return
			}
		}
		for i := range c.Env {
			from := c.Env[i].ValueFrom
			if from != nil && from.SecretKeyRef != nil && !yield(from.SecretKeyRef.Name, "envVar "+c.Env[i].Name) {
				return
			}
		}
	}
}

// InVolume returns the names of the Secrets that a volume is made of or mounted with. With each
// comes the field of the volume that names it.
func InVolume(v *corev1.Volume) iter.Seq2[string, string] {
	return func(yield func(secret, field string) bool) {
		if v.Projected != nil {
			for i := range v.Projected.Sources {
				if s := v.Projected.Sources[i].Secret; s != nil &&
					!yield(s.Name, fmt.Sprintf("projected.sources[%d].secret.name", i)) {
					return
				}
			}
			return
		}
		if field, secret := secretOf(&v.VolumeSource); field != "" {
			yield(secret, field)
		}
	}
}

// secretOf returns the one Secret that a source other than a projected one names, and the field
// that names it.
func secretOf(source *corev1.VolumeSource) (field, secret string) {
	local := func(field string, ref *corev1.LocalObjectReference) (string, string) {
		if ref == nil {
			return "", ""
		}
		return field, ref.Name
	}
	switch s := source; {
	case s.Secret != nil:
		return "secret.secretName", s.Secret.SecretName
	case s.AzureFile != nil:
		return "azureFile.secretName", s.AzureFile.SecretName
	case s.CephFS != nil:
		return local("cephfs.secretRef.name", s.CephFS.SecretRef)
	case s.Cinder != nil:
		return local("cinder.secretRef.name", s.Cinder.SecretRef)
	case s.FlexVolume != nil:
		return local("flexVolume.secretRef.name", s.FlexVolume.SecretRef)
	case s.RBD != nil:
		return local("rbd.secretRef.name", s.RBD.SecretRef)
	case s.ScaleIO != nil:
		return local("scaleIO.secretRef.name", s.ScaleIO.SecretRef)
	case s.ISCSI != nil:
		return local("iscsi.secretRef.name", s.ISCSI.SecretRef)
	case s.StorageOS != nil:
		return local("storageos.secretRef.name", s.StorageOS.SecretRef)
	case s.CSI != nil:
		return local("csi.nodePublishSecretRef.name", s.CSI.NodePublishSecretRef)
	}
	return "", ""
}

// UsesSecrets reports whether a pod names any Secret.
func UsesSecrets(spec *corev1.PodSpec) bool {
	for _, ref := range spec.ImagePullSecrets {
		if ref.Name != "" {
			return true
		}
	}
	for _, c := range podspec.All(spec) {
		for secret := range InContainer(c) {
			if secret != "" {
				return true
			}
		}
	}
	for i := range spec.Volumes {
		for secret := range InVolume(&spec.Volumes[i]) {
			if secret != "" {
				return true
			}
		}
	}
	return false
}

// First returns the resource of an API object that a pod needs on its node, such as "configmaps",
// and how it gets there if that isn't obvious. It returns "" if the pod needs none. A volume whose
// source this package doesn't know is an error, because it may need any object.
//
// The words are upstream's: HasAPIObjectReference in k8s.io/kubernetes/pkg/api/pod/util.go.
func First(spec *corev1.PodSpec) (resource string, err error) {
	switch {
	case spec.ServiceAccountName != "":
		return "serviceaccounts", nil
	case UsesSecrets(spec):
		return "secrets", nil
	case usesConfigMaps(spec):
		return "configmaps", nil
	case len(spec.ResourceClaims) > 0:
		return "resourceclaims", nil
	}
	for i := range spec.Volumes {
		if resource, err := inVolume(&spec.Volumes[i]); resource != "" || err != nil {
			return resource, err
		}
	}
	return "", nil
}

// usesConfigMaps reports whether a pod names any ConfigMap in containers or volumes.
func usesConfigMaps(spec *corev1.PodSpec) bool {
	for _, c := range podspec.All(spec) {
		for i := range c.EnvFrom {
			if ref := c.EnvFrom[i].ConfigMapRef; ref != nil && ref.Name != "" {
				return true
			}
		}
		for i := range c.Env {
			if from := c.Env[i].ValueFrom; from != nil && from.ConfigMapKeyRef != nil &&
				from.ConfigMapKeyRef.Name != "" {
				return true
			}
		}
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if v.ConfigMap != nil && v.ConfigMap.Name != "" {
			return true
		}
		if v.Projected == nil {
			continue
		}
		for j := range v.Projected.Sources {
			if ref := v.Projected.Sources[j].ConfigMap; ref != nil && ref.Name != "" {
				return true
			}
		}
	}
	return false
}

// inVolume does the same as First for one volume. A source counts even if it doesn't name the
// object.
func inVolume(v *corev1.Volume) (resource string, err error) {
	switch {
	case v.AWSElasticBlockStore != nil, v.AzureDisk != nil, v.CephFS != nil, v.Cinder != nil, v.DownwardAPI != nil,
		v.EmptyDir != nil,
		v.FC != nil, v.FlexVolume != nil, v.Flocker != nil, v.GCEPersistentDisk != nil, v.GitRepo != nil,
		v.HostPath != nil, v.Image != nil,
		v.ISCSI != nil, v.NFS != nil, v.PhotonPersistentDisk != nil, v.PortworxVolume != nil, v.Quobyte != nil,
		v.RBD != nil,
		v.ScaleIO != nil, v.StorageOS != nil, v.VsphereVolume != nil:
		return "", nil
	case v.ConfigMap != nil:
		return "configmaps (via configmap volumes)", nil
	case v.Secret != nil:
		return "secrets (via secret volumes)", nil
	case v.CSI != nil:
		return "csidrivers (via CSI volumes)", nil
	case v.Glusterfs != nil:
		return "endpoints (via glusterFS volumes)", nil
	case v.PersistentVolumeClaim != nil:
		return "persistentvolumeclaims", nil
	case v.Ephemeral != nil:
		return "persistentvolumeclaims (via ephemeral volumes)", nil
	case v.AzureFile != nil:
		return "secrets (via azureFile volumes)", nil
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if resource, known := inProjection(&v.Projected.Sources[i]); !known {
				return "", fmt.Errorf("unknown source for projected volume %q", v.Name)
			} else if resource != "" {
				return resource, nil
			}
		}
		return "", nil
	}
	return "", fmt.Errorf("unknown volume type for volume %q", v.Name)
}

// inProjection returns the resource of the object that one source of a projected volume needs, ""
// for none. known reports whether this package knows the source.
func inProjection(s *corev1.VolumeProjection) (resource string, known bool) {
	switch {
	case s.ConfigMap != nil:
		return "configmaps (via projected volumes)", true
	case s.Secret != nil:
		return "secrets (via projected volumes)", true
	case s.ServiceAccountToken != nil:
		return "serviceaccounts (via projected volumes)", true
	case s.ClusterTrustBundle != nil:
		return "clustertrustbundles", true
	case s.PodCertificate != nil:
		return "podcertificates", true
	}
	return "", s.DownwardAPI != nil
}
