package review_test

import (
	"strings"
	"testing"
)

// Pods of a DaemonSet tolerate what its controller has them tolerate, once each.
// Source: upstream's AddOrUpdateDaemonPodTolerations.
func TestDaemonTolerations(t *testing.T) {
	told := []string{shop, `
kind: ValidatingAdmissionPolicy
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: tolerations}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations:
  - expression: "false"
    messageExpression: object.spec.tolerations.map(t, t.key.replace("node.kubernetes.io/", "")).join(" ")
`, `
kind: ValidatingAdmissionPolicyBinding
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: tolerations}
spec: {policyName: tolerations, validationActions: [Deny]}
`}
	output := judged(t, told, []string{`
kind: DaemonSet
apiVersion: apps/v1
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      hostNetwork: true
      tolerations: [{key: node.kubernetes.io/disk-pressure, operator: Exists, effect: NoSchedule}]
      containers: [{name: web, image: nginx}]
`}, nil)
	const want = "denied request: disk-pressure not-ready unreachable memory-pressure pid-pressure unschedulable " +
		"network-unavailable\n"
	if !strings.Contains(output, want) {
		t.Errorf("of a pod on its node's network: %s\nwant %s", output, want)
	}
}
