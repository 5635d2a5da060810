// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"

	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
)

// groups holds the API groups in which the right to use a policy may have been granted: policies
// were first served in the group extensions.
var groups = []string{policyv1beta1.SchemeGroupVersion.Group, "extensions"}

// objection says why a policy doesn't allow a pod.
type objection struct {
	policy  string
	reasons []error
}

// decide finds the policy that admits the pod. It returns the pod, or a copy of it with the
// defaults that the policy sets, and the policy's name. Policies that have defaults to set only
// count if mayChange is true. The policy named hint is tried before the others. The error is the
// request's refusal.
func (p *podSecurityPolicy) decide(ctx context.Context, a admission.Attributes, pod *corev1.Pod, mayChange bool,
	hint string) (*corev1.Pod, string, error) {
	all := p.policies.Get()
	if len(all) == 0 {
		return nil, "", forbidden(a,
			errors.New("no providers available to validate pod request: the cluster has no PodSecurityPolicy"))
	}
	users := usersOf(a, pod)
	var (
		changed    *corev1.Pod
		changer    string
		objections []objection
	)
	for policy := range startingWith(hint, all) {
		if policy.unusable != nil {
			objections = append(objections, objection{policy.name, []error{policy.unusable}})
			continue
		}
		d := &draft{pod: pod, creating: mayChange}
		policy.setDefaults(d)
		if reasons := policy.check(d.pod); len(reasons) > 0 {
			objections = append(objections, objection{policy.name, reasons})
			continue
		}
		if d.set != nil && !mayChange {
			objections = append(objections, objection{policy.name,
				[]error{fmt.Errorf("%s: must be set, and is set only when a pod is created", d.set)}})
			continue
		}
		if d.set != nil && changed != nil || !p.mayUse(ctx, users, a.GetNamespace(), policy.name) {
			continue
		}
		if d.set == nil {
			return d.pod, policy.name, nil
		}
		changed, changer = d.pod, policy.name
	}
	if changed != nil {
		return changed, changer, nil
	}
	// Policies that none of the users may use are not mentioned: they aren't these users' business.
	var of []objection
	for _, o := range objections {
		if p.mayUse(ctx, users, a.GetNamespace(), o.policy) {
			of = append(of, o)
		}
	}
	verb := "validate"
	if mayChange {
		verb = "admit"
	}
	return nil, "", forbidden(a, fmt.Errorf("unable to %s pod: %s", verb, explain(of, users)))
}

func forbidden(a admission.Attributes, err error) error {
	return admission.NewForbidden(a, fmt.Errorf("%s: %w", name, err))
}

// explain says why the pod is refused. It lists what each policy has against the pod, with the
// policy's name if there are several.
func explain(objections []objection, users []user.Info) string {
	var all []string
	for _, o := range objections {
		reasons := fmt.Sprint(o.reasons)
		if len(objections) > 1 {
			reasons = o.policy + ": " + reasons
		}
		all = append(all, reasons)
	}
	if len(all) > 0 {
		return strings.Join(all, ", ")
	}
	var names []string
	for _, u := range users {
		names = append(names, u.GetName())
	}
	return fmt.Sprintf("[]: there is no PodSecurityPolicy that may be used (RBAC verb use) by %s",
		strings.Join(names, " or "))
}

// usersOf returns the users whose right to use a policy counts for the pod: its service account,
// which mostly has it, and the user of the request.
func usersOf(a admission.Attributes, pod *corev1.Pod) []user.Info {
	var users []user.Info
	if account := pod.Spec.ServiceAccountName; account != "" {
		users = append(users, serviceaccount.UserInfo(a.GetNamespace(), account, ""))
	}
	if u := a.GetUserInfo(); u != nil {
		users = append(users, u)
	}
	return users
}

// mayUse reports whether any of users may use the policy in the namespace.
func (p *podSecurityPolicy) mayUse(ctx context.Context, users []user.Info, namespace, policy string) bool {
	for _, u := range users {
		for _, group := range groups {
			decision, _, err := p.authorizer.Authorize(ctx, authorizer.AttributesRecord{
				User:            u,
				Verb:            "use",
				Namespace:       namespace,
				APIGroup:        group,
				APIVersion:      "*",
				Resource:        policyv1beta1.PodSecurityPolicies.Resource,
				Name:            policy,
				ResourceRequest: true,
			})
			if decision == authorizer.DecisionAllow {
				return true
			}
			if err != nil {
				klog.V(4).InfoS("Right to use a policy not checked: the authorizer failed", "plugin", name, "policy",
					policy, "user", u.GetName(), "err", err)
			}
		}
	}
	return false
}
