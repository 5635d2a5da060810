// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package jobvalidation implements the admission plugin JobValidation, which keeps the parallelism
// of a Job whose pods are scheduled all together or not at all.
//
// The pods of a Job may be in a PodGroup with a gang policy: the scheduler places none of them
// before it can place as many as the PodGroup says. The PodGroup doesn't follow the Job, so a Job
// with another parallelism would wait for pods that never come, or have pods outside of the gang.
// The PodGroup is the one that the stored Job's pod template names, or any that the Job controls.
// The plugin does nothing if the feature gate GenericWorkload is off.
package jobvalidation

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"

	batchv1 "k8s.io/api/batch/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	schedulingv1alpha3listers "k8s.io/client-go/listers/scheduling/v1alpha3"
	"k8s.io/utils/ptr"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/ready"
	"gatehouse.dev/plugins/internal/objects"
)

const name = "JobValidation"

//go:embed README.md
var manual string

// Descriptor describes JobValidation. It needs informers.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Keeps the parallelism of Jobs whose pods are scheduled together",
	Manual:     manual,
	Remedy:     "Leave parallelism as it is, or make another Job: its PodGroup is scheduled as a gang.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Update},
	Resources:  plugin.On(batchv1.Resource("jobs")),
	Gate:       "GenericWorkload",
	Until:      "1.36",
	Default:    true,
	Server: plugin.Server{
		Only:  "API servers that have it run it themselves",
		Needs: []schema.GroupVersionResource{schedulingv1alpha3.SchemeGroupVersion.WithResource("podgroups")},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if env.Informers == nil {
			return nil, errors.New(name + " needs informers")
		}
		groups := env.Informers.Scheduling().V1alpha3().PodGroups()
		return &jobValidation{ready.After(groups.Informer()), groups.Lister()}, nil
	},
}

type jobValidation struct {
	synced ready.Gate
	groups schedulingv1alpha3listers.PodGroupLister
}

var _ plugin.Validator = &jobValidation{}

// Validate refuses to change the parallelism of a Job whose PodGroup is a gang.
func (p *jobValidation) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	job, err := objects.As[*batchv1.Job](name, a, a.GetObject())
	if err != nil {
		return err
	}
	stored, err := objects.As[*batchv1.Job](name, a, a.GetOldObject())
	if err != nil || ptr.Equal(job.Spec.Parallelism, stored.Spec.Parallelism) {
		return err
	}
	if err := p.synced.Wait(ctx, a); err != nil {
		return err
	}
	for _, group := range p.groupsOf(stored) {
		if group.Spec.SchedulingPolicy.Gang != nil {
			return admission.NewForbidden(a, fmt.Errorf(
				"cannot change parallelism for a Job referencing gang-scheduled PodGroup %q", group.Name))
		}
	}
	return nil
}

// groupsOf returns the PodGroups of a Job's pods. A missing one has no effect.
func (p *jobValidation) groupsOf(job *batchv1.Job) []*schedulingv1alpha3.PodGroup {
	groups := p.groups.PodGroups(job.Namespace)
	if named := job.Spec.Template.Spec.SchedulingGroup; named != nil && named.PodGroupName != nil {
		group, err := groups.Get(*named.PodGroupName)
		if err != nil {
			return nil
		}
		return []*schedulingv1alpha3.PodGroup{group}
	}
	all, err := groups.List(labels.Everything())
	if err != nil {
		return nil
	}
	var controlled []*schedulingv1alpha3.PodGroup
	for _, group := range all {
		if metav1.IsControlledBy(group, job) {
			controlled = append(controlled, group)
		}
	}
	return controlled
}
