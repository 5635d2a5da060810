// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of a PodSecurityPolicy for restrictions that had no field when the kind was made.
const (
	// SeccompDefaultProfileAnnotation names the seccomp profile of pods that name none.
	SeccompDefaultProfileAnnotation = "seccomp.security.alpha.kubernetes.io/defaultProfileName"
	// SeccompAllowedProfilesAnnotation lists the seccomp profiles that pods may name, separated by
	// commas; "*" is any.
	SeccompAllowedProfilesAnnotation = "seccomp.security.alpha.kubernetes.io/allowedProfileNames"
	// AppArmorDefaultProfileAnnotation names the AppArmor profile of containers that name none.
	AppArmorDefaultProfileAnnotation = "apparmor.security.beta.kubernetes.io/defaultProfileName"
	// AppArmorAllowedProfilesAnnotation lists the AppArmor profiles that containers may name,
	// separated by commas.
	AppArmorAllowedProfilesAnnotation = "apparmor.security.beta.kubernetes.io/allowedProfileNames"
)

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PodSecurityPolicy says which security settings pods may have, and sets defaults for pods that have
// none. It applies to a pod if the pod's creator or service account may use it, which is the verb
// use of RBAC.
type PodSecurityPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata. More info:
	// https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what the policy allows, and which defaults it sets.
	// +optional
	Spec PodSecurityPolicySpec `json:"spec,omitempty"`
}

// PodSecurityPolicySpec says what the policy allows, and which defaults it sets.
type PodSecurityPolicySpec struct {
	// privileged allows privileged containers.
	// +optional
	Privileged bool `json:"privileged,omitempty"`
	// defaultAddCapabilities are added to every container that doesn't drop them itself. They are
	// allowed without being in allowedCapabilities, and must not be in requiredDropCapabilities.
	// +optional
	// +listType=atomic
	DefaultAddCapabilities []corev1.Capability `json:"defaultAddCapabilities,omitempty"`
	// requiredDropCapabilities are dropped from every container, and can't be added.
	// +optional
	// +listType=atomic
	RequiredDropCapabilities []corev1.Capability `json:"requiredDropCapabilities,omitempty"`
	// allowedCapabilities are the capabilities that containers may add; '*' stands for any. They
	// must not be in requiredDropCapabilities.
	// +optional
	// +listType=atomic
	AllowedCapabilities []corev1.Capability `json:"allowedCapabilities,omitempty"`
	// volumes are the types of volumes that pods may have. '*' stands for any type; an empty list
	// allows none.
	// +optional
	// +listType=atomic
	Volumes []FSType `json:"volumes,omitempty"`
	// hostNetwork allows pods in the network of their node.
	// +optional
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// hostPorts are the ranges of ports that containers may have on their node. An empty list allows
	// none.
	// +optional
	// +listType=atomic
	HostPorts []HostPortRange `json:"hostPorts,omitempty"`
	// hostPID allows pods in the process namespace of their node.
	// +optional
	HostPID bool `json:"hostPID,omitempty"`
	// hostIPC allows pods in the IPC namespace of their node.
	// +optional
	HostIPC bool `json:"hostIPC,omitempty"`
	// seLinux says which SELinux labels pods and containers may have.
	SELinux SELinuxStrategyOptions `json:"seLinux"`
	// runAsUser says which users containers may run as.
	RunAsUser RunAsUserStrategyOptions `json:"runAsUser"`
	// runAsGroup says which groups containers may run as. Without it they may run as any.
	// +optional
	RunAsGroup *RunAsGroupStrategyOptions `json:"runAsGroup,omitempty"`
	// supplementalGroups says which supplemental groups pods may have.
	SupplementalGroups SupplementalGroupsStrategyOptions `json:"supplementalGroups"`
	// fsGroup says which group the volumes of pods may belong to.
	FSGroup FSGroupStrategyOptions `json:"fsGroup"`
	// readOnlyRootFilesystem makes the root file system of every container read-only, and forbids
	// containers that set readOnlyRootFilesystem to false.
	// +optional
	ReadOnlyRootFilesystem bool `json:"readOnlyRootFilesystem,omitempty"`
	// defaultAllowPrivilegeEscalation is the default for containers that don't say whether a process
	// may gain more privileges than its parent.
	// +optional
	DefaultAllowPrivilegeEscalation *bool `json:"defaultAllowPrivilegeEscalation,omitempty"`
	// allowPrivilegeEscalation allows containers in which a process may gain more privileges than
	// its parent. Defaults to true.
	// +optional
	AllowPrivilegeEscalation *bool `json:"allowPrivilegeEscalation,omitempty"`
	// allowedHostPaths are the paths that volumes of type hostPath may have. An empty list allows
	// any path. The field volumes must allow the type itself.
	// +optional
	// +listType=atomic
	AllowedHostPaths []AllowedHostPath `json:"allowedHostPaths,omitempty"`
	// allowedFlexVolumes are the drivers that volumes of type flexVolume may have. An empty list
	// allows any driver. The field volumes must allow the type itself.
	// +optional
	// +listType=atomic
	AllowedFlexVolumes []AllowedFlexVolume `json:"allowedFlexVolumes,omitempty"`
	// allowedCSIDrivers are the drivers that inline volumes of type csi may have. An empty list
	// allows any driver. The field volumes must allow the type itself.
	// +optional
	// +listType=atomic
	AllowedCSIDrivers []AllowedCSIDriver `json:"allowedCSIDrivers,omitempty"`
	// allowedUnsafeSysctls are the sysctls that pods may set besides the safe ones. A name that ends
	// in '*' is a prefix: 'kernel.shm*' allows 'kernel.shmmax', and '*' allows any. Kubelets have a
	// list of their own.
	// +optional
	// +listType=atomic
	AllowedUnsafeSysctls []string `json:"allowedUnsafeSysctls,omitempty"`
	// forbiddenSysctls are the sysctls that pods must not set, even if they are safe. A name that
	// ends in '*' is a prefix.
	// +optional
	// +listType=atomic
	ForbiddenSysctls []string `json:"forbiddenSysctls,omitempty"`
	// allowedProcMountTypes are the types of /proc mounts that containers may have. An empty list
	// allows only Default.
	// +optional
	// +listType=atomic
	AllowedProcMountTypes []corev1.ProcMountType `json:"allowedProcMountTypes,omitempty"`
	// runtimeClass says which runtime classes pods may have. Without it they may have any.
	// +optional
	RuntimeClass *RuntimeClassStrategyOptions `json:"runtimeClass,omitempty"`
}

