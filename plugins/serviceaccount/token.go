// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/storage/names"
)

const (
	// volumePrefix is the beginning of the names of token volumes.
	volumePrefix = "kube-api-access-"
	// tokenPath is where client libraries look for the token: rest.InClusterConfig of client-go,
	// for one.
	tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenSeconds is the lifetime of a token. A client that still uses the token afterwards
	// doesn't read the renewed one, and administrators should notice it. The API server recognizes
	// the tokens of these volumes by this very number, and lets them last longer:
	// WarnOnlyBoundTokenExpirationSeconds of k8s.io/kubernetes/pkg/serviceaccount.
	tokenSeconds = 60*60 + 7
	// rootCA is the ConfigMap in every namespace with the certificate by which pods trust the API
	// server. rootCAFile is the certificate's key in it, and its file.
	rootCA, rootCAFile = "kube-root-ca.crt", "ca.crt"
)

// wantsToken reports whether a pod gets a token: the pod decides or, if it doesn't, its account.
func wantsToken(pod *corev1.Pod, account *corev1.ServiceAccount) bool {
	switch {
	case pod.Spec.AutomountServiceAccountToken != nil:
		return *pod.Spec.AutomountServiceAccountToken
	case account.AutomountServiceAccountToken != nil:
		return *account.AutomountServiceAccountToken
	}
	return true
}

// mountToken mounts the token volume in all containers that have nothing at its path, and adds the
// volume if any container needs it. It uses a token volume that is there already, from an earlier
// run or in a copy of a pod.
func mountToken(spec *corev1.PodSpec) {
	volume, present := "", false
	for i := range spec.Volumes {
		if strings.HasPrefix(spec.Volumes[i].Name, volumePrefix) {
			volume, present = spec.Volumes[i].Name, true
			break
		}
	}
	mounted := false
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			if slices.ContainsFunc(c.VolumeMounts,
				func(m corev1.VolumeMount) bool { return m.MountPath == tokenPath }) {
				continue
			}
			if volume == "" {
				volume = names.SimpleNameGenerator.GenerateName(volumePrefix)
			}
			c.VolumeMounts = append(c.VolumeMounts,
				corev1.VolumeMount{Name: volume, ReadOnly: true, MountPath: tokenPath})
			mounted = true
		}
	}
	if mounted && !present {
		spec.Volumes = append(spec.Volumes,
			corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{Projected: tokenSource()}})
	}
}

// tokenSource returns the source of the token volume. Nearly every pod has one, so everything that
// it points to is allocated at once.
//
// Source: k8s.io/kubernetes/plugin/pkg/admission/serviceaccount#TokenVolumeSource 4532476c
func tokenSource() *corev1.ProjectedVolumeSource {
	parts := &struct {
		source    corev1.ProjectedVolumeSource
		mode      int32
		sources   [3]corev1.VolumeProjection
		token     corev1.ServiceAccountTokenProjection
		seconds   int64
		authority corev1.ConfigMapProjection
		key       [1]corev1.KeyToPath
		downward  corev1.DownwardAPIProjection
		file      [1]corev1.DownwardAPIVolumeFile
		field     corev1.ObjectFieldSelector
	}{
		mode:    corev1.ProjectedVolumeSourceDefaultMode,
		seconds: tokenSeconds,
		key:     [1]corev1.KeyToPath{{Key: rootCAFile, Path: rootCAFile}},
		field:   corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
	}
	parts.token = corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &parts.seconds}
	parts.authority = corev1.ConfigMapProjection{
		LocalObjectReference: corev1.LocalObjectReference{Name: rootCA}, Items: parts.key[:]}
	parts.file[0] = corev1.DownwardAPIVolumeFile{Path: "namespace", FieldRef: &parts.field}
	parts.downward.Items = parts.file[:]
	parts.sources = [3]corev1.VolumeProjection{
		{ServiceAccountToken: &parts.token}, {ConfigMap: &parts.authority}, {DownwardAPI: &parts.downward}}
	parts.source = corev1.ProjectedVolumeSource{DefaultMode: &parts.mode, Sources: parts.sources[:]}
	return &parts.source
}
