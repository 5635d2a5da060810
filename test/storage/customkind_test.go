// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"fmt"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"gatehouse.dev/test/servertest"
)

// A kind that goes before anybody has asked for one of its objects is finalized at the first
// attempt. After another, Kubernetes' finalizer may lose sight of it until a resync.
func TestCustomKindGoesAtOnce(t *testing.T) {
	t.Parallel()
	definitions := apiextensions.NewForConfigOrDie(servertest.Start(t).Config).ApiextensionsV1().
		CustomResourceDefinitions()
	for i := range 5 {
		kind := fmt.Sprint("fleeting", i)
		name := kind + ".example.com"
		watcher, err := definitions.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		if err != nil {
			t.Fatal(err)
		}
		preserve := true
		_, err = definitions.Create(t.Context(), &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{Group: "example.com",
				Scope: apiextensionsv1.ClusterScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: kind, Kind: "Fleeting"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Type: "object", XPreserveUnknownFields: &preserve}}}}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		deleted := false
		for event := range watcher.ResultChan() {
			if event.Type == watch.Deleted {
				break
			}
			definition := event.Object.(*apiextensionsv1.CustomResourceDefinition)
			is := func(condition apiextensionsv1.CustomResourceDefinitionConditionType, reason string) bool {
				return slices.ContainsFunc(definition.Status.Conditions,
					func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
						return c.Type == condition && c.Status == apiextensionsv1.ConditionTrue && c.Reason == reason
					})
			}
			if !deleted && is(apiextensionsv1.Established, "InitialNamesAccepted") {
				deleted = true
				if err := definitions.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			if is(apiextensionsv1.Terminating, "InstanceDeletionFailed") {
				t.Errorf("%s wasn't finalized at once: %+v", name, definition.Status.Conditions)
			}
		}
		watcher.Stop()
	}
}
