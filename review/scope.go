// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/quota"
	"gatehouse.dev/plugin"
)

// A scope holds the resources on whose objects a candidate may act. It may have more, never fewer.
type scope struct {
	all   bool
	rules []scopeRule
}

// A scopeRule has the resources of a rule, in all versions, and the operations. Its lists are those of rules in
// policies, with "*" and subresources. It is for one namespace, or for everything if that is empty.
type scopeRule struct {
	groups, resources, operations []string
	namespace                     string
	// inAnyGroup is true if the same objects may be served in another group.
	inAnyGroup bool
}

// matches reports whether the rule has a request.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules/rules.go#Matches 9781bf9d
func (r *scopeRule) matches(resource schema.GroupResource, subresource, operation string) bool {
	has := func(list []string, value string) bool {
		return slices.Contains(list, "*") || slices.Contains(list, value)
	}
	return (r.inAnyGroup || has(r.groups, resource.Group)) && has(r.operations, operation) &&
		slices.ContainsFunc(r.resources, func(pattern string) bool {
			name, of, _ := strings.Cut(pattern, "/")
			return (name == "*" || name == resource.Resource) && (of == "*" || of == subresource)
		})
}

// makers are the resources of the workloads from which controllers make objects of a resource.
var makers = map[schema.GroupResource][]schema.GroupResource{
	{Resource: "pods"}: {{Resource: "replicationcontrollers"}, {Group: "apps", Resource: "replicasets"},
		{Group: "apps", Resource: "deployments"}, {Group: "apps", Resource: "daemonsets"},
		{Group: "apps", Resource: "statefulsets"}, {Group: "batch", Resource: "jobs"},
		{Group: "batch", Resource: "cronjobs"}},
	{Group: "apps", Resource: "replicasets"}: {{Group: "apps", Resource: "deployments"}},
	{Group: "batch", Resource: "jobs"}:       {{Group: "batch", Resource: "cronjobs"}},
	{Group: "apps", Resource: "controllerrevisions"}: {{Group: "apps", Resource: "daemonsets"},
		{Group: "apps", Resource: "statefulsets"}},
	{Resource: "persistentvolumeclaims"}: {{Group: "apps", Resource: "statefulsets"}},
}

// in returns the scope of a namespace, or of what has none if it is empty.
func (s *scope) in(namespace string) *scope {
	isElsewhere := func(r scopeRule) bool { return r.namespace != "" && r.namespace != namespace }
	if !slices.ContainsFunc(s.rules, isElsewhere) {
		return s
	}
	return &scope{s.all, slices.DeleteFunc(slices.Clone(s.rules), isElsewhere)}
}

// has reports whether a candidate may act on objects of a resource, or on what controllers make of them.
func (s *scope) has(resource schema.GroupResource) bool {
	if s.matches(resource) {
		return true
	}
	for made, of := range makers {
		if slices.Contains(of, resource) && s.matches(made) {
			return true
		}
	}
	return false
}

// matches reports whether a candidate may act on objects of a resource.
func (s *scope) matches(resource schema.GroupResource) bool {
	return s.matchesRequest(resource, "", "CREATE") || s.matchesRequest(resource, "", "UPDATE")
}

// names reports whether a candidate may act on objects of a group by its name, or of any group.
func (s *scope) names(group string) bool {
	return s.all || slices.ContainsFunc(s.rules, func(r scopeRule) bool {
		return slices.Contains(r.groups, "*") || slices.Contains(r.groups, group)
	})
}

// matchesRequest reports whether a candidate may act on a request.
func (s *scope) matchesRequest(resource schema.GroupResource, subresource, operation string) bool {
	return s.all || slices.ContainsFunc(s.rules, func(r scopeRule) bool {
		return r.matches(resource, subresource, operation)
	})
}

// addPlugin adds what a plugin is called for, in a namespace or everywhere if that is empty. Without enforced it leaves
// out the objects that the plugin enforces.
func (s *scope) addPlugin(d *plugin.Descriptor, namespace string, enforced bool) {
	if len(d.Resources) == 0 {
		s.rules = append(s.rules, scopeRule{[]string{"*"}, []string{"*/*"}, []string{"*"}, namespace, false})
	}
	for _, r := range d.Resources {
		if !enforced && slices.ContainsFunc(d.Server.Enforces, func(e plugin.Enforced) bool {
			return e.Resource == schema.GroupResource{Group: r.Group, Resource: r.Resource}
		}) {
			continue
		}
		resource := r.Resource
		if r.Subresource != "" {
			resource += "/" + r.Subresource
		}
		s.rules = append(s.rules, scopeRule{[]string{r.Group}, []string{resource}, []string{"*"}, namespace, false})
	}
}

// scopeOf returns the resources about which requests may end otherwise by a trial's candidate, or by what it is compared
// with.
func (t *Trial) scopeOf(ctx context.Context) (*scope, error) {
	o := &t.options
	s := &scope{all: t.before == nil}
	if o.OtherPlugins {
		t.addPlugins(s, o)
	}
	for _, d := range t.candidate.reviewer.cluster.server.Plugins() {
		if d.Name == PodSecurityPlugin(o.Config.Plugins) {
			for namespace := range o.PodSecurity {
				s.addPlugin(&d, namespace, false)
			}
		}
	}
	return s, t.addDocuments(ctx, s, o)
}

