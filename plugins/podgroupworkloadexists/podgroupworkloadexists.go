// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podgroupworkloadexists implements the admission plugin PodGroupWorkloadExists, which
// refuses a new PodGroup that names a Workload that doesn't exist.
//
// A Workload describes groups of pods that are scheduled together, by templates. A PodGroup is made
// from one of these templates and names both in spec.podGroupTemplateRef. The Workload must exist,
// must not be being deleted, and must have that template. Workloads are looked up in a cache; one
// that the cache doesn't have is read live. The plugin does nothing if the feature gate
// GenericWorkload is off.
package podgroupworkloadexists

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"slices"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"
	schedulingv1alpha3listers "k8s.io/client-go/listers/scheduling/v1alpha3"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/ready"
	"gatehouse.dev/plugins/internal/objects"
)

const name = "PodGroupWorkloadExists"

//go:embed README.md
var manual string

// Descriptor describes PodGroupWorkloadExists. It needs a client and informers.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses PodGroups whose Workload, or its template, doesn't exist",
	Manual:     manual,
	Remedy:     "Create the Workload, with a template of that name, first.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Create},
	Resources:  plugin.On(schedulingv1alpha3.Resource("podgroups")),
	Gate:       "GenericWorkload",
	Until:      "1.36",
	Default:    true,
	Server: plugin.Server{
		Only:  "API servers that have it run it themselves",
		Needs: []schema.GroupVersionResource{schedulingv1alpha3.SchemeGroupVersion.WithResource("workloads")},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if err := ready.Needs(name, env); err != nil {
			return nil, err
		}
		workloads := env.Informers.Scheduling().V1alpha3().Workloads()
		return &podGroupWorkloadExists{
			synced: ready.After(workloads.Informer()),
			cache:  workloads.Lister(),
			client: env.Client,
		}, nil
	},
}

type podGroupWorkloadExists struct {
	synced ready.Gate
	cache  schedulingv1alpha3listers.WorkloadLister
	client kubernetes.Interface
}

var _ plugin.Validator = &podGroupWorkloadExists{}

// Validate refuses a PodGroup whose Workload or template doesn't exist.
func (p *podGroupWorkloadExists) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	group, err := objects.As[*schedulingv1alpha3.PodGroup](name, a, a.GetObject())
	if err != nil || group.Spec.WorkloadRef == nil {
		return err
	}
	if err := p.synced.Wait(ctx, a); err != nil {
		return err
	}
	ref := group.Spec.WorkloadRef
	workload, err := p.cache.Workloads(a.GetNamespace()).Get(ref.WorkloadName)
	if apierrors.IsNotFound(err) {
		workload, err = p.client.SchedulingV1alpha3().Workloads(a.GetNamespace()).Get(ctx, ref.WorkloadName,
			metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		return admission.NewForbidden(a, fmt.Errorf("PodGroup rejected: Workload %q not found", ref.WorkloadName))
	case err != nil:
		return plugin.Unanswered(err, apierrors.NewInternalError(err))
	case workload.DeletionTimestamp != nil:
		return admission.NewForbidden(a,
			fmt.Errorf("PodGroup rejected: Workload %q is being deleted", ref.WorkloadName))
	}
	if !slices.ContainsFunc(workload.Spec.PodGroupTemplates, func(t schedulingv1alpha3.PodGroupTemplate) bool {
		return t.Name == ref.TemplateName
	}) {
		return admission.NewForbidden(a, fmt.Errorf("PodGroup rejected: PodGroupTemplate %q not found in Workload %q",
			ref.TemplateName, ref.WorkloadName))
	}
	return nil
}
