// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
)

// deadline bounds every wait for the file system.
const deadline = 2 * time.Minute

// What is in force, and what the metrics and the health check say, while the files change:
// k8s.io/apiserver/pkg/admission/plugin/webhook/manifest/source/source.go and
// manifest/metrics/metrics.go.
func TestReload(t *testing.T) {
	good, better := validatingOf("a.static.k8s.io", minimal), validatingOf("b.static.k8s.io", minimal)
	dir := write(t, map[string]string{"a.yaml": good})
	serverID := dir // one that no other test has, since metrics are the process'
	s, err := ValidatingWebhooks.Load(dir, host(serverID))
	if err != nil {
		t.Fatal(err)
	}
	successes, failures := 1, 0
	check := func(step string, changed, wantChanged bool, names, hash, problem string) {
		t.Helper()
		if changed != wantChanged {
			t.Errorf("%s: changed is %t", step, changed)
		}
		if got := namesOf(s); got != names {
			t.Errorf("%s: in force is %q, want %q", step, got, names)
		}
		got := ""
		if err := s.Check(nil); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, problem) || (problem == "") != (got == "") {
			t.Errorf("%s: health is %q, want %q", step, got, problem)
		}
		for status, want := range map[string]int{"success": successes, "failure": failures} {
			got, err := testutil.GetCounterMetricValue(reloadsTotal.WithLabelValues(status,
				"ValidatingAdmissionWebhook", formatHash([]byte(serverID))))
			if err != nil || int(got) != want {
				t.Errorf("%s: automatic_reloads_total has %v with status %s, want %d (%v)", step, got, status, want,
					err)
			}
		}
		if got := infoOf(t, serverID); got != hash {
			t.Errorf("%s: last_config_info has the hash %q, want %q", step, got, hash)
		}
	}
	// Upstream's hash, so that servers of both kinds can be compared: of the files' bytes, each
	// followed by a zero.
	hash := func(files ...string) string {
		return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(strings.Join(files, "\x00")+"\x00")))
	}
	check("loaded", false, false, "a", hash(good), "")

	check("unchanged", s.reload(), false, "a", hash(good), "")

	put(t, dir, "b.yaml", better)
	successes++
	check("a file more", s.reload(), true, "a b", hash(good, better), "")

	put(t, dir, "b.yaml", "{")
	failures++
	check("broken", s.reload(), false, "a b", hash(good, better),
		"the manifests in "+dir+" are not in force, the previous ones still are: error loading "+filepath.Join(dir,
			"b.yaml"))

	// Every look at broken files is a failure, so that the counter goes on while they are.
	failures++
	check("still broken", s.reload(), false, "a b", hash(good, better), "error loading")

	put(t, dir, "b.yaml", better)
	successes++
	check("as before", s.reload(), false, "a b", hash(good, better), "")

	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	failures++
	check("away", s.reload(), false, "a b", hash(good, better),
		fmt.Sprintf("failed to read manifest directory %q", dir))
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	successes++
	check("a file less", s.reload(), true, "b", hash(better), "")

	if err := os.Remove(filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	successes++
	check("none", s.reload(), true, "", "", "")

	if got, want := s.Name(), "admission-manifests/ValidatingAdmissionWebhook"; got != want {
		t.Errorf("the check's name is %q, want %q", got, want)
	}
}

// infoOf is the hash that last_config_info shows for a server; there is one.
func infoOf(t *testing.T, serverID string) string {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var hashes []string
	for _, family := range families {
		if family.GetName() != "apiserver_manifest_admission_config_controller_last_config_info" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["apiserver_id_hash"] == formatHash([]byte(serverID)) && metric.GetGauge().GetValue() == 1 {
				hashes = append(hashes, labels["hash"])
			}
		}
	}
	if len(hashes) != 1 {
		t.Fatalf("last_config_info has the hashes %q, want one", hashes)
	}
	return hashes[0]
}

// run runs a set until the test ends, and says when it has changed.
func run(t *testing.T, s *Set) (changed <-chan struct{}) {
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx, func() {
			select {
			case changes <- struct{}{}:
			case <-ctx.Done():
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(deadline):
			t.Error("Run doesn't end")
		}
	})
	return changes
}

// await waits for a change and says what is in force then.
func await(t *testing.T, s *Set, changed <-chan struct{}, want string) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(deadline):
		t.Fatalf("nothing changed; in force is %q, want %q", namesOf(s), want)
	}
	if got := namesOf(s); got != want {
		t.Errorf("in force is %q, want %q", got, want)
	}
}

// Whatever changes in the directory takes effect: k8s.io/apiserver/pkg/util/filesystem/watcher.go.
func TestRun(t *testing.T) {
	dir := write(t, map[string]string{"a.yaml": mutatingOf("a.static.k8s.io")})
	s := load(t, MutatingWebhooks, dir)

	put(t, dir, "b.yaml", mutatingOf("b.static.k8s.io")) // after Load, before Run
	changed := run(t, s)
	await(t, s, changed, "a b")
	put(t, dir, "c.yaml", mutatingOf("c.static.k8s.io"))
	await(t, s, changed, "a b c")
	put(t, dir, "c.yaml", mutatingOf("d.static.k8s.io"))
	await(t, s, changed, "a b d")
	put(t, dir, "b.yaml", "{")
	put(t, dir, "b.yaml", mutatingOf("e.static.k8s.io"))
	await(t, s, changed, "a d e")
	if err := os.Remove(filepath.Join(dir, "c.yaml")); err != nil {
		t.Fatal(err)
	}
	await(t, s, changed, "a e")
}

// A ConfigMap that is mounted changes by another directory taking the place of the link ..data.
func TestRunOnMountedConfigMap(t *testing.T) {
	dir := t.TempDir()
	publish := func(version, text string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, version), "a.yaml", text)
		if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	publish("..1", mutatingOf("a.static.k8s.io"))
	if err := os.Symlink(filepath.Join("..data", "a.yaml"), filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	s := load(t, MutatingWebhooks, dir)
	changed := run(t, s)
	publish("..2", mutatingOf("b.static.k8s.io"))
	await(t, s, changed, "b")
}
