// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// A line of the decision log is a decision as the API serves it.
func TestDecisionLog(t *testing.T) {
	ns := namespace(t)
	if _, err := client.CoreV1().Pods(ns).Create(t.Context(), pod("p", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Pods(ns).Create(t.Context(), pod("P", nil), metav1.CreateOptions{}); err == nil {
		t.Fatal("not refused")
	}
	if err := client.CoreV1().Pods(ns).Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	logged := func() map[string]any {
		found := map[string]any{}
		for _, d := range lines[map[string]any](t, decisionLog) {
			if about, _ := d["request"].(map[string]any); about["namespace"] == ns {
				found[d["metadata"].(map[string]any)["name"].(string)] = d
			}
		}
		return found
	}
	list, err := cluster.Dynamic.Resource(v1alpha1.Decisions).Namespace(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) < 3 {
		t.Fatalf("%d decisions", len(list.Items))
	}
	var got map[string]any
	servertest.Eventually(t, "the lines of all decisions", func() bool {
		got = logged() // also lines of later ones
		return !slices.ContainsFunc(list.Items, func(d unstructured.Unstructured) bool { return got[d.GetName()] == nil })
	})
	for _, served := range list.Items {
		var want any // with numbers as the log's are read
		if content, err := json.Marshal(served.Object); err != nil || json.Unmarshal(content, &want) != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got[served.GetName()]); diff != "" {
			t.Errorf("%s (-served +logged):\n%s", served.GetName(), diff)
		}
	}
	if info, err := os.Stat(decisionLog); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// When a server has ended, every decision is in the log.
func TestDecisionLogAtTheEnd(t *testing.T) {
	log := filepath.Join(t.TempDir(), "decisions.log")
	cluster := servertest.Start(t, gatehousetest.WithConfig(func(c *server.Config) { c.Decisions.LogPath = log }))
	const count = 300
	want := map[string]bool{}
	for i := range count {
		name := fmt.Sprintf("c%d", i)
		want[name] = true
		if _, err := cluster.Client.CoreV1().ConfigMaps("default").Create(t.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	cluster.Stop()
	for _, d := range lines[v1alpha1.Decision](t, log) {
		if d.Kind != "Decision" || d.APIVersion != "decisions.gatehouse.dev/v1alpha1" {
			t.Fatalf("a line is %+v", d)
		}
		delete(want, d.Request.Name)
	}
	if len(want) > 0 {
		t.Errorf("not in the log: %s", strings.Join(slices.Sorted(maps.Keys(want)), " "))
	}
}
