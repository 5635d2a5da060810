// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
)

// clusterWide has the kinds for which the client takes no namespace. Reviews are never stored.
func TestClusterWide(t *testing.T) {
	var want []string
	clients := reflect.TypeFor[kubernetes.Interface]()
	for i := range clients.NumMethod() {
		group := clients.Method(i).Type.Out(0)
		if group.Kind() != reflect.Interface || clients.Method(i).Name == "Discovery" {
			continue
		}
		for j := range group.NumMethod() {
			method := group.Method(j).Type
			if method.NumIn() > 0 || method.NumOut() != 1 {
				continue
			}
			kind, ok := strings.CutSuffix(method.Out(0).Name(), "Interface")
			if ok && kind != "" && !strings.HasSuffix(kind, "Review") && !slices.Contains(want, kind) {
				want = append(want, kind)
			}
		}
	}
	want = append(want, "CustomResourceDefinition", "APIService")
	slices.Sort(want)
	if !slices.Equal(clusterWide, want) {
		t.Errorf("clusterWide is\n%q\nthe client has\n%q", clusterWide, want)
	}
}
