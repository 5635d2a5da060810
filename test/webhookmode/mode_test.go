// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookmode_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"gatehouse.dev/test/servertest"
)

// auditPolicy has what tests create in the audit log, without bodies.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [create], resources: [{group: "", resources: [pods, services]}]}
- {level: None}
`

// audited waits for the event of a creation, and returns what plugins on trial say in it.
func audited(t *testing.T, namespace, name string) map[string]string {
	t.Helper()
	found := map[string]string{}
	servertest.Eventually(t, name+" in the audit log", func() bool {
		log, err := os.ReadFile(auditLog)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(log) {
			var event auditv1.Event
			if json.Unmarshal(line, &event) != nil { // the last line may be half written
				continue
			}
			if o := event.ObjectRef; o == nil || o.Namespace != namespace || o.Name != name {
				continue
			}
			maps.Copy(found, event.Annotations)
			maps.DeleteFunc(found, func(key, _ string) bool { return !strings.Contains(key, ".would-") })
			return true
		}
		return false
	})
	return found
}

// With --mode=PLUGIN=audit what the plugin would do is in the API server's audit log, and nothing
// is changed or refused, while other plugins do what they do.
func TestAuditMode(t *testing.T) {
	start(t, "--plugins=AlwaysPullImages,DenyServiceExternalIPs,SecurityContextDeny",
		"--mode=AlwaysPullImages=audit,DenyServiceExternalIPs=audit")
	namespace := cluster.Namespace(t, nil)
	core := cluster.Client.CoreV1()
	created, err := core.Pods(namespace).Create(t.Context(), pod("tried"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := created.Spec.Containers[0].ImagePullPolicy; got != corev1.PullIfNotPresent {
		t.Errorf("imagePullPolicy is %s", got)
	}
	external := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "external"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, ExternalIPs: []string{"192.0.2.1"}}}
	if _, err := core.Services(namespace).Create(t.Context(), external, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	internal := external.DeepCopy()
	internal.Name, internal.Spec.ExternalIPs = "fine", nil
	if _, err := core.Services(namespace).Create(t.Context(), internal, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	privileged := pod("refused", func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroups: []int64{1}}
	})
	if _, err := core.Pods(namespace).Create(t.Context(), privileged, metav1.CreateOptions{}); err == nil ||
		!strings.Contains(err.Error(), "supplementalGroups is forbidden") {
		t.Errorf("SecurityContextDeny isn't on trial: %v", err)
	}
	for name, want := range map[string]map[string]string{
		"tried": {"mutate-ignore.gatehouse.dev/AlwaysPullImages.would-change": "would change " +
			"/spec/containers/0/imagePullPolicy"},
		"external": {"validate-ignore.gatehouse.dev/DenyServiceExternalIPs.would-refuse": "would refuse: services " +
			`"external" is forbidden: Use of external IPs is denied by admission control`},
		"fine": {},
	} {
		if diff := cmp.Diff(want, audited(t, namespace, name)); diff != "" {
			t.Errorf("of %s the audit log has (-want +got): %s", name, diff)
		}
	}
}
