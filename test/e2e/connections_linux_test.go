// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gatehouse.dev/test/needs"
)

// hostile names addresses in all places in which an API server would find some to call.
const hostile = `
apiVersion: v1
kind: Service
metadata: {name: remote, namespace: default}
spec: {clusterIP: 10.0.0.77, ports: [{port: 443}]}
---
apiVersion: v1
kind: Service
metadata: {name: named, namespace: default}
spec: {type: ExternalName, externalName: api.example.com, ports: [{port: 443}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.remote.example.com}
spec: {group: remote.example.com, version: v1, groupPriorityMinimum: 1000, versionPriority: 10,
  insecureSkipTLSVerify: true, service: {name: remote, namespace: default}}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.named.example.com}
spec: {group: named.example.com, version: v1, groupPriorityMinimum: 1000, versionPriority: 10,
  insecureSkipTLSVerify: true, service: {name: named, namespace: default}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - {name: v1, served: true, storage: false, schema: &any {openAPIV3Schema:
      {type: object, x-kubernetes-preserve-unknown-fields: true}}}
  - {name: v2, served: true, storage: true, schema: *any}
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://192.0.2.1/convert"}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: remote}
webhooks:
- name: remote.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig: {url: "https://192.0.2.2/validate"}
  rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]
`

const judged = `
apiVersion: example.com/v1
kind: Thing
metadata: {name: old}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: "registry.example.com/web:1"}]}
---
apiVersion: remote.example.com/v1
kind: Aggregated
metadata: {name: a}
`

// A review makes no connection that nobody asked for. It runs where there is no route to anywhere,
// and the system counts each connection that is tried.
func TestReviewConnectsNowhere(t *testing.T) {
	t.Parallel()
	needs.Programs(t, "unshare", "sh")
	out, err := exec.CommandContext(t.Context(), "unshare", "--map-root-user", "--net", "true").CombinedOutput()
	if err != nil {
		needs.Missing(t, "a network namespace: %v: %s", err, out)
	}
	dir := t.TempDir()
	long := judged // so that what a server does in its background begins
	for i := range 1500 {
		long += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\n", i)
	}
	for name, content := range map[string]string{"state.yaml": hostile, "judged.yaml": long} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// run returns what a command prints, and how many connections were tried, or packets sent.
	run := func(command ...string) (output string, tried int) {
		c := exec.CommandContext(t.Context(), "unshare", append([]string{"--map-root-user", "--net", "sh", "-c",
			`"$@"; echo "exit code $?"; echo; cat /proc/net/snmp; cat /proc/net/snmp6`, "sh"}, command...)...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		output, counters, found := strings.Cut(string(out), "\nIp: ")
		if !found {
			t.Fatalf("no counters: %s", out)
		}
		return output, attempts(t, "Ip: "+counters)
	}
	if output, tried := run(binaries.kubectl, "--server=https://192.0.2.1", "--token=x",
		"version", "--request-timeout=5s"); tried == 0 {
		t.Fatalf("a connection that is tried isn't counted: %s", output)
	}
	for _, flags := range [][]string{nil, {"--webhooks=fail"}} {
		output, tried := run(append([]string{binaries.gatehouse, "review", "--state=state.yaml", "--ignore-unknown",
			"--only=refused", "-f=judged.yaml"}, flags...)...)
		if tried > 0 || !strings.Contains(output, "Thing default/old") {
			t.Errorf("with %q %d connections are tried:\n%s", flags, tried, output)
		}
	}
}

// attempts returns how many packets were sent, or had no route, by the counters in /proc/net.
func attempts(t *testing.T, counters string) (sum int) {
	t.Helper()
	counted := map[string]bool{"OutNoRoutes": true, "ActiveOpens": true, "OutDatagrams": true, "Ip6OutNoRoutes": true,
		"Udp6OutDatagrams": true}
	add := func(name, value string) {
		if n, err := strconv.Atoi(value); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if counted[name] {
			sum += n
		}
	}
	var names []string
	for line := range strings.Lines(counters) {
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && !strings.HasSuffix(words[0], ":"): // of snmp6
			add(words[0], words[1])
		case names == nil:
			names = words
		default:
			for i := 1; i < len(words); i++ {
				add(names[i], words[i])
			}
			names = nil
		}
	}
	return sum
}
