// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"gatehouse.dev/review"
	"gatehouse.dev/test/differential/pair"
	"gatehouse.dev/test/peers"
)

// compareSkew has `gatehouse webhook`, `gatehouse review` and `gatehouse snapshot` work with a
// cluster of another minor version: with the kube-apiserver among the programs if it is of that
// version, see hack/skew, and otherwise with one that emulates it.
func compareSkew(ctx context.Context, t *testing.T, bin, version string) {
	theirs := clusterOf(ctx, t, bin, version)
	t.Run("Outside", func(t *testing.T) {
		o := outsideGroup{enable: append([]string{"DenyExecOnPrivileged", "ResourceDefaults"}, pair.OptionalPlugins...),
			cluster: theirs, flags: []string{emulates(version)}, probe: podSecurityProbe,
			// Policies are evaluated by the cluster itself.
			requests: slices.Concat(lastingRequests(), namespaceRequests)}
		o.compare(ctx, t, bin, pair.Words(t, "../../docs/webhook-mode.md"), map[string]bool{})
	})
	t.Run("Review", func(t *testing.T) { reviewSkew(ctx, t, bin, version, theirs) })
}

func emulates(version string) string { return "--emulated-version=" + version }

// A cluster is a kube-apiserver of some version.
type cluster struct {
	// flags has it emulate the version, if it is of another one.
	flags []string
	// plugins are the names of those that it has.
	plugins []string
}

// clusterOf returns a cluster of a minor version, by what the kube-apiserver in bin says of itself.
func clusterOf(ctx context.Context, t *testing.T, bin, version string) *cluster {
	t.Helper()
	says := func(flag string) string {
		out, err := exec.CommandContext(ctx, filepath.Join(bin, peers.KubeAPIServer), flag).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	c := &cluster{}
	if !strings.HasPrefix(says("--version"), "Kubernetes v"+version+".") {
		c.flags = []string{emulates(version)}
	}
	_, names, ok := strings.Cut(says("--help"), "Comma-delimited list of admission plugins: ")
	names, _, end := strings.Cut(names, ". ")
	if !ok || !end {
		t.Fatal("the help of kube-apiserver doesn't name its plugins")
	}
	c.plugins = strings.Split(names, ", ")
	return c
}

// unguarded are texts of Gatehouse that emulation doesn't take away, because no feature gate guards
// them. Kubernetes 1.35 to 1.37 brought them.
var unguarded = []string{
	"spec.externalIPs is deprecated and may no longer be implemented in some clusters",
	"resize of pods with pod-level resources is forbidden when",
}

// excuses reports whether Gatehouse may answer so although the cluster doesn't.
func (c *cluster) excuses(answer string) bool {
	return c != nil && c.flags == nil &&
		slices.ContainsFunc(unguarded, func(text string) bool { return strings.Contains(answer, text) })
}

// run starts kube-apiserver with those of the plugins that it has.
func (c *cluster) run(ctx context.Context, s *peers.Server, plugins []string, flags ...string) error {
	plugins = slices.DeleteFunc(slices.Clone(plugins), func(name string) bool { return !slices.Contains(c.plugins, name) })
	return s.RunKubeAPIServer(ctx, plugins, append(flags, c.flags...)...)
}

// reviewSkew has objects judged by what the cluster has, and by a snapshot of that. Both must say
// what the cluster then says.
func reviewSkew(ctx context.Context, t *testing.T, bin, version string, theirs *cluster) {
	running := pair.StartProcesses(ctx, t, bin, func(ctx context.Context, s *peers.Server) error {
		return theirs.run(ctx, s, pair.PluginNames(t, pair.OptionalPlugins))
	})
	server := testServer{pair.Connect(t, running)}
	for _, r := range append(clusterRequests, policyRequests([]policyCase{
		validatingPolicy("refuses", "in words", `validations: [{expression: "false", message: in words}]`),
	})...) {
		server.awaitAnswer(ctx, t, r)
	}
	kubeconfig, err := running.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	dir, writes := writeManifests(t, slices.Concat(podRequests(), workloadRequests(), claimRequests(), serviceRequests(),
		optionalPluginRequests(), []request{create(configMaps, configMap("refuses", "data: {a: b}"))}))

	judged := func(from string) []review.Result {
		var r review.Review
		out := runCommand(ctx, t, bin, "review", from, "--filename="+dir, "--kubernetes-version="+version,
			"--enable-admission-plugins="+strings.Join(pair.OptionalPlugins, ","), "--output=json")
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		return r.Results
	}
	live := judged("--kubeconfig=" + kubeconfig)
	snapshot := filepath.Join(t.TempDir(), "snapshot.yaml")
	if err := os.WriteFile(snapshot, runCommand(ctx, t, bin, "snapshot", "--kubeconfig="+kubeconfig, "--filename="+dir),
		0o600); err != nil {
		t.Fatal(err)
	}
	stored := judged("--state=" + snapshot)
	if len(live) != len(writes) || len(stored) != len(live) {
		t.Fatalf("of %d objects %d were judged by the cluster, %d by its snapshot", len(writes), len(live), len(stored))
	}
	different := 0
	for i := range live {
		w, ok := writes[live[i].Source.File]
		if !ok {
			t.Fatalf("%s was not written", live[i].Source.File)
		}
		want := server.verdict(ctx, t, w)
		for from, r := range map[string]*review.Result{"by the cluster": &live[i], "by its snapshot": &stored[i]} {
			if got := shortVerdict(string(r.Verdict), r.Message, r.Warnings); got != want && !theirs.excuses(got) {
				different++
				t.Errorf("%s %s %s:\nreview\n%s\nthe cluster\n%s", w.collection, w.object.GetName(), from, got, want)
			}
		}
	}
	t.Logf("%d objects, %d judged differently", len(live), different)
}

// runCommand runs gatehouse, and returns what it prints. Objects may be refused.
func runCommand(ctx context.Context, t *testing.T, bin string, args ...string) []byte {
	t.Helper()
	command := exec.CommandContext(ctx, filepath.Join(bin, peers.Gatehouse), args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != review.ExitRefused) {
		t.Fatalf("%v: %v\n%s%s", command, err, stderr.String(), out)
	}
	return out
}

// writeManifests writes the objects that the requests create to files. It leaves out those that
// somebody else than an administrator writes, and those that would be written again.
func writeManifests(t *testing.T, requests []request) (dir string, writes map[string]write) {
	t.Helper()
	dir, writes = t.TempDir(), map[string]write{}
	known := map[string]bool{}
	for i, r := range requests {
		object, collection := objectOf(t, r, i)
		if object == nil || object.GetName() == "" || r.as != "" || r.until != "" || r.kind != "" || r.difference != "" {
			continue
		}
		if name := collection + "/" + object.GetName(); known[name] {
			continue
		} else {
			known[name] = true
		}
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, fmt.Sprintf("%03d.yaml", i))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		writes[file] = write{object: object, collection: collection}
	}
	return dir, writes
}

// verdict creates the object, and returns the short verdict.
func (s testServer) verdict(ctx context.Context, t *testing.T, w write) string {
	t.Helper()
	answer := s.sendObject(ctx, t, http.MethodPost, w.collection, w)
	if word := answer.word(); word != "Admitted" {
		message, _ := answer.object().Object["message"].(string)
		return shortVerdict(word, message, answer.warnings)
	}
	return shortVerdict("Admitted", "", answer.warnings)
}

// shortVerdict returns a verdict without the object.
func shortVerdict(word, message string, warnings []string) string {
	return fmt.Sprintf("%s %q\n%s", word, slices.Compact(slices.Clone(warnings)), pair.Normalize(message))
}
