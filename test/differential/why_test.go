// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"gatehouse.dev/test/peers"
)

// agePattern matches an age, such as 3s ago.
var agePattern = regexp.MustCompile(`\w+ ago`)

// askWhy runs `gatehouse why` with a kube-apiserver, which records nothing. The command must say
// so, and show what the object's managedFields contain, to an administrator and to a user who may
// only read the object. It must not tell the user to ask for a role that kube-apiserver doesn't
// have.
func askWhy(ctx context.Context, t *testing.T, bin string, p *plainServer) {
	maps := p.client.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "greeting"},
		Data: map[string]string{"text": "hello"}}, metav1.CreateOptions{FieldManager: "kubectl-create"}); err != nil {
		t.Fatal(err)
	}
	force := true
	if _, err := maps.Patch(ctx, "greeting", types.ApplyPatchType,
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"greeting"},"data":{"tone":"warm"}}`),
		metav1.PatchOptions{FieldManager: "helm", Force: &force}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.client.RbacV1().Roles("default").Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.client.RbacV1().RoleBindings("default").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	mayRead := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "jane",
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: "default", Verb: "get",
			Resource: "configmaps"}}}
	if err := wait.PollUntilContextTimeout(ctx, peers.PollInterval, settleTimeout, true, func(ctx context.Context) (bool, error) {
		review, err := p.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, mayRead, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	}); err != nil {
		t.Fatal(err)
	}
	const nothing = "the server doesn't record decisions: it is not gatehouse, or was started with --decisions=false"
	for _, as := range [][]string{nil, {"--as=jane"}} {
		for about, want := range map[string][2]string{
			"configmap/greeting": {"helm (apply, TIME ago) data.tone kubectl-create (update, TIME ago) data.text",
				nothing},
			"cm/nonesuch":    {"", `configmaps "nonesuch" in namespace "default" not found, and ` + nothing},
			"an-audit-id":    {"", nothing},
			"--last-refused": {"", nothing},
		} {
			var stdout, stderr bytes.Buffer
			command := exec.CommandContext(ctx, filepath.Join(bin, peers.Gatehouse),
				append([]string{"why", "--kubeconfig=" + p.kubeconfig, about}, as...)...)
			command.Stdout, command.Stderr = &stdout, &stderr
			var failed *exec.ExitError
			if err := command.Run(); !errors.As(err, &failed) || failed.ExitCode() != 1 {
				t.Errorf("why %s %v: %v, and not exit code 1", about, as, err)
			}
			told := agePattern.ReplaceAllString(strings.Join(strings.Fields(stdout.String()), " "), "TIME ago")
			if !strings.Contains(told, want[0]) || want[0] == "" && told != "" ||
				!strings.Contains(stderr.String(), want[1]) {
				t.Errorf("why %s %v says\n%s%sand should say %q", about, as, stdout.String(), stderr.String(), want)
			}
		}
	}
}
