// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
)

// byName returns policies made ready for use, in the order of their names.
func byName(objects []any) []*policy {
	var all []*policy
	for _, object := range objects {
		if found, ok := object.(*policyv1beta1.PodSecurityPolicy); ok {
			all = append(all, newPolicy(found))
		}
	}
	slices.SortFunc(all, func(a, b *policy) int { return strings.Compare(a.name, b.name) })
	return all
}

// startingWith returns all policies in their order, except that the policy of this name comes
// first.
func startingWith(name string, all []*policy) iter.Seq[*policy] {
	return func(yield func(*policy) bool) {
		for _, p := range all {
			if p.name == name && !yield(p) {
				return
			}
		}
		for _, p := range all {
			if p.name != name && !yield(p) {
				return
			}
		}
	}
}

// policy holds a PodSecurityPolicy, ready for use.
type policy struct {
	name     string
	spec     *policyv1beta1.PodSecurityPolicySpec
	seccomp  seccompProfiles
	appArmor appArmorProfiles
	// unusable is an error if the API server let pass a rule without what it needs, so that no pod
	// can be held to it.
	unusable error
}

func newPolicy(from *policyv1beta1.PodSecurityPolicy) *policy {
	p := &policy{
		name:     from.Name,
		spec:     &from.Spec,
		seccomp:  newSeccompProfiles(from.Annotations),
		appArmor: newAppArmorProfiles(from.Annotations),
	}
	if err := unusable(p.spec); err != nil {
		p.unusable = fmt.Errorf("error creating provider for PSP %s: %w", p.name, err)
	}
	return p
}

func unusable(spec *policyv1beta1.PodSecurityPolicySpec) error {
	var errs []error
	switch user := spec.RunAsUser; user.Rule {
	case policyv1beta1.RunAsUserStrategyMustRunAs:
		if len(user.Ranges) == 0 {
			errs = append(errs, errors.New("MustRunAs requires at least one range"))
		}
	case policyv1beta1.RunAsUserStrategyMustRunAsNonRoot, policyv1beta1.RunAsUserStrategyRunAsAny:
	default:
		// Kubernetes' words
		errs = append(errs, fmt.Errorf("Unrecognized RunAsUser strategy type %s", user.Rule)) //nolint:staticcheck
	}
	if group := spec.RunAsGroup; group != nil {
		errs = append(errs, unusableGroups("RunAsGroup", string(group.Rule), group.Ranges))
	}
	switch labels := spec.SELinux; labels.Rule {
	case policyv1beta1.SELinuxStrategyMustRunAs:
		if labels.SELinuxOptions == nil {
			errs = append(errs, errors.New("MustRunAs requires SELinuxOptions"))
		}
	case policyv1beta1.SELinuxStrategyRunAsAny:
	default:
		// Kubernetes' words
		//nolint:staticcheck // the words are upstream's
		errs = append(errs, fmt.Errorf("Unrecognized SELinuxContext strategy type %s", labels.Rule))
	}
	errs = append(errs, unusableGroups("FSGroup", string(spec.FSGroup.Rule), spec.FSGroup.Ranges))
	errs = append(errs,
		unusableGroups("SupplementalGroups", string(spec.SupplementalGroups.Rule), spec.SupplementalGroups.Ranges))
	return utilerrors.NewAggregate(errs)
}

func unusableGroups(field, rule string, ranges []policyv1beta1.IDRange) error {
	switch rule {
	case mustRunAs, mayRunAs:
		if len(ranges) == 0 {
			return fmt.Errorf("ranges must be supplied for %s", rule)
		}
	case runAsAny:
	default:
		// Kubernetes' words
		return fmt.Errorf("Unrecognized %s strategy type %s", field, rule) //nolint:staticcheck
	}
	return nil
}
