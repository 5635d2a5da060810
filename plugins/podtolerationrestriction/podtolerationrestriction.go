// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podtolerationrestriction implements the admission plugin PodTolerationRestriction, which
// gives the pods of a namespace tolerations and limits which ones they may have.
//
// A namespace has default tolerations and a whitelist, each a JSON list in an annotation. If an
// annotation is missing, the cluster's list in the plugin's configuration is used. An empty list is
// the namespace's own: it gives or limits nothing.
//
//   - The mutating phase merges the default tolerations into those of a new pod. If one of two
//     tolerations covers the other, the wider one stays. A pod conflicts with the defaults if it
//     tolerates a taint's key and effect neither more widely nor more narrowly. It is refused, as
//     Kubernetes' documentation says, or merged, as Kubernetes does today: the configuration
//     decides.
//   - Pods that request or limit cpu or memory also get a toleration of nodes under memory
//     pressure, which are tainted against best-effort pods. Updates keep that toleration, so that a
//     manifest without it can be sent again.
//   - A pod with a toleration that no entry of the whitelist covers is refused at every write, in
//     both phases.
//
// Annotations are read strictly, and one that can't be parsed refuses pods: ignoring a misspelt
// field could turn a whitelist of one taint into one of all. The write of the namespace gets a warning.
package podtolerationrestriction

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/internal/quota"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/podspec"
	"gatehouse.dev/plugins/internal/namespaces"
)

const name = "PodTolerationRestriction"

// The annotations of a namespace.
const (
	defaultAnnotation   = "scheduler.alpha.kubernetes.io/defaultTolerations"
	whitelistAnnotation = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"
)

var (
	pods              = corev1.Resource("pods")
	namespaceResource = corev1.Resource("namespaces")

	memoryPressure = corev1.Toleration{
		Key:      corev1.TaintNodeMemoryPressure,
		Operator: corev1.TolerationOpExists,
		Effect:   corev1.TaintEffectNoSchedule,
	}
)

//go:embed README.md
var manual string

// Descriptor describes PodTolerationRestriction. It needs a client and informers; its configuration
// is of kind Configuration in podtolerationrestriction.admission.k8s.io/v1alpha1 or of kind
// PodTolerationRestrictionConfiguration.
//
//schema:configuration configuration PodTolerationRestrictionConfiguration gatehouse.dev/v1alpha1
//schema:configuration lists Configuration podtolerationrestriction.admission.k8s.io/v1alpha1
var Descriptor = plugin.Descriptor{
	Name:    name,
	Summary: "Merges default tolerations of the namespace into its pods and holds them to a whitelist",
	Manual:  manual,
	Remedy: "Take the tolerations that the message speaks of out of the pod, or have the namespace's annotations " +
		"changed.",
	Phases:     plugin.Mutating | plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  slices.Concat(plugin.On(pods), plugin.On(namespaceResource)),
	Access:     []rbacv1.PolicyRule{plugin.To("get list watch", "", "namespaces"), plugin.AskGates},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		cluster, err := load(config)
		if err != nil {
			return nil, err
		}
		found, err := namespaces.New(name, env)
		if err != nil {
			return nil, err
		}
		return &podTolerationRestriction{
			found, cluster, quota.GatesOff(func(gate featuregate.Feature) bool { return !env.Disabled(gate) }),
			namespaces.Derive(inAnnotation(defaultAnnotation)), namespaces.Derive(inAnnotation(whitelistAnnotation)),
		}, nil
	},
}

type podTolerationRestriction struct {
	namespaces *namespaces.Namespaces
	// cluster applies if a namespace has no annotation.
	cluster configuration
	off     quota.Gates // the feature gates that are off

	defaults, whitelists *namespaces.Derived[list]
}

// list holds the content of an annotation of a namespace. Callers must not change it.
type list struct {
	tolerations []corev1.Toleration
	// found reports whether the namespace has the annotation.
	found bool
	err   error
}

var (
	_ plugin.Mutator   = &podTolerationRestriction{}
	_ plugin.Validator = &podTolerationRestriction{}
)

