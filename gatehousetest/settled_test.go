// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package gatehousetest_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

// A checkpoint has the rules that are aggregated to ClusterRoles: a reset that took them away would
// go on against the controller that aggregates them. There are many, so that the controller isn't
// through when the checkpoint is asked for.
func TestCheckpointOfAggregatedClusterRoles(t *testing.T) {
	srv := gatehousetest.Start(t)
	admin := connect(t, srv.Config)
	rule := func(verb string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods"}}
	}
	part := func(name string, verbs ...string) *rbacv1.ClusterRole {
		role := &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"part-of": "all"}}}
		for _, verb := range verbs {
			role.Rules = append(role.Rules, rule(verb))
		}
		return role
	}
	selectors := []metav1.LabelSelector{{MatchLabels: map[string]string{"part-of": "nothing"}},
		{MatchLabels: map[string]string{"part-of": "all"}}}
	var roles []*rbacv1.ClusterRole
	for i := range 100 {
		roles = append(roles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("keeper-%d", i)},
			AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: selectors}})
	}
	for _, role := range append(slices.Clone(roles), part("second", "list", "watch"), part("first", "watch")) {
		if err := admin.Create(t.Context(), role); err != nil {
			t.Fatal(err)
		}
	}
	before, err := srv.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.PolicyRule{rule("watch"), rule("list")}
	for _, role := range roles {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(role), role); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(role.Rules, want) {
			t.Fatalf("%s has %v, want %v", role.Name, role.Rules, want)
		}
	}
	if err := admin.Delete(t.Context(), part("second")); err != nil {
		t.Fatal(err)
	}
	if err := before.Reset(t.Context()); err != nil {
		t.Error(err)
	}
}

// A reset leaves alone what the server says of itself: a checkpoint may be older than that, and
// what is taken away the server writes again.
func TestResetLeavesTheServersOwn(t *testing.T) {
	srv := gatehousetest.Start(t)
	admin := connect(t, srv.Config)
	before, err := srv.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	trust := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "extension-apiserver-authentication", Namespace: "kube-system"}}
	servertest.Eventually(t, "whom the server trusts", func() bool {
		return admin.Get(t.Context(), client.ObjectKeyFromObject(trust), trust) == nil
	})
	seen := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"seen":"true"}}}`))
	if err := admin.Patch(t.Context(), trust, seen); err != nil {
		t.Fatal(err)
	}
	if err := before.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	uid := trust.UID
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(trust), trust); err != nil {
		t.Fatal(err)
	}
	if trust.UID != uid || trust.Annotations["seen"] == "" {
		t.Errorf("it is another one: %v", trust.ObjectMeta)
	}
}
