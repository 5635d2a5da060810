// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"gatehouse.dev/plugin"
)

// VerdictOf agrees with the answer of Kubernetes' API server.
func TestVerdictOf(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("no"))
	for name, test := range map[string]struct {
		err  error
		want plugin.Verdict
	}{
		"forbidden":         {forbidden, plugin.Refused},
		"wrapped forbidden": {fmt.Errorf("plugin: %w", forbidden), plugin.Failed},
		"conflict":          {apierrors.NewConflict(schema.GroupResource{}, "p", errors.New("changed")), plugin.Refused},
		"internal":          {apierrors.NewInternalError(errors.New("broken")), plugin.Failed},
		"timeout":           {apierrors.NewTimeoutError("slow", 1), plugin.Failed},
		"plain":             {errors.New("broken"), plugin.Failed},
		"without code":      {&apierrors.StatusError{ErrStatus: metav1.Status{Message: "no code"}}, plugin.Failed},
	} {
		verdict, code := plugin.VerdictOf(test.err)
		if want := responsewriters.ErrorToAPIStatus(test.err).Code; verdict != test.want || code != want {
			t.Errorf("%s: %s, %d; want %s, %d", name, verdict, code, test.want, want)
		}
	}
	if verdict, code := plugin.VerdictOf(nil); verdict != plugin.Admitted || code != 200 {
		t.Errorf("nil: %s, %d", verdict, code)
	}
}
