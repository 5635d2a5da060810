// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"fmt"
	"reflect"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// webhooks is an index of Criteria as webhooks have them.
func webhooks(criteria ...*Criteria) *Index[*Candidate] {
	return NewIndex(func(r *Resolver) []*Candidate {
		var all []*Candidate
		for _, c := range criteria {
			if candidate := r.Resolve(c); candidate != nil {
				all = append(all, candidate)
			}
		}
		return all
	})
}

func aWebhook(policy *admissionregistrationv1.MatchPolicyType,
	rules ...admissionregistrationv1.RuleWithOperations) *Criteria {
	return NewWebhookCriteria(rules, policy, everything, everything)
}

// Source: TestShouldCallHook in k8s.io/apiserver/pkg/admission/plugin/webhook/generic.
func TestCandidates(t *testing.T) {
	mapper := deployments(t)
	names := []string{"everything", "pods", "exact", "equivalent", "first rule", "as it came first"}
	all := []*Criteria{
		aWebhook(&exact, aRule("*", "*", "*", "*/*")),
		aWebhook(&exact, aRule("*", "", "v1", "pods")),
		aWebhook(&exact, aRule("*", "apps", "v1", "deployments/*")),
		aWebhook(&equivalent, aRule("*", "apps", "v1", "deployments/*")),
		aWebhook(&equivalent, aRule("*", "", "v1", "pods"), aRule("*", "extensions", "v1beta1", "deployments"),
			aRule("*", "apps", "v1", "deployments")),
		aWebhook(&equivalent, aRule("*", "extensions", "v1beta1", "deployments"),
			aRule("*", "apps", "*", "deployments")),
		aWebhook(nil), // for nothing
	}
	index := NewIndex(func(r *Resolver) []string {
		var found []string
		for i, c := range all {
			if candidate := r.Resolve(c); candidate != nil {
				text := names[i]
				if m := candidate.options[0].Match; m.Converted {
					text += fmt.Sprintf(" %s %s", m.Resource.GroupVersion(), m.Kind.GroupVersion())
				}
				found = append(found, text)
			}
		}
		return found
	})
	for name, test := range map[string]struct {
		request Target
		want    []string
	}{
		"pods": {Target{Operation: create, Resource: gvr("", "v1", "pods")},
			[]string{"everything", "pods", "first rule"}},
		"nothing more": {Target{Operation: create, Resource: gvr("", "v1", "nodes")}, []string{"everything"}},
		"exact version": {Target{Operation: create, Resource: gvr("apps", "v1", "deployments")},
			[]string{"everything", "exact", "equivalent", "first rule", "as it came first"}},
		"another version": {Target{Operation: create, Resource: gvr("apps", "v1beta1", "deployments")},
			[]string{"everything", "equivalent apps/v1 apps/v1", "first rule extensions/v1beta1 extensions/v1beta1",
				"as it came first"}},
		"another group": {Target{Operation: create, Resource: gvr("extensions", "v1beta1", "deployments")},
			[]string{"everything", "equivalent apps/v1 apps/v1", "first rule", "as it came first"}},
		"a subresource": {Target{Operation: update, Resource: gvr("apps", "v1beta1", "deployments"),
			Subresource: "scale"}, []string{"everything", "equivalent apps/v1 autoscaling/v1"}},
		"an unknown resource": {Target{Operation: create, Resource: gvr("apps", "v2", "deployments")},
			[]string{"everything", "equivalent apps/v1 apps/v1", "first rule extensions/v1beta1 extensions/v1beta1",
				"as it came first"}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // as found, and as remembered
				if got := index.Candidates(test.request, mapper); !reflect.DeepEqual(got, test.want) {
					t.Errorf("found %q\nwant  %q", got, test.want)
				}
			}
		})
	}
}

// A custom resource gets versions, and may be deleted and created with another kind. What was
// remembered isn't held on to.
func TestCandidatesFollowTheMapper(t *testing.T) {
	index := webhooks(aWebhook(&equivalent, aRule("*", "e", "v1", "es")))
	target := Target{Operation: create, Resource: gvr("e", "v2", "es")}
	versions := func(kinds map[string]string, order ...string) runtime.EquivalentResourceMapper {
		mapper := runtime.NewEquivalentResourceRegistry()
		for _, version := range order {
			mapper.RegisterKindFor(gvr("e", version, "es"), "",
				schema.GroupVersionKind{Group: "e", Version: version, Kind: kinds[version]})
		}
		return mapper
	}
	es := map[string]string{"v1": "E", "v2": "E"}
	for i, step := range []struct {
		mapper runtime.EquivalentResourceMapper
		want   string
	}{
		{nil, ""},
		{versions(es, "v2"), ""},
		{versions(es, "v2", "v1"), "E"},
		{versions(map[string]string{"v1": "F", "v2": "E"}, "v2", "v1"), "F"},
		{versions(es, "v1"), "E"},
		{versions(es, "v2"), ""},
	} {
		candidates := index.Candidates(target, step.mapper)
		got := ""
		if len(candidates) == 1 {
			got = candidates[0].options[0].Kind.Kind
		}
		if got != step.want {
			t.Errorf("step %d: the kind is %q, want %q", i, got, step.want)
		}
	}
}

