// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import "testing"

func TestLimitPodHardAntiAffinityTopology(t *testing.T) {
	t.Parallel()
	c := clusterWith(simple...)
	k := c.Kubectl(t, c.Namespace(t, nil))
	run := func(key string) []string {
		return []string{"run", "web", "--image=nginx",
			`--overrides={"spec": {"affinity": {"podAntiAffinity": ` +
				`{"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "` + key + `"}]}}}}`}
	}
	k.Fails("", run("topology.kubernetes.io/zone"),
		`Error from server (Forbidden): pods "web" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling `+
			`has TopologyKey topology.kubernetes.io/zone but only key kubernetes.io/hostname is allowed`)
	k.OK("", run("kubernetes.io/hostname")...)
	k.OK("", "label", "pod", "web", "a=b")
}
