package pods_test

import "testing"

func TestExtendedResourceToleration(t *testing.T) {
	t.Parallel()
	c := clusterWith(t, simple...)
	k := c.kubectl(t, c.newNamespace(t, nil))
	// Limits are requests where there are none, by Kubernetes' own defaults.
	k.ok("", "run", "train", "--image=train", `--overrides={"spec": {"containers": [{"name": "train", "image": "train",
		"resources": {"limits": {"example.com/gpu": "1", "example.com/fpga": "1", "cpu": "1"}}}]}}`)
	got := k.ok("", "get", "pod", "train", `--output=jsonpath={range .spec.tolerations[?(@.effect=="NoSchedule")]}{.key} {.operator},{end}`)
	if got != "example.com/fpga Exists,example.com/gpu Exists," {
		t.Errorf("got %s", got)
	}
	k.ok("", "label", "pod", "train", "a=b")
}