// AllowedHostPath is a path on nodes, with everything below it.
type AllowedHostPath struct {
	// pathPrefix is the path. '/foo' allows '/foo', '/foo/' and '/foo/bar', but neither '/food' nor
	// '/etc/foo'.
	// +optional
	PathPrefix string `json:"pathPrefix,omitempty"`

	// readOnly allows the path only if every mount of the volume is read-only.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
}

// AllowAllCapabilities is the capability in allowedCapabilities that stands for any.
const AllowAllCapabilities corev1.Capability = "*"

// FSType is a type of volumes. It has the name of its field in a volume, except that cephfs is
// written cephFS.
type FSType string

// The types of volumes.
const (
	AzureFile             FSType = "azureFile"
	Flocker               FSType = "flocker"
	FlexVolume            FSType = "flexVolume"
	HostPath              FSType = "hostPath"
	EmptyDir              FSType = "emptyDir"
	GCEPersistentDisk     FSType = "gcePersistentDisk"
	AWSElasticBlockStore  FSType = "awsElasticBlockStore"
	GitRepo               FSType = "gitRepo"
	Secret                FSType = "secret"
	NFS                   FSType = "nfs"
	ISCSI                 FSType = "iscsi"
	Glusterfs             FSType = "glusterfs"
	PersistentVolumeClaim FSType = "persistentVolumeClaim"
	RBD                   FSType = "rbd"
	Cinder                FSType = "cinder"
	CephFS                FSType = "cephFS"
	DownwardAPI           FSType = "downwardAPI"
	FC                    FSType = "fc"
	ConfigMap             FSType = "configMap"
	VsphereVolume         FSType = "vsphereVolume"
	Quobyte               FSType = "quobyte"
	AzureDisk             FSType = "azureDisk"
	PhotonPersistentDisk  FSType = "photonPersistentDisk"
	StorageOS             FSType = "storageos"
	Projected             FSType = "projected"
	PortworxVolume        FSType = "portworxVolume"
	ScaleIO               FSType = "scaleIO"
	CSI                   FSType = "csi"
	Ephemeral             FSType = "ephemeral"
	// Image is newer than the kind: Kubernetes 1.24 had no such volumes.
	Image FSType = "image"
	// All stands for any type.
	All FSType = "*"
)

