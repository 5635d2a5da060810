// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/plugin"
	"gatehouse.dev/remote/registration"
)

// Rights returns the rights that plugins need of the API: their Access, in order, each rule once.
func Rights(plugins []plugin.Descriptor) []rbacv1.PolicyRule {
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

// access returns the service account, and its roles and bindings.
func (o *Options) access() []runtime.Object {
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: o.Namespace, Name: o.Name}
	role := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: o.Name}
	}
	options := &registration.Options{Name: o.Name, Namespace: o.Namespace,
		Service: &registration.Service{Namespace: o.Namespace, Name: o.Name}}
	cluster, namespaced := registration.Access(options, true)
	namespaced = append(namespaced, registration.RemovalAccess(options.Installation())...)
	// By it a replica finds out who may see its decisions. It can serve without.
	readers := []rbacv1.PolicyRule{plugin.To("create", "authorization.k8s.io", "subjectaccessreviews")}
	return []runtime.Object{
		&corev1.ServiceAccount{ObjectMeta: o.metadata(), AutomountServiceAccountToken: new(false)},
		&rbacv1.ClusterRole{ObjectMeta: o.clusterMetadata(), Rules: slices.Concat(cluster, readers, Rights(o.Plugins))},
		&rbacv1.ClusterRoleBinding{ObjectMeta: o.clusterMetadata(), RoleRef: role("ClusterRole"),
			Subjects: []rbacv1.Subject{account}},
		&rbacv1.Role{ObjectMeta: o.metadata(), Rules: namespaced},
		&rbacv1.RoleBinding{ObjectMeta: o.metadata(), RoleRef: role("Role"), Subjects: []rbacv1.Subject{account}},
	}
}