// An engine is asked once for a target, as long as the mapper says the same.
func TestIndexRemembers(t *testing.T) {
	mapper := runtime.NewEquivalentResourceRegistry()
	mapper.RegisterKindFor(gvr("", "v1", "pods"), "", corev1.SchemeGroupVersion.WithKind("Pod"))
	built := 0
	c := aWebhook(&equivalent, aRule("*", "", "v1", "services"))
	index := NewIndex(func(r *Resolver) []*Candidate {
		built++
		if found := r.Resolve(c); found != nil {
			t.Errorf("found %v", found)
		}
		return nil
	})
	pods := Target{Operation: create, Resource: gvr("", "v1", "pods")}
	for range 3 {
		index.Candidates(pods, mapper)
	}
	if built != 1 {
		t.Errorf("the engine was asked %d times", built)
	}
	pods.Operation = update
	index.Candidates(pods, mapper)
	if built != 2 {
		t.Errorf("for two targets the engine was asked %d times", built)
	}
}

// The index doesn't grow without end as custom resources come and go.
func TestIndexIsBounded(t *testing.T) {
	index := webhooks(aWebhook(&exact, aRule("*", "*", "*", "*/*")))
	for i := range maxTargets + 10 {
		target := Target{Operation: create, Resource: gvr("", "v1", fmt.Sprint(i))}
		if len(index.Candidates(target, nil)) != 1 {
			t.Fatal("nothing found")
		}
	}
	if n := len(*index.entries.Load()); n > maxTargets {
		t.Errorf("the index has %d entries", n)
	}
}

// Criteria that nearly have a rule for a target say what is missing, and match nothing.
func TestNearest(t *testing.T) {
	deployments, pods := gvr("apps", "v1", "deployments"), gvr("", "v1", "pods")
	scale := Target{Operation: update, Resource: deployments, Subresource: "scale"}
	of := func(rules ...admissionregistrationv1.RuleWithOperations) ruleList {
		var all ruleList
		for _, rule := range rules {
			all = append(all, named(rule))
		}
		return all
	}
	for name, test := range map[string]struct {
		criteria *Criteria
		target   Target
		want     Mismatch // of a near miss
		matches  bool
	}{
		"the resource of a subresource": {criteria: aWebhook(&exact, aRule("*", "apps", "v1", "deployments")),
			target: scale, want: "its rules are for deployments, and not for deployments/scale"},
		"all resources, but no subresource": {criteria: aWebhook(&exact, aRule("*", "*", "*", "*")),
			target: Target{Operation: update, Resource: pods, Subresource: "ephemeralcontainers"},
			want:   "its rules are for pods, and not for pods/ephemeralcontainers"},
		"another version of it": {criteria: aWebhook(&equivalent, aRule("*", "apps", "v1beta1", "deployments")),
			target: scale, want: "its rules are for deployments, and not for deployments/scale"},
		"another version of it, which has to be the same": {
			criteria: aWebhook(&exact, aRule("*", "apps", "v1beta1", "deployments")), target: scale},
		"another operation": {criteria: aWebhook(&exact, aRule("DELETE", "apps", "v1", "deployments")), target: scale},
		"another resource":  {criteria: aWebhook(&exact, aRule("*", "", "v1", "pods")), target: scale},
		"a status": {criteria: aWebhook(&exact, aRule("*", "", "v1", "pods")),
			target: Target{Operation: update, Resource: pods, Subresource: "status"}},
		"a rule": {criteria: aWebhook(&exact, aRule("*", "apps", "v1", "deployments/*")), target: scale, matches: true},
		"a policy's rule that another excludes": {
			criteria: NewResourceCriteria(resources(of(aRule("*", "*", "*", "*")),
				excluding(named(aRule("*", "", "*", "pods"))))),
			target: Target{Operation: create, Resource: pods}, want: Excluded},
		"everything but what is excluded": {
			criteria: NewResourceCriteria(resources(nil, excluding(named(aRule("*", "", "*", "pods"))))),
			target:   Target{Operation: create, Resource: pods}, want: Excluded},
		"excluded by name": {
			criteria: NewResourceCriteria(resources(nil, excluding(named(aRule("*", "", "*", "pods"), "p")))),
			target:   Target{Operation: create, Resource: pods}, matches: true},
		"excluded, and no rule's": {criteria: NewResourceCriteria(resources(of(aRule("*", "apps", "v1", "deployments")),
			excluding(named(aRule("*", "", "*", "pods"))))), target: Target{Operation: create, Resource: pods}},
	} {
		t.Run(name, func(t *testing.T) {
			var got Mismatch
			found := (&Resolver{Target: test.target}).ResolveNearest(test.criteria)
			if found != nil {
				got = found.mismatch
			}
			if got != test.want || (found != nil && got == Matches) != test.matches {
				t.Errorf("found %+v, which misses for %q, want %q", found, got, test.want)
			}
		})
	}
}

// Criteria that have a rule for what is exempt say so.
func TestExempt(t *testing.T) {
	policies := Target{Operation: create, Resource: gvr("admissionregistration.k8s.io", "v1",
		"validatingadmissionpolicies")}
	for resource, want := range map[string]Mismatch{
		"*": "validatingadmissionpolicies are exempt, whatever its rules say", "pods": Matches,
	} {
		found := (&Resolver{Target: policies}).ResolveExempt(aWebhook(&exact, aRule("*", "*", "*", resource)))
		if (found != nil) != (want != Matches) || found != nil && found.mismatch != want {
			t.Errorf("%s: found %+v, want %q", resource, found, want)
		}
	}
}
