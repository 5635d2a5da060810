// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apimachineryvalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	api "k8s.io/kubernetes/pkg/apis/core"
	corev1internal "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"

	settingsv1alpha1 "gatehouse.dev/removed/apis/settings/v1alpha1"
)

func podPresetStore() *genericregistry.Store {
	resource := settingsv1alpha1.PodPresets.GroupResource()
	s := podPresetStrategy{newStrategy()}
	return &genericregistry.Store{
		NewFunc:                   func() runtime.Object { return &settingsv1alpha1.PodPreset{} },
		NewListFunc:               func() runtime.Object { return &settingsv1alpha1.PodPresetList{} },
		DefaultQualifiedResource:  resource,
		SingularQualifiedResource: settingsv1alpha1.SchemeGroupVersion.WithResource("podpreset").GroupResource(),
		CreateStrategy:            s,
		UpdateStrategy:            s,
		DeleteStrategy:            s,
		TableConvertor:            rest.NewDefaultTableConvertor(resource),
	}
}

type podPresetStrategy struct{ strategy }

func (podPresetStrategy) NamespaceScoped() bool { return true }

func (podPresetStrategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	obj.(*settingsv1alpha1.PodPreset).Generation = 1
}

// PrepareForUpdate counts what is changed. Kubernetes dropped changes of the spec without a word:
// there, an edit, or an apply of a changed manifest, said that it had succeeded and had done
// nothing.
func (podPresetStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	preset, stored := obj.(*settingsv1alpha1.PodPreset), old.(*settingsv1alpha1.PodPreset)
	preset.Generation = stored.Generation
	if !apiequality.Semantic.DeepEqual(preset.Spec, stored.Spec) {
		preset.Generation++
	}
}

// maxPresetName is the longest name that a new preset may have: pods get an annotation for each
// preset, podpreset-<name>, and that part of an annotation's key has 63 characters at most.
const maxPresetName = 63 - len("podpreset-")

func (podPresetStrategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	preset := obj.(*settingsv1alpha1.PodPreset)
	all := corevalidation.ValidateObjectMeta(&preset.ObjectMeta, true, apimachineryvalidation.NameIsDNSSubdomain,
		field.NewPath("metadata"))
	if len(preset.Name) > maxPresetName {
		all = append(all, field.TooLong(field.NewPath("metadata", "name"), preset.Name, maxPresetName))
	}
	return append(all, validatePodPresetSpec(&preset.Spec, field.NewPath("spec"))...)
}

func (podPresetStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	preset, stored := obj.(*settingsv1alpha1.PodPreset), old.(*settingsv1alpha1.PodPreset)
	all := corevalidation.ValidateObjectMetaUpdate(&preset.ObjectMeta, &stored.ObjectMeta, field.NewPath("metadata"))
	return append(all, validatePodPresetSpec(&preset.Spec, field.NewPath("spec"))...)
}

// scratch is a pod that has what spec gives to pods. They share it.
func scratch(spec *settingsv1alpha1.PodPresetSpec) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{
		Volumes:    spec.Volumes,
		Containers: []corev1.Container{{Env: spec.Env, EnvFrom: spec.EnvFrom, VolumeMounts: spec.VolumeMounts}},
	}}
}

// defaultPodPreset sets the defaults that what is in a preset will have in a pod: were they
// different, a pod that has the same already would be in conflict with it.
func defaultPodPreset(preset *settingsv1alpha1.PodPreset) {
	corev1internal.SetObjectDefaults_Pod(scratch(&preset.Spec))
}

// validatePodPresetSpec holds what a preset gives to pods to what is valid in a pod.
func validatePodPresetSpec(spec *settingsv1alpha1.PodPresetSpec, path *field.Path) field.ErrorList {
	all := metav1validation.ValidateLabelSelector(&spec.Selector, metav1validation.LabelSelectorValidationOptions{},
		path.Child("selector"))
	if spec.Env == nil && spec.EnvFrom == nil && spec.VolumeMounts == nil && spec.Volumes == nil {
		all = append(all,
			field.Required(path.Child("volumes", "env", "envFrom", "volumeMounts"), "must specify at least one"))
	}
	var pod api.Pod
	if err := corev1internal.Convert_v1_Pod_To_core_Pod(scratch(spec).DeepCopy(), &pod, nil); err != nil {
		return append(all, field.InternalError(path, err))
	}
	container, options := pod.Spec.Containers[0],
		podutil.GetValidationOptionsFromPodSpecAndMeta(&pod.Spec, nil, nil, nil)
	volumes, errs := corevalidation.ValidateVolumes(pod.Spec.Volumes, nil, path.Child("volumes"), options)
	all = append(all, errs...)
	all = append(all, corevalidation.ValidateEnv(container.Env, path.Child("env"), options)...)
	all = append(all, corevalidation.ValidateEnvFrom(container.EnvFrom, path.Child("envFrom"), options)...)
	return append(all, corevalidation.ValidateVolumeMounts(container.VolumeMounts, nil, volumes, nil,
		path.Child("volumeMounts"), options)...)
}
