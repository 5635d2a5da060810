// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"gatehouse.dev/review"
	"gatehouse.dev/test/needs"
)

// An upgrade and the way back are shown as what they change for each object.
func TestReviewAgainst(t *testing.T) {
	needs.Server(t)
	inFolder(t, map[string]string{"in.yaml": ofVersions})
	tested := testedVersions()
	own, before, oldest := tested[0], tested[1], tested[2]
	for _, test := range [][2]*version.Version{{before, own}, {oldest, own}, {own, before}, {own, oldest},
		{oldest, before}} {
		from, to := test[0], test[1]
		// crosses returns 1 if a minor version is between them, -1 on the way back, and else 0.
		crosses := func(minor uint) int {
			switch {
			case from.Minor() < minor && to.Minor() >= minor:
				return 1
			case from.Minor() >= minor && to.Minor() < minor:
				return -1
			}
			return 0
		}
		want := map[string]review.Change{}
		set := func(name string, minor uint, up, down review.Change) {
			if way := crosses(minor); way != 0 {
				want[name] = map[int]review.Change{1: up, -1: down}[way]
			}
		}
		set("1web", 36, review.ChangeAdmitted, review.ChangeRefused)
		set("zeros", 36, review.ChangeRefused, review.ChangeAdmitted)
		set("policy", 36, review.ChangeServed, review.ChangeUnserved)
		set("host", 35, review.ChangeChanged, review.ChangeChanged)
		wantCode := review.ExitAdmitted
		if len(want) > 0 {
			wantCode = review.ExitRefused
		}
		failed := 0
		if from.Minor() < 36 && to.Minor() < 36 { // neither serves the policy
			want["policy"], wantCode, failed = review.ChangeFailed, review.ExitFailed, 1
		}
		stdout, stderr, code := runProgram(t, "review", "in.yaml", "--kubernetes-version="+from.String(),
			"--against-version="+to.String(), "-o", "json")
		var got review.Comparison
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || stderr != "" || code != wantCode {
			t.Fatalf("%s to %s: it ended with %d, want %d, and said %s%s", from, to, code, wantCode, stdout, stderr)
		}
		changes := map[string]review.Change{}
		for _, o := range got.Objects {
			changes[o.Object.Name] = o.Change
			if o.Object.Name == "host" && (len(o.Fields) != 1 || o.Fields[0].Field != "spec.hostnameOverride" ||
				o.Fields[0].Added != (crosses(35) > 0)) {
				t.Errorf("%s to %s: fields %+v", from, to, o.Fields)
			}
		}
		if diff := cmp.Diff(want, changes); diff != "" || got.From != from.String() || got.To != to.String() ||
			got.Summary != (review.ComparisonSummary{Changed: len(want) - failed, Unchanged: 5 - len(want), Failed: failed}) {
			t.Errorf("%s to %s: %+v, -want +got:\n%s", from, to, got, diff)
		}
		// MutatingAdmissionPolicy runs by default since 1.36, PodTopologyLabels since 1.35.
		for name, minor := range map[string]uint{"MutatingAdmissionPolicy": 36, "PodTopologyLabels": 35} {
			if slices.Contains(got.Plugins.Added, name) != (crosses(minor) > 0) ||
				slices.Contains(got.Plugins.Removed, name) != (crosses(minor) < 0) {
				t.Errorf("%s to %s: plugins %+v", from, to, got.Plugins)
			}
		}
	}
}

// The text says what is what, and only what changes. The standard input is for both versions.
func TestReviewAgainstText(t *testing.T) {
	needs.Server(t)
	versions := testedVersions()
	c := program(t, "review", "-n", "shop", "-", "--against-version="+versions[2].String())
	c.Stdin = strings.NewReader(configMap + "same}\n---\nkind: Namespace\napiVersion: v1\nmetadata: {name: shop}\n---\n" +
		"kind: Service\napiVersion: v1\nmetadata: {name: 1web}\nspec: {ports: [{port: 80}]}\n")
	stdout, err := c.Output()
	text := string(stdout)
	for _, want := range []string{
		fmt.Sprintf("- Kubernetes %s\n+ Kubernetes %s\n- plugin ", versions[0], versions[2]),
		"\nrefused   Service shop/1web  -:9\n          - admitted\n          + refused: Service \"1web\" is invalid: metadata.",
		"\nnote: -:5: Namespace shop is taken before -:1, which needs it\nnote: judged as Kubernetes " + versions[2].String(),
		"\n1 changed, 2 unchanged, 0 failed\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(text, "same") || c.ProcessState.ExitCode() != review.ExitRefused || t.Failed() {
		t.Errorf("it ended with %v, and said\n%s", err, text)
	}
}

