// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

// Ten thousand policies, no two alike, are in force: most from a file, as the API would take a
// minute to write so many, the others written by many at once. They take memory within bounds,
// don't slow a request that they can't match, and don't hold up the server's end.
func TestTenThousandPolicies(t *testing.T) {
	const (
		ofFiles = 9_000
		written = 1_000
		// Every so many there is one that shows whether it is in force.
		probed = 200
		// bound is for a policy with its binding: what it takes of this process, which has the
		// API's storage and caches, too.
		bound = 100 << 10
	)
	policyAndBinding := func(i int, suffix string) (policy, binding string) {
		resource := "services"
		if i%probed == 0 {
			resource = "secrets"
		}
		name := fmt.Sprintf("p%d%s", i, suffix)
		return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %s}
spec: {matchConstraints: {resourceRules: [%s]}, validations: [
  {expression: "object.metadata.name != 's%d'", message: by %[1]s}]}
`, name, rule("", "v1", resource, "[CREATE]"), i), fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %s}
spec: {policyName: %[1]s, validationActions: [Deny]}
`, name)
	}
	const static = ".static.k8s.io"
	var file bytes.Buffer
	for i := range ofFiles {
		policy, binding := policyAndBinding(i, static)
		fmt.Fprintf(&file, "%s---\n%s---\n", policy, binding)
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "policies.yaml"), file.Bytes(), 0o600))
	file.Reset()

	quickest := func(c *servertest.Cluster) time.Duration {
		configMaps := c.Dynamic.Resource(coreResource("configmaps")).Namespace("default")
		least := time.Hour
		for range 100 {
			begin := time.Now()
			must(t, try(t, configMaps, aConfigMap, "c"))
			least = min(least, time.Since(begin))
		}
		return least
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	empty := heap()
	begin := time.Now()
	c := servertest.Start(t, servertest.Configured(t, map[string]string{
		"ValidatingAdmissionPolicy": fmt.Sprintf(`{apiVersion: apiserver.config.k8s.io/v1,
			kind: ValidatingAdmissionPolicyConfiguration, staticManifestsDir: %q}`, dir)}))
	refused := func(i int, suffix string) func() error {
		secrets := c.Dynamic.Resource(coreResource("secrets")).Namespace("default")
		return func() error {
			return is(try(t, secrets, `{apiVersion: v1, kind: Secret, metadata: {name: s%d}}`, i),
				fmt.Sprintf("denied request: by p%d%s", i, suffix))
		}
	}
	t.Logf("the server has started after %v", time.Since(begin))
	for i := 0; i < ofFiles; i += probed {
		if err := refused(i, static)(); err != nil {
			t.Errorf("after the start: %v", err)
		}
	}

	begin = time.Now()
	numbers := make(chan int)
	var writers sync.WaitGroup
	for range 16 {
		writers.Go(func() {
			for i := range numbers {
				policy, binding := policyAndBinding(i, "")
				if _, err := c.Dynamic.Resource(validatingPolicies).Create(context.Background(),
					servertest.Parsed(t, policy), metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
				if _, err := c.Dynamic.Resource(validatingBindings).Create(context.Background(),
					servertest.Parsed(t, binding), metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range written {
		numbers <- ofFiles + i
	}
	close(numbers)
	writers.Wait()
	end := time.Now()
	for i := 0; i < written; i += probed {
		servertest.Retry(t, "a policy in force", refused(ofFiles+i, ""))
	}
	t.Logf("%d are written after %v, and in force %v later", written, end.Sub(begin), time.Since(end))

	servertest.Retry(t, "a request that is as quick as without policies", func() error {
		// On a machine that does other things as well, one of several must be.
		if alone, with := quickest(cluster), quickest(c); with > alone+alone/2 {
			return fmt.Errorf("the quickest took %v, and %v without", with, alone)
		}
		return nil
	})
	each := (heap() - empty) / (ofFiles + written)
	t.Logf("%d bytes each", each)
	if each > bound {
		t.Errorf("each takes %d bytes, more than %d", each, bound)
	}

	begin = time.Now()
	c.Stop()
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("the server has taken %v to stop", took)
	}
}
