// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/lint"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/plugin"
)

// ReadersOf returns the names of the plugins of a list that run by default and that judge other objects by one of the
// documents: they enforce it, or read objects of its kind.
func ReadersOf(list []plugin.Descriptor, documents []input.Document) []string {
	return namesOf(list, documents, func(d *plugin.Descriptor, o *unstructured.Unstructured) bool { return d.Default && reads(d, o) })
}

// EnforcersOf returns the names of the plugins of a list without which one of the documents has no effect. It leaves out
// those of quotas.
func EnforcersOf(list []plugin.Descriptor, documents []input.Document) []string {
	return namesOf(list, documents, func(d *plugin.Descriptor, o *unstructured.Unstructured) bool {
		is, known := enforces(d, o)
		return is && known && o.GroupVersionKind().GroupKind() != quotaKind
	})
}

func namesOf(list []plugin.Descriptor, documents []input.Document,
	is func(*plugin.Descriptor, *unstructured.Unstructured) bool) []string {
	var names []string
	for _, d := range list {
		if slices.ContainsFunc(documents, func(document input.Document) bool { return is(&d, document.Object) }) {
			names = append(names, d.Name)
		}
	}
	return names
}

// enforces reports whether an object has no effect without a plugin. known is false if that can't be said of objects of
// its kind.
func enforces(d *plugin.Descriptor, object *unstructured.Unstructured) (is, known bool) {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	for _, e := range d.Server.Enforces {
		if e.Resource != resource.GroupResource() {
			continue
		}
		known, is = true, e.Labels == ""
		for label := range object.GetLabels() {
			is = is || strings.HasPrefix(label, e.Labels)
		}
	}
	return is, known
}

// reads reports whether a plugin judges other objects by an object. Pods are only counted, or looked up by their names.
func reads(d *plugin.Descriptor, object *unstructured.Unstructured) bool {
	if is, known := enforces(d, object); known {
		return is
	}
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return resource.GroupResource() != corev1.Resource("pods") && slices.ContainsFunc(d.Access, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Verbs, "list") && slices.Contains(r.APIGroups, resource.Group) &&
			slices.Contains(r.Resources, resource.Resource)
	})
}

// readers returns the running plugins of both sides that judge other objects by an object.
func (t *Trial) readers(object *unstructured.Unstructured) (all []plugin.Descriptor) {
	for _, side := range t.sides() {
		for _, d := range side.reviewer.cluster.server.Plugins() {
			if reads(&d, object) {
				all = append(all, d)
			}
		}
	}
	return all
}

// sides returns the judges that there are.
func (t *Trial) sides() []*Judge {
	if t.before == nil {
		return []*Judge{t.candidate}
	}
	return []*Judge{t.candidate, t.before}
}

// decidingAPIs are the kinds of policies, bindings and webhook configurations.
var decidingAPIs = []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy",
	"MutatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}