// Without a change the exit code is 0, and if something can't be judged it is 2.
func TestReviewAgainstCodes(t *testing.T) {
	needs.Server(t)
	inFolder(t, map[string]string{"same.yaml": configMap + "same}\n", "broken.yaml": "{",
		"gate.yaml": "kind: Gate\napiVersion: example.com/v1\nmetadata: {name: g}\n"})
	against := "--against-version=" + testedVersions()[1].String()
	for args, want := range map[string]struct {
		code int
		last string
	}{
		"same.yaml":                            {review.ExitAdmitted, "0 changed, 1 unchanged, 0 failed"},
		"same.yaml broken.yaml":                {review.ExitFailed, "0 changed, 1 unchanged, 1 failed"},
		"same.yaml gate.yaml":                  {review.ExitFailed, "0 changed, 1 unchanged, 1 failed"},
		"same.yaml gate.yaml --ignore-unknown": {review.ExitAdmitted, "0 changed, 1 unchanged, 0 failed"},
	} {
		stdout, stderr, code := runProgram(t, append([]string{"review", against}, strings.Fields(args)...)...)
		if code != want.code || stderr != "" || !strings.HasSuffix(stdout, "\n"+want.last+"\n") {
			t.Errorf("%s: it ended with %d, want %d, and said\n%s%s", args, code, want.code, stdout, stderr)
		}
	}
}

// A mistake in the command line ends it before anything is judged. A mistake that only the other
// version finds is reported with that version.
func TestReviewAgainstUsage(t *testing.T) {
	needs.Server(t)
	inFolder(t, map[string]string{"in.yaml": configMap + "c}\n"})
	versions := testedVersions()
	own, before, oldest := versions[0].String(), versions[1].String(), versions[2].String()
	all := strings.Join(review.KubernetesVersions(), ", ")
	gate := newestGate(t, versions[0])
	for args, want := range map[string]string{
		"--against-version=1.2": `--against-version: "1.2" is none of ` + all + ", the versions that this program can " +
			"judge as: use a release of gatehouse for that version\n",
		"--against-version=" + own: "--against-version: the review judges as Kubernetes " + own +
			" already: name another version\n",
		"--against-version=" + own + " --emulated-version=" + before: "--against-version and --emulated-version: name the " +
			"first version with --kubernetes-version\n",
		"--against-version=" + before + " -o junit": `--output: "junit" is none of json, yaml, the formats with ` +
			"--against-version\n",
		"--against-version=" + before + " --explain": "--explain and --against-version: only one can be given, for the " +
			"output has what differs between the versions\n",
		"--against-version=" + oldest + " --feature-gates=" + gate + "=false": "judging as Kubernetes " + oldest +
			": cannot set feature gate " + gate,
	} {
		stdout, stderr, code := runProgram(t, append([]string{"review", "in.yaml"}, strings.Fields(args)...)...)
		if want := "gatehouse: " + want; stdout != "" || !strings.HasPrefix(stderr, want) || code != ExitUsage ||
			strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: got %q, %q, exit code %d, want %q", args, stdout, stderr, code, want)
		}
	}
	if _, stderr, code := runCommand(t, "review", "in.yaml", "--against-version="+before); code != 1 ||
		!strings.Contains(stderr, "works in a program that calls cli.Main") {
		t.Errorf("outside of a program: %d, %q", code, stderr)
	}
}