// addDocuments adds the resources on which the objects of the candidate and of what it is compared with bear, and
// those on which the objects bear that they replace.
func (t *Trial) addDocuments(ctx context.Context, s *scope, o *TrialOptions) error {
	for _, d := range slices.Concat(o.Candidate, o.Against) {
		if err := t.addDocument(ctx, s, d.Object); err != nil {
			return err
		}
		if d.Object.GroupVersionKind().Group != admissionregistrationv1.GroupName {
			continue
		}
		for _, side := range t.sides() {
			stored, err := side.reviewer.objectNamed(ctx, d.Object)
			if stored != nil && err == nil {
				err = t.addDocument(ctx, s, stored)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// isAddition reports whether the candidate can only refuse more than what it is compared with: it changes no
// object, and replaces nothing that refuses.
func (t *Trial) isAddition(ctx context.Context) (bool, error) {
	levels := len(t.options.PodSecurity)
	if t.options.PodSecurity[""] != "" {
		levels--
	}
	if t.before == nil || !t.OnlyRefuses || len(t.options.Against) > 0 || levels > 0 || t.options.PodSecurityOverride {
		return false, nil
	}
	r := t.before.reviewer
	for _, d := range t.options.Candidate {
		mapping, err := r.cluster.findKind(d.Object)
		if err != nil {
			return false, err
		}
		stored, err := r.getStored(ctx, mapping, r.scopedNamespace(d.Object), d.Object.GetName())
		if stored != nil || err != nil {
			return false, err
		}
	}
	return true, nil
}

// addPlugins adds the resources of the plugins that one of the sides alone runs. If there are none, the sides
// configure a plugin differently, which may be any.
func (t *Trial) addPlugins(s *scope, o *TrialOptions) {
	if t.before == nil {
		return
	}
	one, other := t.candidate.reviewer.cluster.server.Plugins(), t.before.reviewer.cluster.server.Plugins()
	differ := slices.Concat(without(one, other), without(other, one))
	if len(differ) == 0 || o.Config.Admission.ConfigFile != "" {
		s.all = true
	}
	for _, d := range differ {
		s.addPlugin(&d, "", true)
	}
}

// without returns the plugins that others don't have.
func without(plugins, others []plugin.Descriptor) []plugin.Descriptor {
	names := plugin.Names(others)
	return slices.DeleteFunc(slices.Clone(plugins), func(d plugin.Descriptor) bool {
		return slices.Contains(names, d.Name)
	})
}

// addDocument adds the resources on which an object of a candidate bears.
func (t *Trial) addDocument(ctx context.Context, s *scope, object *unstructured.Unstructured) error {
	kind := object.GroupVersionKind()
	switch {
	case kind.GroupKind() == quotaKind:
		limits, err := asQuota(object)
		if err != nil {
			return err
		}
		for _, resource := range quota.Resources(limits) {
			s.rules = append(s.rules, scopeRule{[]string{resource.Group}, []string{resource.Resource + "/*"}, []string{"*"},
				t.candidate.reviewer.namespaceOf(object), false})
		}
	case kind.Group != admissionregistrationv1.GroupName:
		t.addRead(s, object)
	case strings.HasSuffix(kind.Kind, "PolicyBinding"):
		return t.addPolicyOf(ctx, s, object)
	case strings.HasSuffix(kind.Kind, "AdmissionPolicy"):
		s.addPolicy(object)
	default:
		webhooks, _, _ := unstructured.NestedSlice(object.Object, "webhooks")
		for _, webhook := range webhooks {
			fields, _ := webhook.(map[string]any)
			rules, _, _ := unstructured.NestedSlice(fields, "rules")
			s.addRules(rules, isExact(fields))
		}
	}
	return nil
}

// addPolicy adds the resources of a policy.
func (s *scope) addPolicy(policy *unstructured.Unstructured) {
	rules, _, _ := unstructured.NestedSlice(policy.Object, "spec", "matchConstraints", "resourceRules")
	s.addRules(rules, isExact(policy.Object, "spec", "matchConstraints"))
}

// addPolicyOf adds the resources of the policy that a binding names, which the state may have.
func (t *Trial) addPolicyOf(ctx context.Context, s *scope, binding *unstructured.Unstructured) error {
	policy := &unstructured.Unstructured{Object: map[string]any{}}
	policy.SetAPIVersion(binding.GetAPIVersion())
	policy.SetKind(strings.TrimSuffix(binding.GetKind(), "Binding"))
	name, _, _ := unstructured.NestedString(binding.Object, "spec", "policyName")
	policy.SetName(name)
	for _, side := range t.sides() {
		stored, err := side.reviewer.objectNamed(ctx, policy)
		if err != nil {
			return err
		}
		if stored != nil {
			s.addPolicy(stored)
		}
	}
	return nil
}

// isExact reports whether rules match no other group or version of the same objects.
func isExact(fields map[string]any, path ...string) bool {
	policy, _, _ := unstructured.NestedString(fields, append(path, "matchPolicy")...)
	return policy == string(admissionregistrationv1.Exact)
}

// addRules adds the resources of rules.
func (s *scope) addRules(rules []any, exact bool) {
	for _, rule := range rules {
		fields, _ := rule.(map[string]any)
		list := func(name string) []string {
			values, _, _ := unstructured.NestedStringSlice(fields, name)
			return values
		}
		s.rules = append(s.rules, scopeRule{groups: list("apiGroups"), resources: list("resources"),
			operations: list("operations"), inAnyGroup: !exact})
	}
}

// resourceOf returns the resource of an object's kind, and its mapping if the server that judges serves it.
func (r *Reviewer) resourceOf(object *unstructured.Unstructured) (schema.GroupVersionResource, *meta.RESTMapping) {
	if mapping, err := r.cluster.findKind(object); err == nil {
		return mapping.Resource, mapping
	}
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return resource, nil
}
