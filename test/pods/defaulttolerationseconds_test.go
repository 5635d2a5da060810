// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"testing"

	"gatehouse.dev/test/servertest"
)

const tolerations = "--output=jsonpath={range .spec.tolerations[*]}{.key}:{.effect} {.operator} " +
	"{.tolerationSeconds},{end}"

func TestDefaultTolerationSeconds(t *testing.T) {
	t.Parallel()
	c := clusterWith(simple...)
	k := c.Kubectl(t, c.Namespace(t, nil))
	k.OK("", "run", "web", "--image=nginx")
	k.OK("", "run", "stays", "--image=nginx", `--overrides={"spec": {"tolerations": [{"operator": "Exists"}]}}`)
	for name, want := range map[string]string{
		"web": "node.kubernetes.io/not-ready:NoExecute Exists 300,node.kubernetes.io/unreachable:NoExecute Exists " +
			"300,",
		"stays": ": Exists ,",
	} {
		if got := k.OK("", "get", "pod", name, tolerations); got != want {
			t.Errorf("%s: got  %s\nwant %s", name, got, want)
		}
	}
}

func TestDefaultTolerationSecondsConfigured(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.Configured(t, map[string]string{"DefaultTolerationSeconds": `
apiVersion: gatehouse.dev/v1alpha1
kind: DefaultTolerationSecondsConfiguration
notReadyTolerationSeconds: 60
`}))
	k := c.Kubectl(t, "default")
	k.OK("", "run", "web", "--image=nginx")
	want := "node.kubernetes.io/not-ready:NoExecute Exists 60,node.kubernetes.io/unreachable:NoExecute Exists 300,"
	if got := k.OK("", "get", "pod", "web", tolerations); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
