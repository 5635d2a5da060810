// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/plugins"
	"gatehouse.dev/remote/command"
)

// What is said of an installation is what its pods are started with.
func TestManifests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admission.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- {name: PodNodeSelector, configuration: {podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: zone=a}}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--plugins=PodNodeSelector,AlwaysPullImages --image=i --replicas=3 --name=g --namespace=n --per-plugin " +
			"--failure-policy=Ignore,PodNodeSelector=Fail --exempt-namespaces=kube-system,a --timeout=5s " +
			"--admission-control-config-file=" + file: `- args: - --plugins=AlwaysPullImages,PodNodeSelector ` +
			`- --name=g - --namespace=n - --service=n/g:443 - --secure-port=8443 - --admission-control-config-file=` +
			`/etc/gatehouse/admission.yaml - --per-plugin=true - --failure-policy=Ignore ` +
			`- --failure-policy=PodNodeSelector=Fail - --timeout=5s - --exempt-namespaces=kube-system ` +
			`- --exempt-namespaces=a image: i`,
		"--plugins=AlwaysPullImages --image=i": `- args: - --plugins=AlwaysPullImages - --name=gatehouse ` +
			`- --namespace=gatehouse-system - --service=gatehouse-system/gatehouse:443 - --secure-port=8443 image: i`,
		"--plugins=AlwaysPullImages --image=i --api-servers=here":      `api-servers[0]: Invalid value`,
		"--plugins=AlwaysPullImages":                                   `image: Required value`,
		"--image=i":                                                    `--plugins is required`,
		"--plugins=NamespaceLifecycle --image=i":                       `can't run outside the API server`,
		"--plugins=AlwaysPullImages --image=i --replicas=0":            `replicas: Invalid value: 0`,
		"--plugins=AlwaysPullImages --image=i --url=https://a:1":       `--url is for a process outside the cluster`,
		"--plugins=AlwaysPullImages --image=i --service=a/b":           `--service is that of the installation`,
		"--plugins=AlwaysPullImages --image=i --failure-policy=B=Fail": `"B" is not among --plugins`,
	} {
		root := command.New(plugins.List)
		commandline.Prepare(root)
		var out bytes.Buffer
		code := commandline.Run(t.Context(), root, append([]string{"manifests"}, strings.Fields(args)...), &out, &out)
		got := strings.Join(strings.Fields(out.String()), " ")
		if !strings.Contains(got, want) || (code == 0) != strings.HasPrefix(want, "- args") {
			t.Errorf("%s: exit code %d, got\n%s\nwant\n%s", args, code, out.String(), want)
		}
	}
}
