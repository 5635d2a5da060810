// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"fmt"
	"testing"

	"gatehouse.dev/test/servertest"
)

func TestPersistentVolumeClaimResize(t *testing.T) {
	t.Parallel()
	const (
		bound = `{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {"storageClassName": "disk", "volumeName": "v",
			"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`
		noSupport = `persistentvolumeclaims "data" is forbidden: only dynamically provisioned pvc can be resized ` +
			`and the storageclass that provisions the pvc must support resize`
	)
	c := servertest.Start(t)
	k := c.Kubectl(t, c.Namespace(t, nil))
	to := func(size string) []string {
		return []string{"patch", "pvc", "data", `--patch={"spec": {"resources": {"requests": {"storage": "` + size +
			`"}}}}`}
	}
	k.OK(bound, "create", "--filename=-")
	// A claim that isn't bound can't change at all, and the API says so before the plugin would.
	k.Fails("", to("2Gi"),
		`The PersistentVolumeClaim "data" is invalid: spec: Forbidden: spec is immutable after creation except `+
			`resources.requests`)
	k.OK("", "patch", "pvc", "data", "--subresource=status", `--patch={"status": {"phase": "Bound"}}`)
	k.Fails("", to("2Gi"), noSupport)
	k.OK(fmt.Sprintf(storageClass, "disk"), "create", "--filename=-")
	k.Fails("", to("2Gi"), noSupport)
	// As soon as the administrator allows it, whatever the cache shows.
	k.OK("", "patch", "storageclass", "disk", `--patch={"allowVolumeExpansion": true}`)
	k.OK("", to("2Gi")...)
	k.OK("", "annotate", "pvc", "data", "of=no interest")
}
