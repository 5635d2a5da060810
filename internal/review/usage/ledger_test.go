// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package usage_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/quota"
	"gatehouse.dev/internal/review/usage"
)

var configMaps = schema.GroupResource{Resource: "configmaps"}

func limits(name string, hard int64) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"configmaps": *resource.NewQuantity(hard, resource.DecimalSI)}}}
}

func named(name string) usage.Key {
	return usage.Key{Resource: configMaps, Namespace: "shop", Name: name}
}

// used returns what the first quota of shop counts; "unknown" if it doesn't know.
func used(l *usage.Ledger) string {
	amount, known := l.Quotas("shop")[0].Status.Used["configmaps"]
	if !known {
		return "unknown"
	}
	return amount.String()
}

// A ledger counts what is there, also for a quota that comes later, until it is told that something isn't known.
func TestLedger(t *testing.T) {
	cost, err := quota.CostOf(configMaps, &metav1.PartialObjectMetadata{})
	if err != nil {
		t.Fatal(err)
	}
	l := usage.NewLedger()
	check := func(what, want string) {
		t.Helper()
		if got := used(l); got != want {
			t.Errorf("%s: %s is used, not %s", what, got, want)
		}
	}
	l.Set(named("a"), cost)
	l.PutQuota(limits("q", 5))
	check("a quota that comes later", "1")
	l.Set(named("b"), cost)
	l.Set(named("b"), cost)
	check("an object that is set twice", "2")
	l.Set(usage.Key{Resource: configMaps, Namespace: "farm", Name: "c"}, cost)
	check("an object of another namespace", "2")
	l.Set(named("a"), nil)
	l.Set(named("a"), nil)
	check("an object that is removed twice", "1")
	for _, name := range []string{usage.Unnamed + "1", usage.Unnamed + "2"} {
		l.Set(named(name), cost)
		l.Set(named(name), cost)
	}
	secrets := schema.GroupResource{Resource: "secrets"}
	if !l.HasUnnamed("shop", configMaps) || l.HasUnnamed("shop", secrets) || l.HasUnnamed("farm", configMaps) {
		t.Error("objects without a name are those that are there, of their resource and namespace")
	}
	for _, name := range []string{usage.Unnamed + "1", usage.Unnamed + "1", usage.Unnamed + "2"} {
		l.Set(named(name), nil)
	}
	if l.HasUnnamed("shop", configMaps) {
		t.Error("an object without a name is there that was removed")
	}
	l.Forget("shop", secrets)
	check("another resource that isn't known", "1")
	l.Forget("shop", configMaps)
	check("a resource that isn't known", "unknown")
	l.PutQuota(limits("other", 5))
	l.RemoveQuota("shop", "q")
	check("a quota that comes after that", "unknown")
	change := quota.Change{Resource: configMaps, New: cost}
	if !change.NeedsUnknown(l.Quotas("shop")) || (quota.Change{Resource: configMaps, Old: cost}).NeedsUnknown(l.Quotas("shop")) {
		t.Error("a creation needs what isn't known, and a deletion doesn't")
	}
}
