// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package priority implements the admission plugin Priority, which sets the priority of a new pod,
// a number that the scheduler compares, from the PriorityClass that the pod names.
//
// The class also says whether the pod may preempt others. A pod that names no class gets the class
// marked globalDefault or, if there is none, priority 0. A pod that sets another priority or
// preemption policy than its class is refused, so that a quota on a class is a quota on its
// priority. Neither field can change later; an update that leaves them out gets those of the stored
// pod.
//
// With the feature gate GenericWorkload the same goes for the priority of a new PodGroup, with the gate
// CompositePodGroup for that of a new CompositePodGroup, and with the gate PodGroupPreemptionPolicy for
// the preemption policy of either.
//
// A second PriorityClass with globalDefault is refused. If two are created at the same moment, by
// two servers for example, both can pass; then the one with the lower value is the default and, of
// the same value, the first by name.
//
// Classes are looked up in a cache, which shows a write a moment later. A class that the cache
// doesn't have is read live before a pod is refused. The check for another default class lists the
// classes live.
package priority

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes"
	schedulingv1listers "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/podspec"
	"gatehouse.dev/plugin/ready"
)

const name = "Priority"

var (
	pods               = corev1.Resource("pods")
	podGroups          = schema.GroupResource{Group: schedulingv1.GroupName, Resource: "podgroups"}
	compositePodGroups = schema.GroupResource{Group: schedulingv1.GroupName, Resource: "compositepodgroups"}
	priorityClasses    = schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}
)

// Kubernetes' feature gates.
const (
	// groupPriorities gives PodGroups priorities.
	groupPriorities featuregate.Feature = "GenericWorkload"
	// compositePriorities gives CompositePodGroups priorities.
	compositePriorities featuregate.Feature = "CompositePodGroup"
	// groupPolicies gives both preemption policies.
	groupPolicies featuregate.Feature = "PodGroupPreemptionPolicy"
)

//go:embed README.md
var manual string

// Descriptor describes Priority. It needs a client and informers.
var Descriptor = plugin.Descriptor{
	Name:    name,
	Summary: "Sets the priority of pods by their PriorityClass and keeps to one default class",
	Manual:  manual,
	Remedy: "Name a PriorityClass that exists, and leave priority and preemptionPolicy to it. Only one class may " +
		"be the default.",
	Phases:     plugin.Mutating | plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources: slices.Concat(plugin.On(pods), plugin.On(podGroups), plugin.On(compositePodGroups),
		plugin.On(priorityClasses)),
	Default: true,
	Access: []rbacv1.PolicyRule{
		plugin.To("get list watch", "scheduling.k8s.io", "priorityclasses"),
		plugin.AskGates,
	},
	Server: plugin.Server{
		Needs: []schema.GroupVersionResource{schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if err := ready.Needs(name, env); err != nil {
			return nil, err
		}
		informer := env.Informers.Scheduling().V1().PriorityClasses()
		return &priority{
			synced: ready.After(informer.Informer()),
			cache:  informer.Lister(),
			client: env.Client,
			groups: map[schema.GroupResource]bool{podGroups: env.Enabled(groupPriorities),
				compositePodGroups: env.Enabled(compositePriorities)},
			policies: env.Enabled(groupPolicies),
		}, nil
	},
}

type priority struct {
	synced ready.Gate
	cache  schedulingv1listers.PriorityClassLister
	client kubernetes.Interface
	// groups are the kinds of groups of pods that have priorities, and policies says whether they also have
	// preemption policies.
	groups   map[schema.GroupResource]bool
	policies bool
}

var (
	_ plugin.Mutator   = &priority{}
	_ plugin.Validator = &priority{}
)

// Admit sets the fields that follow from the class of a pod or a group of pods.
func (p *priority) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	resource := a.GetResource().GroupResource()
	switch {
	case resource == pods:
		return p.admitPod(ctx, a)
	case p.groups[resource] && a.GetOperation() == admission.Create:
		return p.admitGroup(ctx, a)
	}
	return nil
}

