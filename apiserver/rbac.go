// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/auth/rbac/reconciliation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// rbacInheritanceTasks returns tasks that carry an operator's changes over to new default roles and
// bindings. An aggregated role gets the rules of the role that aggregates it now. A binding split
// off another gets its subjects, labels and annotations. Otherwise rbacTasks would create the new
// ones with their defaults, and so grant again what was removed.
func rbacInheritanceTasks(client kubernetes.Interface) []task {
	var tasks []task
	roles, bindings := client.RbacV1().ClusterRoles(), client.RbacV1().ClusterRoleBindings()
	for from, to := range bootstrappolicy.ClusterRolesToAggregate() {
		tasks = append(tasks, task{"clusterrole " + to, func(ctx context.Context) error {
			if _, err := roles.Get(ctx, to, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return err
			}
			old, err := roles.Get(ctx, from, metav1.GetOptions{})
			if apierrors.IsNotFound(err) || err == nil && old.AggregationRule != nil {
				return nil // there is none, or it has no rules of its own
			} else if err != nil {
				return err
			}
			old.Name, old.ResourceVersion = to, ""
			_, err = roles.Create(ctx, old, metav1.CreateOptions{})
			return err
		}})
	}
	for from, template := range bootstrappolicy.ClusterRoleBindingsToSplit() {
		tasks = append(tasks, task{"clusterrolebinding " + template.Name, func(ctx context.Context) error {
			old, err := bindings.Get(ctx, from, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			} else if err != nil {
				return err
			}
			if _, err := bindings.Get(ctx, template.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return err
			}
			split := template.DeepCopy()
			split.Subjects, split.Labels, split.Annotations = old.Subjects, old.Labels, old.Annotations
			_, err = bindings.Create(ctx, split, metav1.CreateOptions{})
			return err
		}})
	}
	return tasks
}

// rbacTasks returns tasks that bring Kubernetes' default roles and bindings, and more roles, to
// what this version grants. They create missing objects, and add missing rules and subjects, except
// if an object says rbac.authorization.kubernetes.io/autoupdate=false. In a fresh cluster there is
// none to read first.
func rbacTasks(client kubernetes.Interface, more []rbacv1.ClusterRole, fresh bool) []task {
	var tasks []task
	role := func(object string, owner reconciliation.RuleOwner, modifier reconciliation.RuleOwnerModifier) {
		options := reconciliation.ReconcileRoleOptions{Role: owner, Client: modifier, Confirm: true}
		tasks = append(tasks, task{object, func(context.Context) error {
			if fresh {
				_, err := modifier.Create(owner)
				return err
			}
			_, err := options.Run()
			return err
		}})
	}
	binding := func(object string, b reconciliation.RoleBinding, modifier reconciliation.RoleBindingModifier) {
		options := reconciliation.ReconcileRoleBindingOptions{RoleBinding: b, Client: modifier, Confirm: true}
		tasks = append(tasks, task{object, func(context.Context) error {
			if fresh {
				_, err := modifier.Create(b)
				return err
			}
			_, err := options.Run()
			return err
		}})
	}
	rbac, namespaces := client.RbacV1(), client.CoreV1().Namespaces()
	for _, roles := range [][]rbacv1.ClusterRole{bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles(),
		more} {
		for _, r := range roles {
			role("clusterrole "+r.Name, reconciliation.ClusterRoleRuleOwner{ClusterRole: &r},
				reconciliation.ClusterRoleModifier{Client: rbac.ClusterRoles()})
		}
	}
	for _, bindings := range [][]rbacv1.ClusterRoleBinding{bootstrappolicy.ClusterRoleBindings(),
		bootstrappolicy.ControllerRoleBindings()} {
		for _, b := range bindings {
			binding("clusterrolebinding "+b.Name, reconciliation.ClusterRoleBindingAdapter{ClusterRoleBinding: &b},
				reconciliation.ClusterRoleBindingClientAdapter{Client: rbac.ClusterRoleBindings()})
		}
	}
	for namespace, roles := range bootstrappolicy.NamespaceRoles() {
		for _, r := range roles {
			role("role "+namespace+"/"+r.Name, reconciliation.RoleRuleOwner{Role: &r},
				reconciliation.RoleModifier{Client: rbac, NamespaceClient: namespaces})
		}
	}
	for namespace, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, b := range bindings {
			binding("rolebinding "+namespace+"/"+b.Name, reconciliation.RoleBindingAdapter{RoleBinding: &b},
				reconciliation.RoleBindingClientAdapter{Client: rbac, NamespaceClient: namespaces})
		}
	}
	return tasks
}
