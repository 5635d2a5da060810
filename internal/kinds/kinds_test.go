// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
)

// A kind is found once it is served, without a reset. Who asks for what isn't there makes the
// server look it up once a second.
func TestMapperFindsNewKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		serve := func(group, kind string) {
			client.Resources = append(client.Resources, &metav1.APIResourceList{
				GroupVersion: group + "/v1", APIResources: []metav1.APIResource{{Name: kind + "s", Kind: kind}},
			})
		}
		serve("old.example.com", "thing")
		mapper := NewMapper(client.Discovery())
		known := func(group, kind string) bool {
			mappings, err := mapper.RESTMappings(schema.GroupKind{Group: group, Kind: kind}, "v1")
			if err != nil && !meta.IsNoMatchError(err) {
				t.Error(err)
			}
			return len(mappings) == 1
		}
		if !known("old.example.com", "thing") || known("new.example.com", "widget") {
			t.Fatal("the mapper doesn't know what is served")
		}
		serve("new.example.com", "widget")
		client.ClearActions()
		for range 10 {
			if known("new.example.com", "widget") {
				t.Error("the mapper has asked again at once")
			}
		}
		if asked := len(client.Actions()); asked != 0 {
			t.Errorf("the server was asked %d times", asked)
		}
		time.Sleep(mapperRetry)
		if !known("new.example.com", "widget") {
			t.Error("a new kind isn't found")
		}
	})
}
