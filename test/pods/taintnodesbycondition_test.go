// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import "testing"

func TestTaintNodesByCondition(t *testing.T) {
	t.Parallel()
	k := clusterWith(simple...).Kubectl(t, "default")
	const taints = "--output=jsonpath={range .spec.taints[*]}{.key}={.value}:{.effect} {end}"
	k.OK(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "tainted"}, "spec": {"taints": [{"key": `+
		`"example.com/a", "value": "b", "effect": "NoExecute"}]}}`, "create", "--filename=-")
	if got := k.OK("", "get", "node", "tainted",
		taints); got != "example.com/a=b:NoExecute node.kubernetes.io/not-ready=:NoSchedule " {
		t.Errorf("got %s", got)
	}
	// Who takes it off keeps it off.
	k.OK("", "taint", "node", "tainted", "node.kubernetes.io/not-ready:NoSchedule-")
	k.OK("", "label", "node", "tainted", "a=b")
	if got := k.OK("", "get", "node", "tainted", taints); got != "example.com/a=b:NoExecute " {
		t.Errorf("got %s", got)
	}
}