func (p *priority) admitPod(ctx context.Context, a admission.Attributes) error {
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	if a.GetOperation() == admission.Update {
		old, err := podspec.Pod(name, a.GetOldObject())
		if err != nil {
			return err
		}
		keepStored(&pod.Spec, &old.Spec)
		return nil
	}

	class, err := p.classOf(ctx, a, pod.Spec.PriorityClassName)
	if err != nil {
		return err
	}
	if given := pod.Spec.Priority; given != nil && *given != class.Value {
		return admission.NewForbidden(a,
			fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; "+
				"priority admission controller computed %d from the given PriorityClass name", *given, class.Value))
	}
	if given := pod.Spec.PreemptionPolicy; given != nil && class.PreemptionPolicy != nil &&
		*given != *class.PreemptionPolicy {
		return admission.NewForbidden(a,
			fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; "+
				"priority admission controller computed %s from the given PriorityClass name", *given,
				*class.PreemptionPolicy))
	}
	pod.Spec.PriorityClassName = class.Name
	pod.Spec.Priority = new(class.Value)
	if class.PreemptionPolicy != nil {
		pod.Spec.PreemptionPolicy = new(*class.PreemptionPolicy)
	}
	return nil
}

// keepStored gives a pod without priority or preemption policy those of the stored pod.
func keepStored(spec, stored *corev1.PodSpec) {
	if spec.Priority == nil && stored.Priority != nil {
		spec.Priority = new(*stored.Priority)
	}
	if spec.PreemptionPolicy == nil && stored.PreemptionPolicy != nil {
		spec.PreemptionPolicy = new(*stored.PreemptionPolicy)
	}
}

// classOf returns the class that a new object names, or else the default one. It belongs to the
// cache.
func (p *priority) classOf(ctx context.Context, a admission.Attributes, named string) (*schedulingv1.PriorityClass,
	error) {
	if err := p.synced.Wait(ctx, a); err != nil {
		return nil, err
	}
	if named == "" {
		all, err := p.cache.List(labels.Everything())
		if err != nil {
			return nil,
				apierrors.NewInternalError(fmt.Errorf("error occurred while retrieving default priority class: %w",
					err))
		}
		if class := defaultOf(all); class != nil {
			return class, nil
		}
		return &noClass, nil
	}
	class, err := p.cache.Get(named)
	// Pods are validated later, so the name may be invalid. An invalid name isn't looked up.
	if apierrors.IsNotFound(err) && len(apivalidation.NameIsDNSSubdomain(named, false)) == 0 {
		class, err = p.client.SchedulingV1().PriorityClasses().Get(ctx, named, metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, admission.NewForbidden(a,
			fmt.Errorf("no PriorityClass with name %v was found", named))
	case err != nil:
		// Any other error says nothing about the request.
		return nil, plugin.Unanswered(err,
			apierrors.NewInternalError(fmt.Errorf("failed to resolve PriorityClass with name %s: %w", named, err)))
	default:
		return class, nil
	}
}

// noClass is the class of pods that name none if there is no default class.
var noClass = schedulingv1.PriorityClass{PreemptionPolicy: new(corev1.PreemptLowerPriority)}

// defaultOf returns the default one of the classes, nil if none is.
func defaultOf(classes []*schedulingv1.PriorityClass) *schedulingv1.PriorityClass {
	var found *schedulingv1.PriorityClass
	for _, class := range classes {
		if !class.GlobalDefault {
			continue
		}
		if found == nil || class.Value < found.Value || class.Value == found.Value && class.Name < found.Name {
			found = class
		}
	}
	return found
}

// Validate refuses a class that would be another default one.
func (p *priority) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != priorityClasses {
		return nil
	}
	class, ok := a.GetObject().(*schedulingv1.PriorityClass)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for priorityclasses is a %T", name,
			a.GetObject()))
	}
	if !class.GlobalDefault {
		return nil
	}
	list, err := p.client.SchedulingV1().PriorityClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return plugin.Unanswered(err,
			apierrors.NewInternalError(fmt.Errorf("failed to get default priority class: %w", err)))
	}
	all := make([]*schedulingv1.PriorityClass, len(list.Items))
	for i := range list.Items {
		all[i] = &list.Items[i]
	}
	found := defaultOf(all)
	if found == nil || a.GetOperation() == admission.Update && found.Name == class.Name {
		return nil
	}
	return admission.NewForbidden(a,
		fmt.Errorf("PriorityClass %v is already marked as default. Only one default can exist", found.Name))
}
