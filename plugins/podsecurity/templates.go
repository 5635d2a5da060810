// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecurity

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/klog/v2"
	"k8s.io/pod-security-admission/api"
)

// template decides a request for an object with a template of pods. It never refuses the request,
// even if it fails.
func (p *podSecurity) template(ctx context.Context, a admission.Attributes) *verdict {
	if v := p.exempt(a); v != nil {
		return v
	}
	namespace, err := p.namespaces.Get(ctx, a.GetNamespace())
	if err != nil {
		klog.ErrorS(err, "Template of pods not checked: its namespace can't be read", "plugin", name, "resource",
			a.GetResource().String(), "namespace", a.GetNamespace(), "name", a.GetName())
		return &verdict{failed: fatal, audit: map[string]string{
			errorKey: fmt.Sprintf("failed to lookup namespace %q: %v", a.GetNamespace(), err)}}
	}
	wanted, wrong := api.PolicyToEvaluate(namespace.Labels, p.defaults)
	if len(wrong) == 0 && wanted.Audit.Level == api.LevelPrivileged && wanted.Warn.Level == api.LevelPrivileged {
		return unremarkable
	}
	template, err := templateOf(a.GetObject())
	if err != nil {
		klog.ErrorS(err, "Template of pods not checked: the object has none that can be read", "plugin", name, "resource",
			a.GetResource().String(), "namespace", a.GetNamespace(), "name", a.GetName())
		return &verdict{failed: fatal, audit: map[string]string{
			errorKey: fmt.Sprintf("failed to extract pod template: %v", err)}}
	}
	if template == nil {
		return unremarkable
	}
	return p.evaluate(a, wanted, wrong.ToAggregate(), &template.ObjectMeta, &template.Spec, false)
}

// templateOf returns the template of the object's pods, nil if it has none.
func templateOf(object runtime.Object) (*corev1.PodTemplateSpec, error) {
	switch o := object.(type) {
	case *corev1.PodTemplate:
		return &o.Template, nil
	case *corev1.ReplicationController:
		return o.Spec.Template, nil
	case *appsv1.Deployment:
		return &o.Spec.Template, nil
	case *appsv1.ReplicaSet:
		return &o.Spec.Template, nil
	case *appsv1.StatefulSet:
		return &o.Spec.Template, nil
	case *appsv1.DaemonSet:
		return &o.Spec.Template, nil
	case *batchv1.Job:
		return &o.Spec.Template, nil
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template, nil
	case *appsv1beta2.Deployment:
		return &o.Spec.Template, nil
	case *appsv1beta2.ReplicaSet:
		return &o.Spec.Template, nil
	case *appsv1beta2.StatefulSet:
		return &o.Spec.Template, nil
	case *appsv1beta2.DaemonSet:
		return &o.Spec.Template, nil
	case *appsv1beta1.Deployment:
		return &o.Spec.Template, nil
	case *appsv1beta1.StatefulSet:
		return &o.Spec.Template, nil
	case *extensionsv1beta1.Deployment:
		return &o.Spec.Template, nil
	case *extensionsv1beta1.ReplicaSet:
		return &o.Spec.Template, nil
	case *extensionsv1beta1.DaemonSet:
		return &o.Spec.Template, nil
	default:
		return nil, fmt.Errorf("unexpected object type: %T", object)
	}
}
