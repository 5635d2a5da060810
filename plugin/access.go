// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// To returns a right for a Descriptor's Access: verbs, separated by spaces, on resources of an API group
// or on their subresources, written as in "pods/status".
func To(verbs, group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: resources}
}

// AskAuthorizer is the right of a plugin that uses Env's Authorizer. Outside an API server, the
// Authorizer asks the API server.
var AskAuthorizer = To("create", "authorization.k8s.io", "subjectaccessreviews")

// AskGates is the right of a plugin that uses Env's Features, or has a Gate. An API server shows its
// feature gates in its metrics.
var AskGates = rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}

// Rights returns the plugin's Access, one by one and sorted: "get pods", "update
// resourcequotas/status", "create subjectaccessreviews.authorization.k8s.io", "get /metrics".
func (d *Descriptor) Rights() []string {
	var rights []string
	for _, rule := range d.Access {
		for _, url := range rule.NonResourceURLs {
			for _, verb := range rule.Verbs {
				rights = append(rights, verb+" "+url)
			}
		}
		for _, group := range rule.APIGroups {
			for _, written := range rule.Resources {
				resource := AccessTo(group, written)
				for _, verb := range rule.Verbs {
					rights = append(rights, verb+" "+resource.String())
				}
			}
		}
	}
	slices.Sort(rights)
	return slices.Compact(rights)
}

// AccessTo returns the Resource of a rule that names it as in "pods/status".
func AccessTo(group, written string) Resource {
	resource, subresource, _ := strings.Cut(written, "/")
	return Resource{group, resource, subresource}
}
