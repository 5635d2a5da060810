// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PodPreset adds environment variables, volumes and mounts to pods of its namespace when they are
// created.
type PodPreset struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata. More info:
	// https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec selects pods, and says what is added to them.
	// +optional
	Spec PodPresetSpec `json:"spec,omitempty"`
}

// PodPresetSpec selects pods, and says what is added to them. At least one of env, envFrom, volumes
// and volumeMounts is needed.
type PodPresetSpec struct {
	// selector selects pods by their labels. An empty one selects every pod of the namespace.
	// +optional
	Selector metav1.LabelSelector `json:"selector,omitempty"`
	// env are the environment variables that are added to every container and init container of the pod.
	// +optional
	// +listType=atomic
	Env []corev1.EnvVar `json:"env,omitempty"`
	// envFrom are the sources of environment variables that are added to every container and init
	// container of the pod.
	// +optional
	// +listType=atomic
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`
	// volumes are added to the pod.
	// +optional
	// +listType=atomic
	Volumes []corev1.Volume `json:"volumes,omitempty"`
	// volumeMounts are mounts of this preset's volumes. They are added to every container and init
	// container of the pod.
	// +optional
	// +listType=atomic
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PodPresetList is a list of PodPresets.
type PodPresetList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata. More info:
	// https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the PodPresets.
	Items []PodPreset `json:"items"`
}
