package gatehousetest_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gatehouse.dev/gatehousetest"
)

// A checkpoint has the rules that are aggregated to a ClusterRole: a reset that took them away would
// go on against the controller that aggregates them.
func TestCheckpointOfAggregatedClusterRoles(t *testing.T) {
	srv := gatehousetest.Start(t)
	admin := connect(t, srv.Config)
	watch := rbacv1.PolicyRule{Verbs: []string{"watch"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	list := rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}
	part := func(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"part-of": "keeper"}}, Rules: rules}
	}
	keeper := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "keeper"},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{
			{MatchLabels: map[string]string{"part-of": "keeper"}}, {MatchLabels: map[string]string{"part-of": "nothing"}}}},
	}
	for _, role := range []*rbacv1.ClusterRole{keeper, part("second", list, watch), part("first", watch)} {
		if err := admin.Create(t.Context(), role); err != nil {
			t.Fatal(err)
		}
	}
	before, err := srv.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(keeper), keeper); err != nil {
		t.Fatal(err)
	}
	if want := []rbacv1.PolicyRule{watch, list}; !equality.Semantic.DeepEqual(keeper.Rules, want) {
		t.Errorf("got %v, want %v", keeper.Rules, want)
	}
	if err := admin.Delete(t.Context(), part("second")); err != nil {
		t.Fatal(err)
	}
	if err := before.Reset(t.Context()); err != nil {
		t.Error(err)
	}
}
