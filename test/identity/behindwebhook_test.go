// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// A webhook that copies what a node may write into what it may not is no way around the rules.
func TestKubeletBehindAWebhook(t *testing.T) {
	everywhere(t, func(t *testing.T, c *cluster) {
		name := c.Namespace(t, nil)
		mine := c.newKubelet(t, name+"-mine").register(t)
		const label, note = "node-restriction.kubernetes.io/pool", "example.com/pool"
		backend := webhooktest.New(t, webhooktest.Respond(
			func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
				answer := &admissionv1.AdmissionResponse{UID: r.UID, Allowed: true}
				var node corev1.Node
				if err := json.Unmarshal(r.Object.Raw, &node); err != nil || node.Annotations[note] == "" {
					return answer
				}
				answer.PatchType = new(admissionv1.PatchTypeJSONPatch)
				answer.Patch = fmt.Appendf(nil, `[{"op": "add", "path": "/metadata/labels/%s", "value": %q}]`,
					strings.ReplaceAll(label, "/", "~1"), node.Annotations[note])
				return answer
			}))
		c.mutate(t, name, backend,
			&metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: mine.name}}, "nodes",
			"nodes/status")

		annotate := func() error {
			_, err := mine.client.CoreV1().Nodes().Patch(t.Context(), mine.name, types.MergePatchType,
				fmt.Appendf(nil, `{"metadata": {"annotations": {%q: "secret"}}}`, note), metav1.PatchOptions{})
			return err
		}
		var err error
		servertest.Eventually(t, "the webhook to be called", func() bool {
			err = annotate()
			return backend.Calls() > 0
		})
		c.refused(t, "a label by way of a webhook", err, "is not allowed to modify labels: "+label)
		mine.node.ResourceVersion, mine.node.Annotations = "", map[string]string{note: "secret"}
		_, err = mine.client.CoreV1().Nodes().Update(t.Context(), mine.node, metav1.UpdateOptions{})
		c.refused(t, "a label by way of a webhook", err, "is not allowed to modify labels: "+label)
		if err := c.Client.CoreV1().Nodes().Delete(t.Context(), mine.name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		mine.node.UID = ""
		_, err = mine.client.CoreV1().Nodes().Create(t.Context(), mine.node, metav1.CreateOptions{})
		c.refused(t, "a new node's label by way of a webhook", err,
			fmt.Sprintf("node %q is not allowed to set the following labels: %s", mine.name, label))
	})
}
