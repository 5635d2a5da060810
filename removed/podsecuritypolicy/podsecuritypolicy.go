// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podsecuritypolicy implements the admission plugin PodSecurityPolicy, which admits a pod
// only if a PodSecurityPolicy allows it. Kubernetes had it until 1.24. Pod Security Admission,
// which took its place, has three fixed levels and sets no defaults.
//
// A PodSecurityPolicy (see package apis/policy/v1beta1) says what pods may ask for, and sets
// defaults. It applies to a pod if the user who creates the pod, or the pod's service account, has
// the verb use on it, in the pod's namespace or everywhere.
//
// The mutating phase tries the policies in the order of their names. Each sets its defaults in a
// copy of the pod and then checks the copy. A policy that allows the pod without setting anything
// is preferred; otherwise the first that allows it is used. The pod becomes that copy, and the
// annotation kubernetes.io/psp names the policy. The validating phase does the same without
// changing anything, beginning with the policy of the annotation; a policy that would have to set
// something doesn't count. If no policy allows the pod, the refusal says what each policy that may
// be used has against it.
//
// Defaults are set only when a pod is created. Updates, also of ephemeral containers, are checked
// against today's policies. An update of only owner references and finalizers passes, because
// garbage collection depends on it.
//
// Once, seccomp and AppArmor settings of pods were annotations. Nodes read the fields now
// (securityContext.seccompProfile, appArmorProfile), so the plugin sets and checks the fields. If a
// pod has only the annotation, the plugin takes it for the field. Settings of a policy are still
// annotations of the policy.
package podsecuritypolicy

import (
	"context"
	_ "embed"
	"errors"
	"io"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugin/podspec"
	"gatehouse.dev/plugin/ready"
	"gatehouse.dev/plugin/typed"
	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
)

const (
	name = "PodSecurityPolicy"

	// annotation is the pod's annotation with the name of the policy that admitted it.
	annotation = "kubernetes.io/psp"

	// The audit annotations that name the policy.
	admitAudit    = "podsecuritypolicy.policy.k8s.io/admit-policy"
	validateAudit = "podsecuritypolicy.policy.k8s.io/validate-policy"
)

var pods = corev1.Resource("pods")

//go:embed README.md
var manual string

// Descriptor describes PodSecurityPolicy. It needs a dynamic client, informers and an authorizer.
var Descriptor = plugin.Descriptor{
	Name:    name,
	Summary: "Holds pods to a PodSecurityPolicy that their user or service account may use, and sets its defaults",
	Manual:  manual,
	Remedy: "Have a PodSecurityPolicy that allows this pod, and the right to use it: the user's, or that of the " +
		"pod's service account.",
	Phases:     plugin.Mutating | plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	Resources:  plugin.On(pods, "", "ephemeralcontainers"),
	Server: plugin.Server{
		Only:  "no other API server serves its policies",
		Needs: []schema.GroupVersionResource{policyv1beta1.PodSecurityPolicies},
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if env.Authorizer == nil {
			return nil, errors.New(name + " needs an authorizer")
		}
		informer, err := typed.Informer(name, env, policyv1beta1.PodSecurityPolicies,
			&policyv1beta1.PodSecurityPolicy{}, &policyv1beta1.PodSecurityPolicyList{})
		if err != nil {
			return nil, err
		}
		policies, err := typed.Compile(informer, byName)
		if err != nil {
			return nil, err
		}
		return &podSecurityPolicy{
			ready:      ready.After(informer),
			policies:   policies,
			authorizer: env.Authorizer,
		}, nil
	},
}

type podSecurityPolicy struct {
	ready      ready.Gate
	policies   *typed.Compiled[[]*policy]
	authorizer authorizer.UnconditionalAuthorizer
}

var (
	_ plugin.Mutator   = &podSecurityPolicy{}
	_ plugin.Validator = &podSecurityPolicy{}
)

// Admit gives a new pod the defaults of the policy that it is admitted by.
func (p *podSecurityPolicy) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() != "" || a.GetOperation() != admission.Create {
		return nil
	}
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	if err := p.ready.Wait(ctx, a); err != nil {
		return err
	}
	// If the plugin runs once more after a webhook, it keeps to the policy whose defaults the pod
	// has. Otherwise the annotation proves nothing: any user can have written it.
	hint := ""
	if again := a.GetReinvocationContext(); again != nil && again.IsReinvoke() {
		hint = pod.Annotations[annotation]
	}
	admitted, policy, err := p.decide(ctx, a, pod, true, hint)
	if err != nil {
		return err
	}
	if admitted != pod {
		*pod = *admitted
	}
	if pod.Annotations[annotation] != policy {
		pod.Annotations = withAnnotation(pod.Annotations, annotation, policy)
	}
	note(a, admitAudit, policy)
	return nil
}

// Validate refuses a pod that no policy allows as it is.
func (p *podSecurityPolicy) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	if a.GetOperation() == admission.Update {
		stored, err := podspec.Pod(name, a.GetOldObject())
		if err != nil {
			return err
		}
		if changesOnlyOwnersAndFinalizers(pod, stored) {
			return nil
		}
	}
	if err := p.ready.Wait(ctx, a); err != nil {
		return err
	}
	_, policy, err := p.decide(ctx, a, pod, false, pod.Annotations[annotation])
	if err != nil {
		return err
	}
	note(a, validateAudit, policy)
	return nil
}

// changesOnlyOwnersAndFinalizers reports whether an update is one that garbage collection makes.
// Such an update must pass. A user who may update and delete the pod gains nothing by it.
func changesOnlyOwnersAndFinalizers(pod, stored *corev1.Pod) bool {
	compared := *pod
	compared.OwnerReferences, compared.Finalizers = stored.OwnerReferences, stored.Finalizers
	compared.ManagedFields = stored.ManagedFields
	return apiequality.Semantic.DeepEqual(&compared, stored)
}

func note(a admission.Attributes, key, policy string) {
	if err := a.AddAnnotation(key, policy); err != nil {
		klog.ErrorS(err, "Audit annotation not set", "plugin", name, "key", key, "policy", policy)
	}
}
