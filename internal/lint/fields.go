// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/internal/inventory"
)

var fieldRules = []Rule{
	{"config-version", Error, "a configuration is in an API version that Kubernetes removed", (*linting).configVersion},
	{"removed-version", Warning, "a rule names a version of a resource that isn't served", (*linting).removedVersion},
	{"deprecated-version", Warning, "a rule names only a deprecated version of a resource", (*linting).deprecatedVersion},
	{"match-policy-exact", Warning, "requests in another version pass a webhook by", (*linting).matchPolicyExact},
	{"side-effects", Error, "sideEffects is one that v1 refuses", (*linting).sideEffects},
	{"review-versions", Error, "admissionReviewVersions lacks v1", (*linting).reviewVersions},
	{"exempt-resources", Warning, "a rule names resources about which nobody is asked", (*linting).exemptResources},
}

func (l *linting) configVersion() {
	for _, w := range l.Webhooks {
		o := w.Document.Object
		if o.GetAPIVersion() == admissionregistrationv1.SchemeGroupVersion.String() || w.Index > 0 {
			continue // it is one finding of the configuration
		}
		l.add(place{w.Document, "/apiVersion", ""}, Error,
			patched(false, "replace", "/apiVersion", admissionregistrationv1.SchemeGroupVersion.String()),
			fmt.Sprintf("API servers since Kubernetes 1.22 refuse %s", o.GetAPIVersion()),
			"use admissionregistration.k8s.io/v1, and set sideEffects and admissionReviewVersions, which it requires")
	}
}

func (l *linting) removedVersion() {
	for _, w := range l.Webhooks {
		for n, r := range w.Rules {
			l.removedIn(place{w.Document, fmt.Sprintf("%s/%d", w.Path("/rules"), n), w.Name}, &r)
		}
	}
	for _, p := range l.Policies {
		if p.Constraints == nil {
			continue
		}
		for n, r := range p.Constraints.ResourceRules {
			l.removedIn(place{p.Document, fmt.Sprintf("/spec/matchConstraints/resourceRules/%d", n), ""}, &r.RuleWithOperations)
		}
	}
}

// removedIn looks for versions that none of a rule's resources is served in.
func (l *linting) removedIn(p place, r *admissionregistrationv1.RuleWithOperations) {
	removed := 0 // by the patches before
	for i, version := range r.APIVersions {
		why, gone := l.versionIsGone(r, version)
		if !gone {
			continue
		}
		c := change{}
		if slices.ContainsFunc(r.APIVersions, func(other string) bool {
			_, gone := l.versionIsGone(r, other)
			return !gone
		}) {
			c = patched(true, "remove", fmt.Sprintf("%s/apiVersions/%d", p.path, i-removed), nil)
			if _, ignored := ignoredFor(p.document.Object, l.rule.ID); !ignored && !l.options.alone {
				removed++
			}
		}
		at := p
		at.path = fmt.Sprintf("%s/apiVersions/%d", p.path, i)
		l.add(at, Warning, c, fmt.Sprintf("version %s of %s isn't served: %s. The rule has no effect for it", version,
			sentence(r.Resources), why), "leave the version out, or name one that is served")
	}
}

// versionIsGone reports whether a version of a rule is served for none of its resources, and why.
func (l *linting) versionIsGone(r *admissionregistrationv1.RuleWithOperations, version string) (why string, gone bool) {
	if version == "*" {
		return "", false
	}
	for _, group := range r.APIGroups {
		for _, pattern := range r.Resources {
			resource, _, _ := strings.Cut(pattern, "/")
			if group == "*" || resource == "*" {
				return "", false
			}
			known := l.versions(group, resource)
			if known == nil || !l.hasGroup(group) {
				return "", false
			}
			v, has := known[version]
			switch {
			case has && v.removed == "":
				return "", false
			case has:
				why = v.removed
			case why == "":
				why = "there is no such version"
			}
		}
	}
	return why, why != ""
}

func (l *linting) deprecatedVersion() {
	for _, w := range l.Webhooks {
		for n, r := range w.Rules {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					l.deprecatedIn(w, n, &r, group, resource)
				}
			}
		}
	}
}

