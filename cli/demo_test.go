// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"gatehouse.dev/test/needs"
)

// Elsewhere than at a terminal the tour runs to its end, and every answer is the server's own.
func TestDemo(t *testing.T) {
	needs.Server(t)
	stdout, stderr, code := runProgram(t, "demo")
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d, %s\n%s", code, stderr, stdout)
	}
	rest := stdout
	for _, want := range []string{ // in this order
		"1 of 5: ", "$ kubectl apply -f - <<END\n{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\nEND\n  201 Created\n",
		"{containers: [{name: web, image: nginx:1.29}]}\nEND\n  201 Created\n", "Admitted    CREATE ", "  changed   by ",
		"2 of 5: ", "$ kubectl delete namespace default\n  403 Forbidden: namespaces \"default\" is forbidden: this namespace may not be deleted\n",
		"3 of 5: ", "$ gatehouse why namespace/default\nnamespaces/default", "Refused     DELETE ", "  to pass   ",
		"4 of 5: ", "kind: ValidatingAdmissionPolicy\n", "  201 Created\n", "kind: ValidatingAdmissionPolicyBinding\n", "  201 Created\n",
		"image: nginx:latest}]}\nEND\n  422 Unprocessable Entity: ", "name the image's version\n",
		"$ gatehouse why pod/latest -n shop\npods/latest in namespace shop (not stored)\n\nRefused     CREATE ",
		"5 of 5: ", "kind: ResourceQuota\nmetadata: {name: one-pod, namespace: shop}\nspec: {hard: {pods: 1}}\nEND\n  201 Created\n",
		"metadata: {name: second, namespace: shop}\n", "END\n  403 Forbidden: ", "exceeded quota: one-pod",
		"$ gatehouse why pod/second -n shop\npods/second in namespace shop (not stored)\n\nRefused     CREATE ", "That was the tour", "gatehouse serve  ",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("it doesn't say %q after the rest:\n%s", want, stdout)
		}
		rest = after
	}
	if strings.Contains(stdout, "look around") {
		t.Errorf("nobody can look around in a tour that doesn't wait:\n%s", stdout)
	}
	if strings.Contains(stdout, "\x1b") {
		t.Errorf("text that isn't for a terminal has escape sequences:\n%q", stdout)
	}
}

// A step with another result than the tour says ends it.
func TestDemoChecksAnswers(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("exceeded quota: one-pod"))
	for name, test := range map[string]struct {
		err          error
		answer, want string
	}{
		"admitted":       {nil, "403", "should answer with 403"},
		"another code":   {forbidden, "422", "should answer with 422"},
		"another reason": {forbidden, "403 two-pods", "should answer with 403 two-pods"},
		"no answer":      {context.Canceled, "403", "context canceled"},
		"as it should":   {forbidden, "403 exceeded quota: one-pod", ""},
	} {
		got := ""
		if err := (&tour{out: io.Discard}).expect(test.answer, test.err, http.StatusCreated); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
