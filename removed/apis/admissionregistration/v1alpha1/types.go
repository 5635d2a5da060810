// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// InitializerConfiguration says which new objects wait for which initializers.
type InitializerConfiguration struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata. More info:
	// https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// initializers are in the order in which objects wait for them. If there are several
	// configurations, their initializers follow one another in the order of the configurations'
	// names.
	// +optional
	// +patchMergeKey=name
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=name
	Initializers []Initializer `json:"initializers,omitempty" patchStrategy:"merge" patchMergeKey:"name"`
}

// Initializer names a client that works on new objects before others see them, and the objects that
// wait for it.
type Initializer struct {
	// name is in the list of each object that waits for the initializer. It is a domain name of
	// three parts or more, for example podimage.example.com.
	Name string `json:"name"`
	// rules select the resources whose objects wait for the initializer. An object waits if one of
	// the rules has its resource.
	// +optional
	// +listType=atomic
	Rules []Rule `json:"rules,omitempty"`
}

// Rule is a set of resources: every combination of its groups, versions and resources.
type Rule struct {
	// apiGroups are API groups; the core group is "". "*" stands for all, and must be alone in the
	// list.
	// +optional
	// +listType=atomic
	APIGroups []string `json:"apiGroups,omitempty"`
	// apiVersions are API versions. "*" stands for all, and must be alone in the list.
	// +optional
	// +listType=atomic
	APIVersions []string `json:"apiVersions,omitempty"`
	// resources are resources, without subresources. "*" stands for all, and must be alone in the
	// list.
	// +optional
	// +listType=atomic
	Resources []string `json:"resources,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// InitializerConfigurationList is a list of InitializerConfigurations.
type InitializerConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata. More info:
	// https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the InitializerConfigurations.
	Items []InitializerConfiguration `json:"items"`
}