// Admit adds to a pod's tolerations. It refuses the same pods as Validate.
func (p *podTolerationRestriction) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() == namespaceResource {
		return nil
	}
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	var additions []corev1.Toleration
	if a.GetOperation() == admission.Create {
		if additions, err = p.defaultsFor(ctx, a, pod); err != nil {
			return err
		}
	}
	if !quota.IsBestEffort(pod, p.off) {
		additions = slices.Concat(additions, []corev1.Toleration{memoryPressure})
	}
	switch {
	case len(additions) == 0:
	case a.GetOperation() == admission.Create:
		pod.Spec.Tolerations = merge(pod.Spec.Tolerations, additions)
	case !isCovered(memoryPressure, pod.Spec.Tolerations):
		// Tolerations of a stored pod, even redundant ones, can't be removed, only added.
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, memoryPressure)
	}
	return p.checkWhitelist(ctx, a, pod)
}

// defaultsFor returns the default tolerations of a new pod.
func (p *podTolerationRestriction) defaultsFor(ctx context.Context, a admission.Attributes, pod *corev1.Pod) ([]corev1.Toleration,
	error) {
	namespace, err := p.namespaces.Of(ctx, a)
	if err != nil {
		return nil, err
	}
	defaults := p.defaults.Of(namespace).orCluster(p.cluster.Default)
	if defaults.err != nil {
		return nil, admission.NewForbidden(a, defaults.err)
	}
	if p.cluster.Conflicts == mergeConflicts {
		return defaults.tolerations, nil
	}
	for i, t := range pod.Spec.Tolerations {
		if conflicts(t, defaults.tolerations) {
			return nil, admission.NewForbidden(a, fmt.Errorf("namespace tolerations and pod tolerations conflict: %w",
				field.Invalid(path(i), t,
					"differs from the default toleration for this key and effect, change or remove it")))
		}
	}
	return defaults.tolerations, nil
}

// Validate refuses a pod with tolerations that are not on the whitelist. It warns of a namespace with an
// annotation that can't be parsed.
func (p *podTolerationRestriction) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() == namespaceResource {
		if namespace, ok := a.GetObject().(*corev1.Namespace); ok {
			for _, annotation := range []string{defaultAnnotation, whitelistAnnotation} {
				namespaces.WarnOfPods(ctx, inAnnotation(annotation)(namespace).err)
			}
		}
		return nil
	}
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	return p.checkWhitelist(ctx, a, pod)
}

// checkWhitelist refuses a pod with a toleration that is not on the whitelist.
func (p *podTolerationRestriction) checkWhitelist(ctx context.Context, a admission.Attributes, pod *corev1.Pod) error {
	if len(pod.Spec.Tolerations) == 0 {
		return nil
	}
	namespace, err := p.namespaces.Of(ctx, a)
	if err != nil {
		return err
	}
	whitelist := p.whitelists.Of(namespace).orCluster(p.cluster.Whitelist)
	if whitelist.err != nil {
		return admission.NewForbidden(a, whitelist.err)
	}
	if len(whitelist.tolerations) == 0 {
		return nil
	}
	for i, t := range pod.Spec.Tolerations {
		if !isCovered(t, whitelist.tolerations) {
			scope := "cluster"
			if whitelist.found {
				scope = "namespace"
			}
			return admission.NewForbidden(a, fmt.Errorf(
				"pod tolerations (possibly merged with namespace default tolerations) conflict with its %s "+
					"whitelist: %w",
				scope, field.Invalid(path(i), t, "no toleration on the whitelist covers it")))
		}
	}
	return nil
}

func path(i int) *field.Path { return field.NewPath("spec", "tolerations").Index(i) }

// inAnnotation reads the list in an annotation.
func inAnnotation(annotation string) func(*corev1.Namespace) list {
	return func(namespace *corev1.Namespace) list {
		text, found := namespace.Annotations[annotation]
		if !found {
			return list{}
		}
		tolerations, err := parse(text, field.NewPath("metadata", "annotations").Key(annotation))
		if err != nil {
			err = fmt.Errorf("the tolerations of namespace %s can't be parsed, correct or remove the annotation: %w",
				namespace.Name, err)
		}
		return list{tolerations, true, err}
	}
}

// orCluster returns the list, or the cluster's list if the namespace has none.
func (l list) orCluster(cluster []corev1.Toleration) list {
	if !l.found {
		l.tolerations = cluster
	}
	return l
}
