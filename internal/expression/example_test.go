// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/internal/expression"
)

func Example() {
	compiler := expression.NewCompiler()
	conditions := compiler.Compile([]admissionregistrationv1.MatchCondition{
		{Name: "exclude-nodes", Expression: "!('system:nodes' in request.userInfo.groups)"},
		{Name: "privileged-only",
			Expression: "object.spec.containers.exists(c, c.?securityContext.privileged.orValue(false))"},
	})

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web:1"}}},
	}
	alice := &user.DefaultInfo{Name: "alice", Groups: []string{"system:authenticated"}}
	request := func() *admissionv1.AdmissionRequest {
		return &admissionv1.AdmissionRequest{Name: "web",
			UserInfo: authenticationv1.UserInfo{Username: alice.Name, Groups: alice.Groups}}
	}
	object := func() (map[string]any, error) { return runtime.DefaultUnstructuredConverter.ToUnstructured(pod) }
	variables := expression.NewVariables(object, nil, request, alice, nil)

	verdict := conditions.Match(context.Background(), variables)
	fmt.Println(verdict.Matches, verdict.Failed, verdict.Errors)
	// Output: false privileged-only 0
}
