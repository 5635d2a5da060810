package manifests

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/chain"
)

// Rights are what plugins need of the API: their Access, in their order, each rule once.
func Rights(plugins []chain.Descriptor) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for i := range plugins {
		for _, rule := range plugins[i].Access {
			same := func(r rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(r, rule) }
			if !slices.ContainsFunc(rules, same) {
				rules = append(rules, rule)
			}
		}
	}
	return rules
}

// named is the right to do something with one object only.
func named(rule rbacv1.PolicyRule, name string) rbacv1.PolicyRule {
	rule.ResourceNames = []string{name}
	return rule
}

// registering is what keeping the webhook configurations needs in the cluster. What doesn't exist
// yet has no name for a right.
func (o *Options) registering() []rbacv1.PolicyRule {
	const group = "admissionregistration.k8s.io"
	kinds := []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"}
	return []rbacv1.PolicyRule{
		chain.To("create", group, kinds...),
		named(chain.To("get list watch update delete", group, kinds...), o.Name),
		named(chain.To("get list watch", "", "namespaces"), o.Namespace),
	}
}

// keeping is what certificates and leader election need in the namespace.
func (o *Options) keeping() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		chain.To("create", "", "secrets"),
		named(chain.To("get list watch update delete", "", "secrets"), o.Name+"-certificates"),
		chain.To("create", "coordination.k8s.io", "leases"),
		named(chain.To("get update delete", "coordination.k8s.io", "leases"), o.Name),
	}
}

// access is the service account, and all that it may do.
func (o *Options) access() []runtime.Object {
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: o.Name}
	role := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: o.Name}
	}
	return []runtime.Object{
		&corev1.ServiceAccount{ObjectMeta: o.metadata(), AutomountServiceAccountToken: new(false)},
		&rbacv1.ClusterRole{ObjectMeta: o.clusterMetadata(),
			Rules: slices.Concat(o.registering(), Rights(o.Plugins))},
		&rbacv1.ClusterRoleBinding{ObjectMeta: o.clusterMetadata(), RoleRef: role("ClusterRole"),
			Subjects: []rbacv1.Subject{account}},
		&rbacv1.Role{ObjectMeta: o.metadata(), Rules: o.keeping()},
		&rbacv1.RoleBinding{ObjectMeta: o.metadata(), RoleRef: role("Role"), Subjects: []rbacv1.Subject{account}},
	}
}
