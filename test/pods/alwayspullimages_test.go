// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

func TestAlwaysPullImages(t *testing.T) {
	t.Parallel()
	c := clusterWith(simple...)
	k := c.Kubectl(t, c.Namespace(t, nil))
	const manifest = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {
		"initContainers": [{"name": "i", "image": "init:1", "imagePullPolicy": "IfNotPresent"}],
		"containers": [{"name": "c", "image": "main:1", "imagePullPolicy": "Never", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
		"volumes": [{"name": "v", "image": {"reference": "data:1", "pullPolicy": "Never"}}]}}`
	policies := func(want string) {
		t.Helper()
		got := k.OK("", "get", "pod", "web",
			"--output=jsonpath={.spec.initContainers[*].imagePullPolicy} {.spec.containers[*].imagePullPolicy} "+
				"{.spec.volumes[?(@.name==\"v\")].image.pullPolicy} {.spec.ephemeralContainers[*].imagePullPolicy}")
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	k.OK(manifest, "apply", "--filename=-")
	policies("Always Always Always ")
	k.OK("", "set", "image", "pod/web", "c=main:2")
	k.OK("", "debug", "web", "--image=tools:1", "--image-pull-policy=Never")
	k.OK("", "debug", "web", "--image=main:2", "--image-pull-policy=IfNotPresent")
	policies("Always Always Always Always Always")
}

// A pod from before the plugin was on can be labelled and debugged. Its image can't change, since
// its policy can't.
func TestAlwaysPullImagesLeavesOldPodsAlone(t *testing.T) {
	t.Parallel()
	without := servertest.Start(t)
	old := servertest.Pod("old")
	old.Spec.Containers[0].ImagePullPolicy = "Never"
	if _, err := without.Client.CoreV1().Pods("default").Create(t.Context(), old, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	without.Stop()

	k := restart(t, without, "AlwaysPullImages").Kubectl(t, "default")
	k.OK("", "label", "pod", "old", "a=b")
	k.OK("", "debug", "old", "--image=tools:1", "--image-pull-policy=Never")
	got := k.OK("", "get", "pod", "old",
		"--output=jsonpath={.spec.containers[*].imagePullPolicy} {.spec.ephemeralContainers[*].imagePullPolicy}")
	if got != "Never Always" {
		t.Errorf("got %s", got)
	}
	k.Fails("", []string{"set", "image", "pod/old", "main=other:1"}, "pod updates may not change fields other than")
}
