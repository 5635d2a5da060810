// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package limits tests the manifests of this folder. Its README is run by test/docs.
package limits

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/plugins/limitranger"
)

// read reads a manifest strictly and puts the object into the namespace ns.
func read[T runtime.Object](t *testing.T, file string, object T) T {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(content, object); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	any(object).(interface{ SetNamespace(string) }).SetNamespace("ns")
	return object
}

func TestManifests(t *testing.T) {
	subject := plugintest.New(t, limitranger.Descriptor, "", read(t, "limits.yaml", &corev1.LimitRange{}))
	defaulted := func(file string) *corev1.Pod {
		pod := read(t, file, &corev1.Pod{})
		for i := range pod.Spec.Containers { // as the API server does
			pod.Spec.Containers[i].Resources.Requests = pod.Spec.Containers[i].Resources.Limits
		}
		return pod
	}
	subject.Validate(t, plugintest.Create(defaulted("pod-1.yaml"))).Admitted(t)
	subject.Validate(t, plugintest.Create(defaulted("pod-2.yaml"))).
		Refused(t, 403, `pods "pod-2" is forbidden: maximum cpu usage per Pod is 200m, but limit is 240m`)

	small := plugintest.New(t, limitranger.Descriptor, "", read(t, "limit-range.json", &corev1.LimitRange{}))
	small.Validate(t, plugintest.Create(defaulted("pod-2.yaml"))).
		Refused(t, 403,
			`pods "pod-2" is forbidden: [minimum cpu usage per Pod is 250m, but request is 240m, minimum cpu usage `+
				`per Container is 250m, but request is 60m]`)
}

// The README shows the manifests whole, so that it can be followed without them.
func TestReadmeShowsTheManifests(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"limit-range.json", "limits.yaml", "pod-1.yaml", "pod-2.yaml"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(readme), "cat > "+file+" <<'END'\n"+string(content)+"END\n") {
			t.Errorf("README.md shows another %s", file)
		}
	}
}