// AllowedFlexVolume is a driver of flexVolumes.
type AllowedFlexVolume struct {
	// driver is the driver's name.
	Driver string `json:"driver"`
}

// AllowedCSIDriver is a driver of inline CSI volumes.
type AllowedCSIDriver struct {
	// name is the driver's name.
	Name string `json:"name"`
}

// HostPortRange is a range of ports of nodes, both ends included.
type HostPortRange struct {
	// min is the first port of the range.
	Min int32 `json:"min"`
	// max is the last port of the range.
	Max int32 `json:"max"`
}

// SELinuxStrategyOptions says which SELinux labels pods and containers may have.
type SELinuxStrategyOptions struct {
	// rule is MustRunAs or RunAsAny.
	Rule SELinuxStrategy `json:"rule"`
	// seLinuxOptions are the labels that MustRunAs requires.
	// +optional
	SELinuxOptions *corev1.SELinuxOptions `json:"seLinuxOptions,omitempty"`
}

// SELinuxStrategy is a rule for SELinux labels.
type SELinuxStrategy string

const (
	// SELinuxStrategyMustRunAs requires the labels of seLinuxOptions, and gives them to pods that
	// have none.
	SELinuxStrategyMustRunAs SELinuxStrategy = "MustRunAs"
	// SELinuxStrategyRunAsAny allows any labels.
	SELinuxStrategyRunAsAny SELinuxStrategy = "RunAsAny"
)

// RunAsUserStrategyOptions says which users containers may run as.
type RunAsUserStrategyOptions struct {
	// rule is MustRunAs, MustRunAsNonRoot or RunAsAny.
	Rule RunAsUserStrategy `json:"rule"`
	// ranges are the user IDs that MustRunAs allows. For a single ID, min and max are the same.
	// +optional
	// +listType=atomic
	Ranges []IDRange `json:"ranges,omitempty"`
}

// RunAsGroupStrategyOptions says which groups containers may run as.
type RunAsGroupStrategyOptions struct {
	// rule is MustRunAs, MayRunAs or RunAsAny.
	Rule RunAsGroupStrategy `json:"rule"`
	// ranges are the group IDs that MustRunAs and MayRunAs allow. For a single ID, min and max are
	// the same.
	// +optional
	// +listType=atomic
	Ranges []IDRange `json:"ranges,omitempty"`
}

// IDRange is a range of user or group IDs, both ends included.
type IDRange struct {
	// min is the first ID of the range.
	Min int64 `json:"min"`
	// max is the last ID of the range.
	Max int64 `json:"max"`
}

// RunAsUserStrategy is a rule for users.
type RunAsUserStrategy string

const (
	// RunAsUserStrategyMustRunAs requires a user of the ranges, and gives the first to containers
	// that have none.
	RunAsUserStrategyMustRunAs RunAsUserStrategy = "MustRunAs"
	// RunAsUserStrategyMustRunAsNonRoot requires a user other than root. If the pod doesn't say
	// which, the kubelet checks the image's user when it starts the container.
	RunAsUserStrategyMustRunAsNonRoot RunAsUserStrategy = "MustRunAsNonRoot"
	// RunAsUserStrategyRunAsAny allows any user.
	RunAsUserStrategyRunAsAny RunAsUserStrategy = "RunAsAny"
)

