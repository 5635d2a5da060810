// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"strings"
	"testing"
)

// noHost is how exec and attach fail that are admitted: no node runs the pod.
const noHost = "does not have a host assigned"

func TestDenyEscalatingExec(t *testing.T) {
	t.Parallel()
	c := clusterWith(simple...)
	k := c.Kubectl(t, c.Namespace(t, nil))
	for name, test := range map[string]struct{ overrides, want string }{
		"harmless": {`{}`, noHost},
		"pid": {`{"spec": {"hostPID": true}}`,
			`pods "pid" is forbidden: cannot exec into or attach to a container using host pid`},
		"ipc": {`{"spec": {"hostIPC": true}}`,
			`pods "ipc" is forbidden: cannot exec into or attach to a container using host ipc`},
		"network": {`{"spec": {"hostNetwork": true}}`, noHost},
		"privileged": {`{"spec": {"initContainers": [{"name": "i", "image": "i", "securityContext": {"privileged": ` +
			`true}}]}}`, `pods "privileged" is forbidden: cannot exec into or attach to a privileged container`},
	} {
		k.OK("", "run", name, "--image=busybox", "--overrides="+test.overrides)
		k.Fails("", []string{"exec", name, "--", "id"}, test.want)
		k.Fails("", []string{"attach", name}, test.want)
	}
	k.Fails("", []string{"exec", "nosuch", "--", "id"}, `Error from server (NotFound): pods "nosuch" not found`)

	// A container that is added counts from the next request on.
	k.OK("", "debug", "harmless", "--image=busybox", "--profile=sysadmin")
	k.Fails("", []string{"exec", "harmless", "--", "id"}, "cannot exec into or attach to a privileged container")
}

func TestDenyExecOnPrivileged(t *testing.T) {
	t.Parallel()
	c := clusterWith("DenyExecOnPrivileged")
	k := c.Kubectl(t, c.Namespace(t, nil))
	k.OK("", "run", "root", "--image=busybox", "--privileged")
	k.OK("", "run", "pid", "--image=busybox", `--overrides={"spec": {"hostPID": true}}`)
	k.Fails("", []string{"exec", "root", "--", "id"},
		`pods "root" is forbidden: cannot exec into or attach to a privileged container`)
	k.Fails("", []string{"attach", "root"},
		`pods "root" is forbidden: cannot exec into or attach to a privileged container`)
	k.Fails("", []string{"exec", "pid", "--", "id"}, noHost)
	if _, stderr, _ := k.Run("", "port-forward", "root", ":80"); strings.Contains(stderr, "forbidden") {
		t.Errorf("port-forward: %s", stderr)
	}
}
