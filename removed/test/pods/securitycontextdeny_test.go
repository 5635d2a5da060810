// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

func TestSecurityContextDeny(t *testing.T) {
	t.Parallel()
	c := clusterWith(simple...)
	k := c.Kubectl(t, c.Namespace(t, nil))
	k.Fails("", []string{"run", "web", "--image=nginx",
		`--overrides={"spec": {"securityContext": {"runAsUser": 0, "fsGroup": 0}}}`},
		`Error from server (Forbidden): pods "web" is forbidden: [spec.securityContext.runAsUser is forbidden, `+
			`spec.securityContext.fsGroup is forbidden]`)
	k.Fails(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
		"initContainers": [{"name": "i", "image": "i", "securityContext": {"seLinuxOptions": {"level": "s0"}}}],
		"containers": [{"name": "c", "image": "c", "securityContext": {"runAsNonRoot": true}}]}}`, []string{"create", "--filename=-"},
		`spec.initContainers[0].securityContext.seLinuxOptions is forbidden`)

	k.OK("", "run", "web", "--image=nginx")
	root := filepath.Join(t.TempDir(), "root.json")
	if err := os.WriteFile(root, []byte(`{"securityContext": {"runAsUser": 0}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	k.Fails("", []string{"debug", "web", "--image=busybox", "--profile=general", "--custom=" + root},
		`pods "web" is forbidden: spec.ephemeralContainers[0].securityContext.runAsUser is forbidden`)
	k.OK("", "debug", "web", "--image=busybox", "--profile=general")
}

// A pod from before the plugin was on can be labelled, debugged and deleted.
func TestSecurityContextDenyLeavesOldPodsAlone(t *testing.T) {
	t.Parallel()
	without := servertest.Start(t)
	user := int64(1000)
	old := servertest.Pod("old")
	old.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &user}
	old.Finalizers = []string{"example.com/held"}
	if _, err := without.Client.CoreV1().Pods("default").Create(t.Context(), old, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	without.Stop()

	k := restart(t, without, "SecurityContextDeny").Kubectl(t, "default")
	k.OK("", "label", "pod", "old", "a=b")
	k.OK("", "debug", "old", "--image=busybox", "--profile=general")
	k.OK("", "delete", "pod", "old", "--wait=false")
	k.OK("", "patch", "pod", "old", "--type=json", `--patch=[{"op": "remove", "path": "/metadata/finalizers"}]`)
	k.Fails("", []string{"get", "pod", "old"}, `pods "old" not found`)
}