// RunAsGroupStrategy is a rule for primary groups.
type RunAsGroupStrategy string

const (
	// RunAsGroupStrategyMayRunAs allows groups of the ranges, and containers that have none.
	RunAsGroupStrategyMayRunAs RunAsGroupStrategy = "MayRunAs"
	// RunAsGroupStrategyMustRunAs requires a group of the ranges, and gives the first to containers
	// that have none.
	RunAsGroupStrategyMustRunAs RunAsGroupStrategy = "MustRunAs"
	// RunAsGroupStrategyRunAsAny allows any group.
	RunAsGroupStrategyRunAsAny RunAsGroupStrategy = "RunAsAny"
)

// FSGroupStrategyOptions says which group the volumes of pods may belong to.
type FSGroupStrategyOptions struct {
	// rule is MustRunAs, MayRunAs or RunAsAny.
	// +optional
	Rule FSGroupStrategyType `json:"rule,omitempty"`
	// ranges are the group IDs that MustRunAs and MayRunAs allow. For a single ID, min and max are
	// the same.
	// +optional
	// +listType=atomic
	Ranges []IDRange `json:"ranges,omitempty"`
}

// FSGroupStrategyType is a rule for the group of volumes.
type FSGroupStrategyType string

const (
	// FSGroupStrategyMayRunAs allows groups of the ranges, and pods that have none.
	FSGroupStrategyMayRunAs FSGroupStrategyType = "MayRunAs"
	// FSGroupStrategyMustRunAs requires a group of the ranges, and gives the first to pods that
	// have none.
	FSGroupStrategyMustRunAs FSGroupStrategyType = "MustRunAs"
	// FSGroupStrategyRunAsAny allows any group.
	FSGroupStrategyRunAsAny FSGroupStrategyType = "RunAsAny"
)

// SupplementalGroupsStrategyOptions says which supplemental groups pods may have.
type SupplementalGroupsStrategyOptions struct {
	// rule is MustRunAs, MayRunAs or RunAsAny.
	// +optional
	Rule SupplementalGroupsStrategyType `json:"rule,omitempty"`
	// ranges are the group IDs that MustRunAs and MayRunAs allow. For a single ID, min and max are
	// the same.
	// +optional
	// +listType=atomic
	Ranges []IDRange `json:"ranges,omitempty"`
}

// SupplementalGroupsStrategyType is a rule for supplemental groups.
type SupplementalGroupsStrategyType string

const (
	// SupplementalGroupsStrategyMayRunAs allows groups of the ranges, and pods that have none.
	SupplementalGroupsStrategyMayRunAs SupplementalGroupsStrategyType = "MayRunAs"
	// SupplementalGroupsStrategyMustRunAs requires groups of the ranges, and gives the first to
	// pods that have none.
	SupplementalGroupsStrategyMustRunAs SupplementalGroupsStrategyType = "MustRunAs"
	// SupplementalGroupsStrategyRunAsAny allows any groups.
	SupplementalGroupsStrategyRunAsAny SupplementalGroupsStrategyType = "RunAsAny"
)

// RuntimeClassStrategyOptions says which runtime classes pods may have.
type RuntimeClassStrategyOptions struct {
	// allowedRuntimeClassNames are the names that pods may have as runtimeClassName. '*' stands for
	// any, and must be alone in the list. An empty list allows none.
	// +listType=atomic
	AllowedRuntimeClassNames []string `json:"allowedRuntimeClassNames"`
	// defaultRuntimeClassName is the default for pods that have no runtimeClassName. It must be
	// allowed.
	// +optional
	DefaultRuntimeClassName *string `json:"defaultRuntimeClassName,omitempty"`
}

// AllowAllRuntimeClassNames is the name in allowedRuntimeClassNames that stands for any.
const AllowAllRuntimeClassNames = "*"

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// PodSecurityPolicyList is a list of PodSecurityPolicies.
type PodSecurityPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata. More info:
	// https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the PodSecurityPolicies.
	Items []PodSecurityPolicy `json:"items"`
}
