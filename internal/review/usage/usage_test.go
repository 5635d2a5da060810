// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package usage_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/review/usage"
)

// Whether a quota counts a resource is asked for each object, so it costs nothing that grows with the namespaces.
func TestCounts(t *testing.T) {
	q := &usage.Quotas{}
	for i := range 1000 {
		other := limits("q", 1)
		other.Namespace = fmt.Sprint("other-", i)
		q.Put(other)
	}
	q.Put(limits("q", 1))
	services := limits("services", 1)
	services.Spec.Hard = corev1.ResourceList{"services": services.Spec.Hard["configmaps"]}
	q.Put(services)
	for _, test := range []struct {
		namespace, resource string
		want                bool
	}{
		{"shop", "configmaps", true},
		{"shop", "services", true},
		{"shop", "secrets", false},
		{"other-7", "configmaps", true},
		{"other-7", "services", false},
		{"without", "configmaps", false},
		{"", "services", true},
		{"", "secrets", false},
	} {
		resource := schema.GroupResource{Resource: test.resource}
		if got := q.Counts(test.namespace, resource); got != test.want {
			t.Errorf("that a quota of namespace %q counts %s is %t", test.namespace, test.resource, got)
		}
	}
	if n := testing.AllocsPerRun(10, func() { q.Counts("shop", configMaps) }); n > 3 {
		t.Errorf("asking for one namespace of 1,000 allocates %v times", n)
	}
}