// A running cluster's state is that of both versions. A kind of Kubernetes that the cluster serves, and the
// version that judges doesn't, is said to be that.
func TestReviewAgainstCluster(t *testing.T) {
	needs.Server(t)
	versions := testedVersions()
	inFolder(t, map[string]string{"in.yaml": ofVersions + "---\nkind: Service\napiVersion: v1\nmetadata: {name: 2web}\n" +
		"spec: {ports: [{port: 80}]}\n"})
	serve := program(t, "serve", "--secure-port=0")
	stdout, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = serve.Process.Signal(os.Interrupt)
		_ = serve.Wait()
	}()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "gatehouse is ready") {
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	const kubeconfig = "--kubeconfig=gatehouse-data/admin.kubeconfig"
	const unserved = "mutatingadmissionpolicies.admissionregistration.k8s.io: the cluster serves " +
		"admissionregistration.k8s.io/v1, and the version of Kubernetes that judges doesn't: they can't be judged"
	out, stderr, code := runProgram(t, "review", "in.yaml", kubeconfig, "--kubernetes-version="+versions[2].String())
	ofCluster := "note: the cluster is Kubernetes v" + versions[0].String() + "."
	if code != review.ExitFailed || !strings.Contains(out, "note: "+unserved+"\n") || !strings.Contains(out, ofCluster) ||
		!strings.Contains(out, ", unless --kubernetes-version="+versions[0].String()+" is given\n") {
		t.Errorf("as %s it ended with %d, and said\n%s%s", versions[2], code, out, stderr)
	}
	out, stderr, code = runProgram(t, "review", "in.yaml", kubeconfig, "--against-version="+versions[2].String())
	if code != review.ExitRefused || !strings.Contains(out, "unserved  MutatingAdmissionPolicy policy ") ||
		!strings.Contains(out, "refused   Service default/2web ") || !strings.Contains(out, unserved) {
		t.Errorf("against %s it ended with %d, and said\n%s%s", versions[2], code, out, stderr)
	}
}

// newestGate returns a feature gate that came with a version, and is off.
func newestGate(t *testing.T, since *version.Version) string {
	t.Helper()
	var names []string
	for name, specs := range utilfeature.DefaultMutableFeatureGate.GetAllVersioned() {
		if !strings.HasPrefix(string(name), "All") && len(specs) > 0 && specs[0].Version.EqualTo(since) &&
			!utilfeature.DefaultFeatureGate.Enabled(name) {
			names = append(names, string(name))
		}
	}
	if len(names) == 0 {
		t.Fatalf("no feature gate came with %s", since)
	}
	return slices.Min(names)
}

// Both processes end when the first one is interrupted. The second one ends, too, when the first one is
// gone.
func TestReviewAgainstInterrupted(t *testing.T) {
	needs.Server(t)
	asked, gone := make(chan bool, 2), make(chan bool, 2)
	webhook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- true
		<-r.Context().Done()
		gone <- true
	}))
	defer webhook.Close()
	inFolder(t, map[string]string{"in.yaml": configMap + "c}\n", "state.yaml": `
kind: ValidatingWebhookConfiguration
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: hook}
webhooks:
- name: hook.example.com
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  clientConfig: {url: "https://127.0.0.1:1/"}
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 30
`})
	version := testedVersions()[1].String()
	args := []string{"review", "in.yaml", "--state=state.yaml", "--webhook=hook=" + webhook.URL,
		"--against-version=" + version}
	ends := func(c *exec.Cmd, stderr *strings.Builder) {
		err := c.Wait()
		if c.ProcessState.ExitCode() != ExitUsage || stderr.String() != "gatehouse: interrupted before it was done\n" {
			t.Errorf("it ended with %v, and said %q", err, stderr)
		}
	}
	var stderr strings.Builder
	first := program(t, args...)
	if first.Stderr = &stderr; first.Start() != nil {
		t.Fatal("the program doesn't start")
	}
	<-asked
	<-asked
	if err := first.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-gone
	<-gone
	ends(first, &stderr)

	stderr.Reset()
	alone := program(t, args...)
	alone.Env, alone.Stderr = append(alone.Env, asSecond+"=1"), &stderr
	stdin, err := alone.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := alone.Start(); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(stdin).Encode(task{Version: version}); err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	<-gone
	ends(alone, &stderr)
}
