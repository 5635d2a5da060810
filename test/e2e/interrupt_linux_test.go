// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A command that waits for a pipe ends at the first signal, wherever the pipe is named.
func TestInterruptedPipes(t *testing.T) {
	t.Parallel()
	const policy = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p}, spec:
  {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]},
  validations: [{expression: "false"}]}}
---
{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: p},
  spec: {policyName: p, validationActions: [Deny]}}
`
	for command, want := range map[string]int{
		"review pipe":                                      2,
		"review policy.yaml --state=pipe":                  2,
		"review policy.yaml --like=pipe":                   2,
		"audit pipe -f policy.yaml":                        2,
		"audit policy.yaml -f policy.yaml --baseline=pipe": 2,
		"replay pipe -f policy.yaml":                       2,
		"lint pipe":                                        2,
		"drill --state=pipe":                               2,
		"test pipe":                                        2,
		"test --from-replay=pipe":                          2,
		"restore pipe --data-dir=restored":                 1,
		"plugins --admission-control-config-file=pipe":     1,
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(policy), 0o600); err != nil {
				t.Fatal(err)
			}
			pipe := filepath.Join(dir, "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(binaries.gatehouse, strings.Fields(command)...)
			cmd.Dir = dir
			p := startFor(t, cmd)
			opened := make(chan *os.File, 1)
			go func() {
				if file, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil { // once the command reads it
					opened <- file
				}
			}()
			select {
			case file := <-opened:
				defer file.Close()
			case <-time.After(startTimeout):
				t.Fatal("the command doesn't read the pipe")
			}
			p.signal(os.Interrupt)
			code, err := p.wait(stopTimeout) // nothing else ends it: the pipe stays open
			if err != nil {
				t.Fatal(err)
			}
			if code != want || p.stderr.String() != "gatehouse: interrupted before it was done\n" {
				t.Errorf("it ended with %d, and said %q", code, p.stderr)
			}
		})
	}
}
