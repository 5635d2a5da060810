// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"maps"
	"net"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controlplane/controller/defaultservicecidr"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// What an operator did to the roles of an older cluster holds for what they have become since. That
// older one had the binding system:discovery and not yet system:public-info-viewer, and the role
// edit with rules of its own and not yet one to aggregate. Source: upstream's
// TestPrimeSplitClusterRoleBindings and primeAggregatedClusterRoles.
func TestRolesOfAnOlderCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// The controller of aggregated roles would write the rules of edit, too.
	c := servertest.Connect(gatehousetest.StartIn(t, dir, gatehousetest.WithConfig(func(c *server.Config) { c.Controllers.Controllers = nil })))
	ctx, rbac := t.Context(), c.Client.RbacV1()

	old, err := rbac.ClusterRoleBindings().Get(ctx, "system:discovery", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old.Labels["example.com/kept"] = "label"
	old.Annotations = map[string]string{rbacv1.AutoUpdateAnnotationKey: "false", "example.com/kept": "annotation"}
	old.Subjects = append(old.Subjects,
		rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "staff"})
	if _, err := rbac.ClusterRoleBindings().Update(ctx, old, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := rbac.ClusterRoleBindings().Delete(ctx, "system:public-info-viewer", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	own := rbacv1.PolicyRule{APIGroups: []string{"example.com"}, Resources: []string{"widgets"},
		Verbs: []string{"create"}}
	edit, err := rbac.ClusterRoles().Get(ctx, "edit", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	edit.AggregationRule, edit.Rules = nil, []rbacv1.PolicyRule{own}
	if _, err := rbac.ClusterRoles().Update(ctx, edit, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := rbac.ClusterRoles().Delete(ctx, "system:aggregate-to-edit", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Stop()

	c = servertest.Connect(gatehousetest.StartIn(t, dir))
	rbac = c.Client.RbacV1()
	split, err := rbac.ClusterRoleBindings().Get(ctx, "system:public-info-viewer", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(split.Subjects, old.Subjects) {
		t.Errorf("the subjects are %v, want those of the old binding", split.Subjects)
	}
	if !maps.Equal(split.Labels, old.Labels) || !maps.Equal(split.Annotations, old.Annotations) {
		t.Errorf("the labels are %v and the annotations %v, want those of the old binding", split.Labels,
			split.Annotations)
	}
	// The operator had kept who isn't known from asking.
	if _, err := kubernetes.NewForConfigOrDie(rest.AnonymousClientConfig(c.Config)).Discovery().
		ServerVersion(); !apierrors.IsForbidden(err) {
		t.Errorf("the version for somebody anonymous: %v, want 403", err)
	}
	aggregated, err := rbac.ClusterRoles().Get(ctx, "system:aggregate-to-edit", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range aggregated.Rules {
		if rule.APIGroups[0] == "example.com" {
			return
		}
	}
	t.Errorf("the rules of system:aggregate-to-edit are %v, without the operator's own", aggregated.Rules)
}

// The default ServiceCIDR, which a start makes, is what Kubernetes' own controller would have made.
func TestDefaultServiceCIDR(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t)
	ctx, cidrs := t.Context(), c.Client.NetworkingV1().ServiceCIDRs()
	get := func() *networkingv1.ServiceCIDR {
		t.Helper()
		cidr, err := cidrs.Get(ctx, defaultservicecidr.DefaultServiceCIDRName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cidr.UID, cidr.ResourceVersion, cidr.CreationTimestamp = "", "", metav1.Time{}
		for i := range cidr.Status.Conditions {
			cidr.Status.Conditions[i].LastTransitionTime = metav1.Time{}
		}
		for i := range cidr.ManagedFields {
			cidr.ManagedFields[i].Time = nil
		}
		return cidr
	}
	made := get()
	if err := cidrs.Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, ips, err := net.ParseCIDR(made.Spec.CIDRs[0])
	if err != nil {
		t.Fatal(err)
	}
	defaultservicecidr.NewController(*ips, net.IPNet{}, c.Client).Start(ctx)
	if diff := cmp.Diff(get(), made); diff != "" {
		t.Errorf("the controller's (-) and that of the start (+):\n%s", diff)
	}
}

// A server that was ended while it started may have taken the IP of Service kubernetes, and not
// made the Service: the next one makes it all the same.
func TestIPOfAStartThatWasEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := gatehousetest.StartIn(t, dir)
	deleted, err := first.Etcd.Client().KV.Delete(t.Context(), "/registry/services/specs/default/kubernetes")
	if err != nil || deleted.Deleted != 1 {
		t.Fatalf("got %v, %v", deleted, err)
	}
	first.Stop()

	c := servertest.Connect(gatehousetest.StartIn(t, dir))
	service, err := c.Client.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	address, err := c.Client.NetworkingV1().IPAddresses().Get(t.Context(), service.Spec.ClusterIP, metav1.GetOptions{})
	if err != nil || address.Spec.ParentRef.Name != "kubernetes" {
		t.Errorf("got %v, %v", address, err)
	}
}
