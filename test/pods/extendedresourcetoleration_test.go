// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import "testing"

func TestExtendedResourceToleration(t *testing.T) {
	t.Parallel()
	c := clusterWith(simple...)
	k := c.Kubectl(t, c.Namespace(t, nil))
	// Limits are requests where there are none, by Kubernetes' own defaults.
	k.OK("", "run", "train", "--image=train", `--overrides={"spec": {"containers": [{"name": "train", "image": "train",
		"resources": {"limits": {"example.com/gpu": "1", "example.com/fpga": "1", "cpu": "1"}}}]}}`)
	got := k.OK("", "get", "pod", "train",
		`--output=jsonpath={range .spec.tolerations[?(@.effect=="NoSchedule")]}{.key} {.operator},{end}`)
	if got != "example.com/fpga Exists,example.com/gpu Exists," {
		t.Errorf("got %s", got)
	}
	k.OK("", "label", "pod", "train", "a=b")
}
