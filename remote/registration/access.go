// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"gatehouse.dev/plugin"
)

// Access returns the rights that the replicas need to keep configurations and certificates and to
// remove them: in the whole cluster, and in the installation's namespace. To create that namespace
// they need "create namespaces" too. ownCertificates says that they keep the certificates in a
// Secret.
func Access(o *Options, ownCertificates bool) (cluster, namespaced []rbacv1.PolicyRule) {
	i := o.Installation()
	only := func(rule rbacv1.PolicyRule, name string) rbacv1.PolicyRule {
		rule.ResourceNames = []string{name}
		return rule
	}
	const group = "admissionregistration.k8s.io"
	configurations := []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}
	cluster = []rbacv1.PolicyRule{
		// RBAC can't limit create to a name.
		plugin.To("create", group, configurations...),
		only(plugin.To("get list watch update delete", group, configurations...), i.Name),
		only(plugin.To("get update delete", group, "validatingwebhookconfigurations"), probeName(i)),
		only(plugin.To("get list watch", "", "namespaces"), i.Namespace),
		// By which it finds out who asks for its decisions.
		plugin.To("create", "authentication.k8s.io", "tokenreviews"),
	}
	namespaced = []rbacv1.PolicyRule{
		plugin.To("create", "coordination.k8s.io", "leases"),
		only(plugin.To("get update delete", "coordination.k8s.io", "leases"), i.Name),
	}
	if ownCertificates {
		namespaced = append(namespaced, plugin.To("create", "", "secrets"),
			only(plugin.To("get list watch update delete", "", "secrets"), i.SecretName()))
	}
	if o.Service != nil {
		namespaced = append(namespaced, plugin.To("list", "discovery.k8s.io", "endpointslices"))
	}
	return cluster, namespaced
}
