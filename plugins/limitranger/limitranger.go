// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package limitranger implements the admission plugin LimitRanger, which keeps pods and persistent
// volume claims within the LimitRanges of their namespace.
//
// The mutating phase gives containers the defaults and lists them in an annotation of the pod. The
// validating phase checks containers, whole pods and claims, and refuses the object with everything
// that is wrong, by every LimitRange. A whole pod is its containers and sidecars together, the init
// container that needs most if that is more, or what the pod itself says in spec.resources unless
// the feature gate PodLevelResources is off.
//
// Pods are checked when they are created and when they are resized, because resources can't change
// otherwise. Claims are checked when they are created and updated. Objects that are being deleted
// are left alone.
//
// # Cache
//
// LimitRanges are looked up in a cache, which shows a write a moment later. Two rules make a new
// LimitRange apply to the next request nevertheless:
//
//   - If the cache has no LimitRange of a namespace, the plugin lists them live, once for all
//     requests that wait for the answer. It remembers for 30 seconds that there are none.
//   - If the creation of a LimitRange passed this server, the plugin remembers it for 30 seconds.
//     Until the cache has it, requests in its namespace list live.
package limitranger

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/internal/aggregate"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/ready"
)

const name = "LimitRanger"

var (
	pods        = corev1.Resource("pods")
	claims      = corev1.Resource("persistentvolumeclaims")
	limitRanges = corev1.Resource("limitranges")
)

// podLevelResources is Kubernetes' feature gate for the resources of a whole pod. If the gate is
// off, the server drops them from new pods; pods from before may still have them.
const podLevelResources featuregate.Feature = "PodLevelResources"

//go:embed README.md
var manual string

// Descriptor describes LimitRanger. It needs a client and informers.
var Descriptor = plugin.Descriptor{
	Name: name,
	Summary: "Sets defaults for the resources of pods and holds pods and claims to the LimitRanges of their " +
		"namespace",
	Manual: manual,
	Remedy: "Give the resources values within the LimitRanges of the namespace (kubectl describe limitrange), or " +
		"have those changed.",
	Phases:     plugin.Mutating | plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  slices.Concat(plugin.On(pods, "", "resize"), plugin.On(claims), plugin.On(limitRanges)),
	Default:    true,
	Access:     []rbacv1.PolicyRule{plugin.To("list watch", "", "limitranges"), plugin.AskGates},
	Server: plugin.Server{
		Enforces: []plugin.Enforced{{Resource: limitRanges}},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if err := ready.Needs(name, env); err != nil {
			return nil, err
		}
		informer := env.Informers.Core().V1().LimitRanges()
		return &limitRanger{
			podLevel: env.Enabled(podLevelResources),
			synced:   ready.After(informer.Informer()),
			ranges:   newRanges(env.Client, informer.Lister()),
		}, nil
	},
}

type limitRanger struct {
	podLevel bool // whether pods' own resources count
	synced   ready.Gate
	ranges   *ranges
}

var (
	_ plugin.Mutator   = &limitRanger{}
	_ plugin.Validator = &limitRanger{}
)

// Admit sets the defaults of a pod's containers. Claims have none: they can't be without a request.
func (p *limitRanger) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() != pods {
		return nil
	}
	found, err := p.find(ctx, a)
	if err != nil || len(found) == 0 {
		return err
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return unexpected(a)
	}
	again := a.GetReinvocationContext()
	setDefaults(pod, found, again != nil && again.IsReinvoke(), plugin.CallsOf(a))
	return nil
}

// Validate refuses a pod or claim that violates any LimitRange.
func (p *limitRanger) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() == limitRanges {
		p.rememberCreation(a)
		return nil
	}
	found, err := p.find(ctx, a)
	if err != nil || len(found) == 0 {
		return err
	}
	var violationsOf func(*corev1.LimitRange) []error
	switch object := a.GetObject().(type) {
	case *corev1.Pod:
		violationsOf = podViolations(object, p.podLevel)
	case *corev1.PersistentVolumeClaim:
		violationsOf = claimViolations(object)
	default:
		return unexpected(a)
	}
	calls := plugin.CallsOf(a)
	var violations []error
	for _, limitRange := range found {
		its := violationsOf(limitRange)
		violations = append(violations, its...)
		if calls != nil {
			calls.Add(callOf(limitRange, its))
		}
	}
	if err := aggregate.New(violations); err != nil {
		return admission.NewForbidden(a, err)
	}
	return nil
}

// rememberCreation remembers a LimitRange that is about to be created. It is called in the validating
// phase, when the LimitRange has its name.
func (p *limitRanger) rememberCreation(a admission.Attributes) {
	if a.GetOperation() != admission.Create || a.GetSubresource() != "" || a.IsDryRun() {
		return
	}
	if limitRange, err := meta.Accessor(a.GetObject()); err == nil {
		p.ranges.remember(a.GetNamespace(), limitRange.GetName())
	}
}

// find returns the LimitRanges that apply to the request, in the order of their names.
func (p *limitRanger) find(ctx context.Context, a admission.Attributes) ([]*corev1.LimitRange, error) {
	if !limited(a) {
		return nil, nil
	}
	if old := a.GetOldObject(); old != nil {
		stored, err := meta.Accessor(old)
		if err != nil {
			return nil, admission.NewForbidden(a, err)
		}
		if stored.GetDeletionTimestamp() != nil {
			return nil, nil // nothing must keep it from going, the removal of a finalizer say
		}
	}
	if err := p.synced.Wait(ctx, a); err != nil {
		return nil, err
	}
	found, err := p.ranges.list(ctx, a.GetNamespace())
	if err != nil {
		return nil, plugin.Unanswered(err, admission.NewForbidden(a, err))
	}
	return found, nil
}

// limited reports whether the request can state resources.
func limited(a admission.Attributes) bool {
	switch a.GetResource().GroupResource() {
	case pods:
		switch a.GetOperation() {
		case admission.Create:
			return a.GetSubresource() == ""
		case admission.Update:
			return a.GetSubresource() == "resize"
		}
	case claims:
		return a.GetSubresource() == ""
	}
	return false
}

func unexpected(a admission.Attributes) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for %s is a %T", name,
		a.GetResource().Resource, a.GetObject()))
}
