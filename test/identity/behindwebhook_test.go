package identity_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gatehouse.dev/test/servertest"
	"gatehouse.dev/webhook/webhooktest"
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
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelHostname: mine.name}}
		configurations := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
		_, err := configurations.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []admissionregistrationv1.MutatingWebhook{{
				Name: "copy.example.com", ClientConfig: backend.ClientConfig("/"), ObjectSelector: selector,
				SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
				AdmissionReviewVersions: []string{"v1"},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
					Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
						Resources: []string{"nodes", "nodes/status"}},
				}},
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = configurations.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		})

		annotate := func() error {
			_, err := mine.client.CoreV1().Nodes().Patch(t.Context(), mine.name, types.MergePatchType,
				fmt.Appendf(nil, `{"metadata": {"annotations": {%q: "secret"}}}`, note), metav1.PatchOptions{})
			return err
		}
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