// deciders returns the policies, bindings and webhook configurations that the reviewer's server has.
func (r *Reviewer) deciders(ctx context.Context) (all []*unstructured.Unstructured, _ error) {
	for _, kind := range decidingAPIs {
		objects, err := r.objectsOf(ctx, admissionregistrationv1.SchemeGroupVersion.WithKind(kind))
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// objectsOf returns the objects of a kind that the reviewer's server has; none if it doesn't serve the kind.
func (r *Reviewer) objectsOf(ctx context.Context, kind schema.GroupVersionKind) (all []*unstructured.Unstructured, _ error) {
	like := &unstructured.Unstructured{}
	like.SetGroupVersionKind(kind)
	if _, err := r.cluster.findKind(like); err != nil {
		return nil, nil
	}
	items, err := r.list(ctx, like)
	for _, item := range items {
		all = append(all, &unstructured.Unstructured{Object: item})
		all[len(all)-1].SetGroupVersionKind(kind)
	}
	return all, err
}

// addRead adds the resources whose objects are judged by an object that is no policy and the like.
func (t *Trial) addRead(s *scope, object *unstructured.Unstructured) {
	kind, namespace := object.GroupVersionKind(), t.candidate.reviewer.scopedNamespace(object)
	isNamespace := kind.GroupKind() == schema.GroupKind{Kind: "Namespace"}
	if isNamespace {
		namespace = object.GetName()
	}
	for _, d := range t.readers(object) {
		s.addPlugin(&d, namespace, false)
	}
	switch {
	case kind.GroupKind() == definitionKind: // by the schema
		group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(object.Object, "spec", "names", "plural")
		s.rules = append(s.rules, scopeRule{[]string{group}, []string{plural + "/*"}, []string{"*"}, "", false})
	case kind.Group == rbacv1.GroupName:
		s.all = true
	case isNamespace && len(t.deciders) > 0: // by their selectors
		s.rules = append(s.rules, scopeRule{[]string{"*"}, []string{"*/*"}, []string{"*"}, namespace, false})
	}
	for _, policy := range t.deciders {
		if hasKind(live.ParamKinds([]*unstructured.Unstructured{policy}), kind.GroupKind()) {
			s.addPolicy(policy)
		}
	}
}

// checkActs returns an error if nothing of the candidate, and of what it is compared with, can act. Otherwise notes say
// which parts can't.
func (t *Trial) checkActs(ctx context.Context) error {
	o := &t.options
	acts := t.before == nil || o.OtherPlugins || len(o.PodSecurity) > 0
	var notes []string
	for i, documents := range [][]input.Document{o.Candidate, o.Against} {
		if i == len(t.sides()) || len(documents) == 0 {
			continue
		}
		r := t.sides()[i].reviewer
		deciders, err := r.deciders(ctx)
		if err != nil {
			return err
		}
		t.deciders = append(t.deciders, deciders...)
		idle, err := r.findIdle(ctx, documents)
		if err != nil {
			return err
		}
		notes = append(notes, idle.notes...)
		for _, d := range documents {
			switch isDecider := d.Object.GroupVersionKind().Group == admissionregistrationv1.GroupName; {
			case isDecider && !idle.has(d.Object), !isDecider && t.isRead(d.Object):
				acts = true
			case isDecider && t.before != nil: // it may take the place of one that acts
				replaced, err := t.before.reviewer.objectNamed(ctx, d.Object)
				if err != nil {
					return err
				}
				acts = acts || replaced != nil
			case !isDecider:
				notes = append(notes, fmt.Sprintf("%s: %s: nothing reads it: no policy, and no plugin that runs", d.Source,
					input.Named(d.Object)))
			}
		}
	}
	if !acts {
		return errors.New("nothing of the candidate can act:\n  " + strings.Join(notes, "\n  "))
	}
	t.notes = append(t.notes, notes...)
	return nil
}

// isRead reports whether anything is judged by an object that is no policy and the like.
func (t *Trial) isRead(object *unstructured.Unstructured) bool {
	if kind := object.GroupVersionKind(); kind.GroupKind() == quotaKind || isHeaderKind(kind) {
		return true
	}
	s := &scope{}
	t.addRead(s, object)
	return s.all || len(s.rules) > 0
}

// An idleness says which policies, bindings and webhook configurations can't act.
type idleness struct {
	idle map[lint.Object]bool
	// notes are lint's findings about those that were asked about.
	notes []string
}

func (i *idleness) has(o *unstructured.Unstructured) bool { return i.idle[nameOf(o)] }

func nameOf(o *unstructured.Unstructured) lint.Object {
	return lint.Object{Kind: o.GetKind(), Name: o.GetName()}
}

// findIdle finds which of the documents can't act, among all that the reviewer's server has.
func (r *Reviewer) findIdle(ctx context.Context, documents []input.Document) (*idleness, error) {
	found, sources := &idleness{idle: map[lint.Object]bool{}}, map[lint.Object]input.Source{}
	for _, d := range documents {
		if d.Object.GroupVersionKind().Group == admissionregistrationv1.GroupName {
			sources[nameOf(d.Object)] = d.Source
		}
	}
	if len(sources) == 0 {
		return found, nil
	}
	deciders, err := r.deciders(ctx)
	if err != nil {
		return nil, err
	}
	options := lint.Options{Complete: r.isWhole, Namespace: r.namespace(), KnowsParams: true}
	for _, object := range deciders {
		options.Documents = append(options.Documents, input.Document{Source: sources[nameOf(object)], Object: object})
	}
	kinds := live.ParamKinds(deciders)
	kinds[corev1.SchemeGroupVersion.WithKind("Namespace")], kinds[definitions] = true, true
	for kind := range kinds {
		objects, err := r.objectsOf(ctx, kind)
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			options.Documents = append(options.Documents, input.Document{Object: object})
		}
	}
	_, lists, err := r.cluster.discovery.ServerGroupsAndResources()
	if err != nil {
		return nil, err
	}
	options.Served = servedIn(lists)
	findings, err := lint.Idle(ctx, options)
	if err != nil {
		return nil, err
	}
	told := map[lint.Object]bool{}
	for _, f := range findings {
		name := lint.Object{Kind: f.Object.Kind, Name: f.Object.Name}
		found.idle[name] = found.idle[name] || lint.IsIdle(&f)
		if source, asked := sources[name]; asked {
			told[name] = true
			found.notes = append(found.notes, fmt.Sprintf("%s: %s: %s: %s (%s of gatehouse lint)", source, f.Object, f.Message, f.Remedy,
				f.ID))
		}
	}
	for _, object := range deciders {
		name := nameOf(object)
		if strings.HasSuffix(object.GetKind(), "Binding") || r.matchesServed(object, lists) {
			continue
		}
		if source, asked := sources[name]; asked && !told[name] {
			found.notes = append(found.notes, fmt.Sprintf("%s: %s: its rules name no resource that is served: it judges nothing", source,
				input.Named(object)))
		}
		found.idle[name] = true
	}
	found.spread(deciders)
	return found, nil
}

// spread makes idle the policies all of whose bindings are, and the bindings of policies that are.
func (i *idleness) spread(deciders []*unstructured.Unstructured) {
	bound := map[lint.Object]bool{}
	policyOf := func(binding *unstructured.Unstructured) lint.Object {
		name, _, _ := unstructured.NestedString(binding.Object, "spec", "policyName")
		return lint.Object{Kind: strings.TrimSuffix(binding.GetKind(), "Binding"), Name: name}
	}
	for _, o := range deciders {
		if strings.HasSuffix(o.GetKind(), "Binding") && !i.has(o) {
			bound[policyOf(o)] = true
		}
	}
	for _, o := range deciders {
		if strings.HasSuffix(o.GetKind(), "Policy") {
			i.idle[nameOf(o)] = i.has(o) || !bound[nameOf(o)]
		}
	}
	for _, o := range deciders {
		if strings.HasSuffix(o.GetKind(), "Binding") {
			i.idle[nameOf(o)] = i.has(o) || i.idle[policyOf(o)]
		}
	}
}

// matchesServed reports whether a policy or a webhook configuration has a rule for a resource that is served, or for one
// of a group whose CustomResourceDefinitions may not be known.
func (r *Reviewer) matchesServed(o *unstructured.Unstructured, lists []*metav1.APIResourceList) bool {
	rules, _, _ := unstructured.NestedSlice(o.Object, "spec", "matchConstraints", "resourceRules")
	webhooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	for _, webhook := range webhooks {
		fields, _ := webhook.(map[string]any)
		more, _, _ := unstructured.NestedSlice(fields, "rules")
		rules = append(rules, more...)
	}
	s, groups := &scope{}, map[string]bool{}
	s.addRules(rules, true)
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return true
		}
		groups[version.Group] = true
		for _, resource := range list.APIResources {
			name, subresource, _ := strings.Cut(resource.Name, "/")
			for _, operation := range plugin.EveryOperation {
				if s.matchesRequest(schema.GroupResource{Group: version.Group, Resource: name}, subresource, string(operation)) {
					return true
				}
			}
		}
	}
	return !r.isWhole && slices.ContainsFunc(s.rules, func(r scopeRule) bool {
		return slices.ContainsFunc(r.groups, func(group string) bool { return strings.Contains(group, ".") && !groups[group] })
	})
}

// servedIn returns the kinds of lists of resources.
func servedIn(lists []*metav1.APIResourceList) (all []lint.Served) {
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			if !strings.Contains(resource.Name, "/") {
				all = append(all, lint.Served{Kind: version.WithKind(resource.Kind), Resource: resource.Name})
			}
		}
	}
	return all
}