func (l *linting) deprecatedIn(w *inventory.Webhook, n int, r *admissionregistrationv1.RuleWithOperations, group,
	resource string) {
	known := l.versions(group, resource)
	var deprecated []string
	for _, version := range r.APIVersions {
		v, has := known[version]
		if !has || v.removed != "" || v.deprecated == "" {
			return
		}
		deprecated = append(deprecated, v.deprecated)
	}
	if len(deprecated) > 0 {
		l.add(at(w, fmt.Sprintf("rules/%d/apiVersions", n)), Warning, change{}, fmt.Sprintf("for %s the rule names only %s, "+
			"which %s: once it isn't served any more, the webhook isn't asked", resource, sentence(r.APIVersions),
			deprecated[0]), "name the version that replaces it too")
	}
}

// matchPolicyExact looks for versions of a resource that the rules don't name.
func (l *linting) matchPolicyExact() {
	for _, w := range l.Webhooks {
		if *w.MatchPolicy != admissionregistrationv1.Exact {
			continue
		}
		var missed []string
		for _, r := range w.Rules {
			for _, group := range r.APIGroups {
				for _, pattern := range r.Resources {
					resource, _, _ := strings.Cut(pattern, "/")
					for _, version := range l.missedVersions(w, group, resource) {
						if word := version + " of " + resource; !slices.Contains(missed, word) {
							missed = append(missed, word)
						}
					}
				}
			}
		}
		if len(missed) > 0 {
			l.add(at(w, "matchPolicy"), Warning, patched(false, "replace", w.Path("/matchPolicy"), "Equivalent"),
				"with matchPolicy Exact it isn't asked about requests in "+sentence(missed)+
					": whoever uses another version passes it by",
				"set matchPolicy to Equivalent: API servers then convert objects to a version that the rules name")
		}
	}
}

// missedVersions returns the served versions of a resource that no rule of a webhook is for. If the versions
// aren't known, one that may come counts.
func (l *linting) missedVersions(w *inventory.Webhook, group, resource string) (missed []string) {
	if group == "*" || resource == "*" {
		return nil
	}
	known := l.versions(group, resource)
	for _, version := range sortedKeys(known) {
		if known[version].removed == "" && !covers(w, group, version, resource) {
			missed = append(missed, group+"/"+version)
		}
	}
	if known == nil && !covers(w, group, "any other version", resource) {
		missed = append(missed, "another version of "+group)
	}
	return missed
}

// covers reports whether a rule of a webhook is for a version of a resource.
func covers(w *inventory.Webhook, group, version, resource string) bool {
	has := func(list []string, value string) bool {
		return slices.Contains(list, value) || slices.Contains(list, "*")
	}
	return slices.ContainsFunc(w.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
		return has(r.APIGroups, group) && has(r.APIVersions, version) &&
			slices.ContainsFunc(r.Resources, func(pattern string) bool {
				name, _, _ := strings.Cut(pattern, "/")
				return name == resource || name == "*"
			})
	})
}

func (l *linting) sideEffects() {
	for _, w := range l.Webhooks {
		const remedy = "set sideEffects to None, or to NoneOnDryRun if the webhook changes something outside the object " +
			"and leaves that out when request.dryRun is true"
		switch s := w.SideEffects; {
		case s == nil:
			l.add(at(w, ""), Error, patched(false, "add", w.Path("/sideEffects"), "None"),
				"sideEffects isn't set: API servers refuse the configuration", remedy)
		case *s != admissionregistrationv1.SideEffectClassNone && *s != admissionregistrationv1.SideEffectClassNoneOnDryRun:
			l.add(at(w, "sideEffects"), Error, patched(false, "replace", w.Path("/sideEffects"), "None"),
				fmt.Sprintf("sideEffects is %s: API servers refuse the configuration, and an old one with it refuses every "+
					"dry run", *s), remedy)
		}
	}
}

func (l *linting) reviewVersions() {
	for _, w := range l.Webhooks {
		versions := w.AdmissionReviewVersions
		const remedy = "let the webhook answer reviews of admission.k8s.io/v1, and name v1 first"
		switch {
		case slices.Contains(versions, "v1"):
		case slices.Contains(versions, "v1beta1"):
			l.add(at(w, "admissionReviewVersions"), Warning, change{},
				"admissionReviewVersions has only v1beta1, which a later Kubernetes may no longer send: the webhook's calls "+
					"fail then", remedy)
		default:
			l.add(at(w, "admissionReviewVersions"), Error, change{},
				"admissionReviewVersions has no version that API servers know: they refuse the configuration", remedy)
		}
	}
}
