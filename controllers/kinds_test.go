// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	fakemetadata "k8s.io/client-go/metadata/fake"
)

// A kind may be new to the counter, or not be served at all. What a quota shows of it stays until
// the objects have been counted.
func TestQuotaOfANewKind(t *testing.T) {
	const count = "count/widgets.example.com"
	limiting := func(name, what, used string) *corev1.ResourceQuota {
		hard := corev1.ResourceList{corev1.ResourceName(what): resource.MustParse("5")}
		return &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
			Spec:       corev1.ResourceQuotaSpec{Hard: hard},
			Status: corev1.ResourceQuotaStatus{Hard: hard,
				Used: corev1.ResourceList{corev1.ResourceName(what): resource.MustParse(used)}},
		}
	}
	serving := func(version string, kinds ...metav1.APIResource) *metav1.APIResourceList {
		return &metav1.APIResourceList{GroupVersion: version, APIResources: kinds}
	}
	scheme := fakemetadata.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset(limiting("known", "count/secrets", "5"), limiting("new", count, "3"))
	widget := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Widget"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "w"},
	}
	secrets := serving("v1", metav1.APIResource{Name: "secrets", Kind: "Secret", Namespaced: true})
	widgets := serving("example.com/v1", metav1.APIResource{Name: "widgets", Kind: "Widget", Namespaced: true})
	c := &quotaCounter{client: client, metadata: fakemetadata.NewSimpleMetadataClient(scheme, widget),
		mapper: newMapper(client), synced: func() bool { return false }}

	for _, step := range []struct {
		name         string
		served       []*metav1.APIResourceList
		known, shown int64
	}{
		{"not served", []*metav1.APIResourceList{secrets}, 0, 3},
		{"served", []*metav1.APIResourceList{secrets, widgets}, 0, 1},
		{"served no longer", []*metav1.APIResourceList{secrets}, 0, 1},
	} {
		client.Resources = step.served
		if err := c.sync(t.Context()); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
		for name, want := range map[string]int64{"known": step.known, "new": step.shown} {
			q, err := client.CoreV1().ResourceQuotas("ns").Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for what, used := range q.Status.Used {
				if used.Value() != want {
					t.Errorf("%s: quota %s shows %s of %s, want %d", step.name, name, used.String(), what, want)
				}
			}
		}
	}
}
