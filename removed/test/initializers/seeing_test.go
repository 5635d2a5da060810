// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initializers_test

import (
	"encoding/json"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Writes that change nothing are no way to see what is hidden: neither an update to what the object
// is already, nor a deletion that is only tried.
func TestHiddenFromWritesWithoutEffect(t *testing.T) {
	c := startCluster(t)
	c.configure(t, leases, one)
	ns := c.Namespace(t, nil)
	for _, name := range []string{"seen", "hidden"} {
		c.createHidden(t, leases, ns, newObject(leases, name))
	}
	c.initialize(t, leases, ns, "seen", "one", "")
	// Who may do anything but initialize.
	c.grant(t, ns, "writer", "get", "list", "patch", "delete", "deletecollection")
	writer, full := at(c.as("writer"), leases, ns), at(c.full, leases, ns)

	got, err := writer.Patch(t.Context(), "hidden", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a patch that changes nothing gets %v, %v", got, err)
	}
	if _, err := writer.Patch(t.Context(), "seen", types.MergePatchType, []byte("{}"),
		metav1.PatchOptions{}); err != nil {
		t.Errorf("a patch of what is initialized: %v", err)
	}

	tried := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	if err := writer.Delete(t.Context(), "hidden", tried); !apierrors.IsNotFound(err) {
		t.Errorf("the tried deletion of one: %v", err)
	}
	if err := writer.Delete(t.Context(), "seen", tried); err != nil {
		t.Errorf("the tried deletion of what is initialized: %v", err)
	}
	// The answer to a deletion of a collection is a list, which client-go throws away.
	for what, test := range map[string]struct{ query, options string }{
		"by parameter": {metav1.DryRunAll, ""},
		"by options":   {"", `{"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}`},
	} {
		request := c.Client.CoordinationV1().RESTClient().Delete().Namespace(ns).Resource("leases").
			SetHeader("Accept", "application/json").SetHeader("Content-Type", "application/json")
		if test.query != "" {
			request = request.Param("dryRun", test.query)
		}
		if test.options != "" {
			request = request.Body([]byte(test.options))
		}
		answer, err := request.Do(t.Context()).Raw()
		if err != nil {
			t.Fatal(err)
		}
		var shown metav1.PartialObjectMetadataList
		if err := json.Unmarshal(answer, &shown); err != nil || len(shown.Items) != 1 || shown.Items[0].Name != "seen" {
			t.Errorf("a collection's deletion, tried %s, shows %s, %v", what, answer, err)
		}
	}
	for _, name := range []string{"seen", "hidden"} {
		if _, err := full.Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			t.Errorf("what was only tried has had an effect: %v", err)
		}
	}
	if err := writer.DeleteCollection(t.Context(), *metav1.NewDeleteOptions(0), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"seen", "hidden"} {
		c.gone(t, leases, ns, name)
	}
}

// A rule for one version of a kind holds for objects that are written in another.
func TestEquivalentVersions(t *testing.T) {
	c := startCluster(t)
	c.configure(t, autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers"), one)
	ns := c.Namespace(t, nil)
	v1 := autoscalingv1.SchemeGroupVersion.WithResource("horizontalpodautoscalers")
	c.createHidden(t, v1, ns, newAutoscaler(v1, "a"))
	if got, err := at(c.Dynamic, v1, ns).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, %v", got, err)
	}
	c.initialize(t, v1, ns, "a", "one", "")
	if _, err := at(c.Dynamic, v1, ns).Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
