package e2e_test

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A controller that isn't allowed what it needs doesn't end the server, which says which one and
// why, and tries again: here nobody but administrators may ask what there is to delete.
func TestControllerThatCannotWork(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	srv := serve(t, "--data-dir="+dir)
	bindings := srv.client.RbacV1().ClusterRoleBindings()
	discovery, err := bindings.Get(t.Context(), "system:discovery", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	authenticated := discovery.Subjects
	discovery.Annotations[rbacv1.AutoUpdateAnnotationKey], discovery.Subjects = "false", nil
	if _, err := bindings.Update(t.Context(), discovery, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	srv.stop(t)

	srv = serve(t, "--data-dir="+dir)
	for _, name := range []string{"namespace-controller", "garbage-collector-controller"} {
		if _, err := srv.await(srv.stderr, `"Controller can't work.*err=.*forbidden.* controller="`+name+`"`,
			startTimeout); err != nil {
			t.Error(err)
		}
	}
	if err := createAndDeleteNamespace(t.Context(), srv.client, "stays"); err != nil {
		t.Fatal(err)
	}
	bindings = srv.client.RbacV1().ClusterRoleBindings()
	if discovery, err = bindings.Get(t.Context(), "system:discovery", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	discovery.Subjects = authenticated
	if _, err := bindings.Update(t.Context(), discovery, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	gone(t, srv.client, "stays")
	srv.stop(t)
}
