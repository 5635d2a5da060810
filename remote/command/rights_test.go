// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin"
	"gatehouse.dev/remote/registration"
)

// What is missing is printed once, each rule with what of it is missing; after a minute the process
// ends. Rights that come meanwhile are seen. Time is the bubble's.
func TestAwaitRights(t *testing.T) {
	needed := rights{cluster: []rbacv1.PolicyRule{plugin.To("get list watch", "", "pods"), plugin.AskGates},
		namespaced: []rbacv1.PolicyRule{plugin.To("create", "", "secrets")}}
	for name, test := range map[string]struct {
		granted time.Duration // when; -1 for never
		lacks   func(a *authorizationv1.ResourceAttributes) bool
		prints  []string
		err     string
	}{
		"nothing": {lacks: func(*authorizationv1.ResourceAttributes) bool { return false }},
		"a verb, for ever": {granted: -1,
			lacks:  func(a *authorizationv1.ResourceAttributes) bool { return a.Verb == "watch" },
			prints: []string{"kind: ClusterRole\n", "  - pods\n  verbs:\n  - watch\n---"},
			err:    "the rights above are still missing after 1m0s"},
		"a right in the namespace, for a while": {granted: 10 * time.Second,
			lacks:  func(a *authorizationv1.ResourceAttributes) bool { return a.Namespace == "system" },
			prints: []string{"kind: Role\n", "  namespace: system\n", "  - secrets\n  verbs:\n  - create\n---"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin, client := time.Now(), fake.NewClientset()
				client.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool,
					runtime.Object, error) {
					review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
					granted := test.granted >= 0 && time.Since(begin) >= test.granted
					review.Status.Allowed = granted || !test.lacks(review.Spec.ResourceAttributes)
					return true, review, nil
				})
				var stderr bytes.Buffer
				err := awaitRights(context.Background(), client, &registration.Options{Name: "g", Namespace: "system"},
					needed, &stderr)
				if got := stderr.String(); strings.Count(got, "lacks rights") > 1 || got == "" != (test.prints == nil) {
					t.Errorf("it prints\n%s", got)
				}
				for _, want := range test.prints {
					if !strings.Contains(stderr.String(), want) {
						t.Errorf("it prints\n%s, want %s", &stderr, want)
					}
				}
				if err == nil && test.err != "" || err != nil && err.Error() != test.err {
					t.Errorf("got %v, want %s", err, test.err)
				}
				if took := time.Since(begin); test.granted >= 0 && took > test.granted+lookAgain {
					t.Errorf("it takes %s", took)
				}
			})
		})
	}
}
