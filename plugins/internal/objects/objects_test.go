// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
)

func TestAs(t *testing.T) {
	a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "ns", "s",
		corev1.SchemeGroupVersion.WithResource("services"), "", admission.Create, &metav1.CreateOptions{}, false, nil)
	given := &corev1.Service{}
	if got, err := As[*corev1.Service]("Example", a, given); err != nil || got != given {
		t.Errorf("got %v, %v", got, err)
	}
	for object, want := range map[runtime.Object]string{
		&corev1.Pod{}: "Example: the object of a request for services is a *v1.Pod",
		nil:           "Example: the object of a request for services is a <nil>",
	} {
		if _, err := As[*corev1.Service]("Example", a, object); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
