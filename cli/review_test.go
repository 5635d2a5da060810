// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/review"
	"gatehouse.dev/test/needs"
)

// inFolder makes a folder with files the current one.
func inFolder(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	configMap = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: "
	invalid   = "to pass: No plugin refused it: what came of it isn't a valid object. Change the fields named."
)

// A refusal for what a cluster would have names the flags that read a cluster, unless they are given.
func TestReviewOnANewServer(t *testing.T) {
	needs.Server(t)
	inFolder(t, map[string]string{"in.yaml": configMap + "web}\n", "shop.yaml": "kind: Namespace\napiVersion: v1\nmetadata: {name: shop}\n"})
	const note = "note: " + onlyJudged + "\n"
	for args, noted := range map[string]bool{
		"-n shop":                   true,
		"-n shop --state=shop.yaml": false, // admitted
		"-n mall --state=shop.yaml": false, // refused, and the state was given
		"-n default":                false, // admitted
	} {
		stdout, stderr, code := runProgram(t, append([]string{"review", "in.yaml"}, strings.Fields(args)...)...)
		refused := strings.Contains(args, "mall") || noted
		if strings.Contains(stdout, note) != noted || (code == review.ExitRefused) != refused {
			t.Errorf("%s: exit code %d\n%s%s", args, code, stdout, stderr)
		}
	}
}

// What can't be judged is said with file and line, ends the command with 2, and keeps nothing else
// from being judged.
func TestReviewBadInput(t *testing.T) {
	needs.Server(t)
	inFolder(t, map[string]string{
		"in/a-broken.yaml": configMap + "before}\n---\n# a comment\n\nkind: ConfigMap\n\tapiVersion: v1\n---\n" +
			configMap +
			"after}\n",
		"in/b-unknown.yaml": "kind: Deploymnet\napiVersion: apps/v1\nmetadata: {name: d}\n---\n" +
			"kind: Ingress\napiVersion: extensions/v1beta1\nmetadata: {name: i}\n",
		"in/c-crd.yaml": `kind: Gate
apiVersion: example.com/v1
metadata: {name: g}
---
kind: CustomResourceDefinition
apiVersion: apiextensions.k8s.io/v1
metadata: {name: gates.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gates, kind: Gate}
  versions: [{name: v1, served: true, storage: true}]
`,
		"in/d-twice.yaml":    configMap + "before, namespace: default}\n",
		"in/e-template.yaml": "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: {{ .Values.name }}\n",
		"in/f-quoted.yaml":   "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: \"{{ .Values.name }}\"\n",
		"in/g-helper.yaml":   "{{- if .Values.enabled }}\nkind: ConfigMap\napiVersion: v1\n{{- end }}\n",
		"in/h-text.yaml":     "hello\n",
		"in/i-own.yaml":      configMap + "own}\ndata: {template: '{{ .Values }}'}\n",
		"in/j-list.yaml": "kind: List\napiVersion: v1\nitems:\n- kind: ConfigMap\n  apiVersion: v1\n  metadata: " +
			"{name: one}\n" +
			"- kind: ConfigMap\n  apiVersion: v1\n  metadata: {name: Two}\n",
		"none/README.md": "no manifest",
		"large.yaml":     strings.Repeat("# 50 MB of comments\n", 50<<20/20),
	})
	if err := os.Symlink(".", "in/loop"); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := runCommand(t, "review", "-f", "in", "-f", "none", "-f", "missing.yaml", "-f", "large.yaml")
	if code != review.ExitFailed || stderr != "" {
		t.Errorf("it ended with %d, and said %q", code, stderr)
	}
	if diff := cmp.Diff(badInput, stdout); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

const badInput = `refused   CustomResourceDefinition gates.example.com  in/c-crd.yaml:5
          CustomResourceDefinition.apiextensions.k8s.io "gates.example.com" is invalid: ` +
	`spec.versions[0].schema.openAPIV3Schema: Required value
          ` + invalid + `
admitted  ConfigMap default/before                    in/a-broken.yaml:1
admitted  ConfigMap default/after                     in/a-broken.yaml:10
failed    Deploymnet d                                in/b-unknown.yaml:1
          no matches for kind "Deploymnet" in version "apps/v1", did you mean "Deployment"?
failed    Ingress i                                   in/b-unknown.yaml:5
          no matches for kind "Ingress" in version "extensions/v1beta1", did you mean networking.k8s.io/v1?
failed    Gate g                                      in/c-crd.yaml:1
          no matches for kind "Gate" in version "example.com/v1": its CustomResourceDefinition at ` +
	`in/c-crd.yaml:5 was refused
admitted  ConfigMap default/own                       in/i-own.yaml:1
admitted  ConfigMap default/one                       in/j-list.yaml:4
refused   ConfigMap default/Two                       in/j-list.yaml:7
          ConfigMap "Two" is invalid: metadata.name: Invalid value: "Two": a lowercase RFC 1123 ` +
	`subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an ` +
	`alphanumeric character (e.g. 'example.com', regex used for validation is ` +
	`'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
          to pass: No plugin refused it: take a name of the form that the message describes.
failed    -                                           in/a-broken.yaml:8
          found a tab character that violates indentation
failed    -                                           in/e-template.yaml:4
          a template that was not rendered: it has {{ … }} (render it first: helm template … | gatehouse ` +
	`review -f -)
failed    -                                           in/f-quoted.yaml:4
          a template that was not rendered: it has {{ … }} (render it first: helm template … | gatehouse ` +
	`review -f -)
failed    -                                           in/g-helper.yaml:1
          a template that was not rendered: it has {{ … }} (render it first: helm template … | gatehouse ` +
	`review -f -)
failed    -                                           in/h-text.yaml:1
          no object: it is a text
failed    -                                           none
          no manifests in it: no file ends in .yaml, .yml, .json
failed    -                                           missing.yaml
          no such file or directory
failed    -                                           large.yaml
          larger than 32 MiB, which is too much at a time: divide it
failed    ConfigMap default/before                    in/d-twice.yaml:1
          ConfigMap before is in the input twice: first at in/a-broken.yaml:1
note: in/loop: left out, for links to directories aren't followed, as kubectl doesn't: name what they lead to
note: in/c-crd.yaml:5: CustomResourceDefinition gates.example.com is taken before in/c-crd.yaml:1, which ` +
	`needs it
4 admitted, 2 refused, 12 failed
`

// Files are named as arguments as well as with -f. Of a directory some can be left out, and of the
// results those that nobody has to look at; what failed is always shown, and all is counted.
func TestReviewChoice(t *testing.T) {
	needs.Server(t)
	inFolder(t, map[string]string{
		"in/a.yaml":               configMap + "a}\n",
		"in/b.yaml":               configMap + "B}\n",
		"in/broken/c.yaml":        "{",
		"in/kustomization.yaml":   "resources: [a.yaml]\n",
		"twice.yaml":              configMap + "twice}\ndata: {a: b}\ndata: {a: c}\n",
		"values/values.yaml":      "replicas: 3\n",
		"empty/kustomization.yml": "kind: Kustomization\napiVersion: kustomize.config.k8s.io/v1beta1\n",
		"kinds.yaml": "kind: ClusterPolicy\napiVersion: kyverno.io/v1\nmetadata: {name: p}\n---\n" +
			"kind: Service\napiVersion: serving.knative.dev/v1\nmetadata: {name: s}\n---\n" +
			"kind: Kustomization\napiVersion: kustomize.config.k8s.io/v1beta1\n---\n" +
			"kind: Deployment\napiVersion: app/v1\nmetadata: {name: d}\n",
	})
	const admitted = "admitted  ConfigMap default/a  in/a.yaml:1\n"
	const refused = "refused   ConfigMap default/B  in/b.yaml:1\n"
	const failed = "failed    -                    in/broken/c.yaml:1\n"
	const note = "note: in/b.yaml: left out, for the kustomization beside it doesn't name it: name the file to have it read\n"
	const missing = ", and its CustomResourceDefinition is missing: add that with --state, or leave such objects out " +
		"with --ignore-unknown\n"
	for args, want := range map[string]struct {
		code   int
		output string
	}{
		"in":                             {2, admitted + failed + note},
		"in/a.yaml --filename=in/b.yaml": {1, refused + admitted},
		"in in/b.yaml --exclude=broken --only=refused":              {1, refused + note + "1 admitted, 1 refused, 0 failed\n"},
		"in in/b.yaml --only=refused":                               {2, refused + failed + note + "1 admitted, 1 refused, 1 failed\n"},
		"in --exclude=kustomization.yaml,broken,b.* --only=refused": {0, "1 admitted, 0 refused, 0 failed\n"},
		"twice.yaml":                   {2, `key "data" already set in map`},
		"twice.yaml --validate=ignore": {0, "1 admitted, 0 refused, 0 failed\n"},
		"kinds.yaml": {2, `no matches for kind "ClusterPolicy" in version "kyverno.io/v1": it is a custom ` +
			"resource of kyverno.io" + missing},
		"kinds.yaml --only=failed": {2, `no matches for kind "Service" in version "serving.knative.dev/v1": it is a ` +
			"custom resource of serving.knative.dev" + missing},
		"kinds.yaml --only=admitted": {2, `"kustomize.config.k8s.io/v1beta1": it says what kustomize makes of other ` +
			"files: name the folder, which is rendered\n"},
		"./kinds.yaml": {2, `no matches for kind "Deployment" in version "app/v1", did you mean apps/v1?` + "\n"},
	} {
		stdout, stderr, code := runCommand(t, append([]string{"review"}, strings.Fields(args)...)...)
		var kept strings.Builder // without what is said below an object
		for line := range strings.Lines(stdout) {
			if !strings.HasPrefix(line, " ") {
				kept.WriteString(line)
			}
		}
		if code != want.code || stderr != "" || !strings.Contains(stdout, want.output) &&
			!strings.HasPrefix(kept.String(), want.output) {
			t.Errorf("review %s ended with %d, and said %q and\n%s\nwant %d and\n%s", args, code, stderr, stdout,
				want.code, want.output)
		}
	}
	_, stderr, code := runCommand(t, "review", "values")
	if code != ExitUsage || stderr != "gatehouse: nothing to judge: there are no objects in values; "+
		"values/values.yaml: left out, for helm makes manifests by it: helm template values | gatehouse review -f -\n" {
		t.Errorf("of a folder without objects: %d, %q", code, stderr)
	}
	for _, args := range []string{"review empty -o junit", "review empty -o json", "lint empty", "audit in/a.yaml -f empty"} {
		stdout, stderr, code := runCommand(t, strings.Fields(args)...)
		if code != review.ExitFailed || !strings.Contains(stdout+stderr, "rendering it as kustomize does") {
			t.Errorf("%s, of a kustomization that can't be rendered: %d, %s%s", args, code, stdout, stderr)
		}
	}
}

// Objects of unknown kinds can be left out, with a note, unless nothing else is there or the kind is a misspelt or a
// removed one of Kubernetes'.
func TestReviewIgnoresUnknown(t *testing.T) {
	needs.Server(t)
	own := func(version, kind string) string {
		return "kind: " + kind + "\napiVersion: " + version + "\nmetadata: {name: x}\n---\n"
	}
	inFolder(t, map[string]string{"own.yaml": own("extensions/v1beta1", "Ingress") + own("apps/v1", "Deplyment") +
		own("app/v1", "Deployment") + own("v1", "Deployment") + own("networking.k8.io/v1", "Ingress") +
		own("apiextensions.k8s.io/v1beta1", "CustomResourceDefinition"),
		"foreign.yaml": own("gateway.networking.k8s.io/v1", "HTTPRoute") + own("scheduling.x-k8s.io/v1alpha1", "PodGroup") +
			own("authorization.openshift.io/v1", "RoleBinding") + own("metrics.k8s.io/v1beta1", "PodMetrics") +
			own("serving.knative.dev/v1", "Service")})
	stdout, _, code := runCommand(t, "review", "own.yaml", "--ignore-unknown")
	for _, meant := range []string{"networking.k8s.io/v1?", `"Deployment"?`, "apps/v1?", "networking.k8s.io/v1?",
		"apiextensions.k8s.io/v1?", "0 admitted, 0 refused, 6 failed"} {
		if code != review.ExitFailed || !strings.Contains(stdout, meant) {
			t.Errorf("of Kubernetes' kinds: %d, without %s\n%s", code, meant, stdout)
		}
	}
	for _, format := range review.Formats {
		stdout, _, code = runCommand(t, "review", "foreign.yaml", "--ignore-unknown", "--output="+format)
		if code != review.ExitFailed || !strings.Contains(stdout, "and nothing else is there to judge") {
			t.Errorf("of others' kinds alone: %d\n%s", code, stdout)
		}
	}
	inFolder(t, map[string]string{"in.yaml": "kind: Gate\napiVersion: example.com/v1\nmetadata: {name: g}\n---\n" +
		configMap + "c}\n"})
	stdout, stderr, code := runCommand(t, "review", "-f", "in.yaml", "--ignore-unknown")
	want := `admitted  ConfigMap default/c  in.yaml:5
note: in.yaml:1: left out: no matches for kind "Gate" in version "example.com/v1"
1 admitted, 0 refused, 0 failed
`
	if code != 0 || stderr != "" || stdout != want {
		t.Errorf("it ended with %d, and said %q and\n%s", code, stderr, stdout)
	}
}

// A mistake in the command line, or in what it names, is reported in one line, and ends it with 2.
func TestReviewUsage(t *testing.T) {
	inFolder(t, map[string]string{
		"c.yaml": configMap + "c}\n", "empty.yaml": "# nothing\n", "broken.yaml": "{",
		"like.txt": "nothing of that", "kubeconfig": "kind: Config\napiVersion: v1\nclusters: []\n",
	})
	address := webhooktest.Refusing(t)
	if err := os.WriteFile("gone", []byte(`kind: Config
apiVersion: v1
clusters: [{name: c, cluster: {server: "https://`+address+`"}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":              "nothing to judge: name files, directories, or - for the standard input\n",
		"-f empty.yaml": "nothing to judge: there are no objects in empty.yaml\n",
		"-f - --state=-": "--filename and --state: the standard input (-) is named 2 times, and can be read " +
			"once\n",
		"-f c.yaml -o xml":      "--output: \"xml\" is none of json, yaml, junit, sarif, github, markdown\n",
		"c.yaml --validate=no":  "--validate: \"no\" is none of strict, warn, ignore\n",
		"c.yaml --exclude=[":    "--exclude=[: syntax error in pattern\n",
		"c.yaml --only=changed": "--only: \"changed\" is none of admitted, refused, failed\n",
		"-f c.yaml --operation=replace": "--operation: \"replace\" is none of create, update, apply, delete, " +
			"connect\n",
		"-f c.yaml --webhooks=some":        "--webhooks: \"some\" is none of skip, ask, fail\n",
		"-f c.yaml --webhook=a.b":          "--webhook: \"a.b\" is not NAME=URL, with a URL as http://localhost:8080\n",
		"-f c.yaml --as-group=a":           "--as-group needs --as\n",
		"-f c.yaml --as-service-account=a": "--as-service-account: \"a\" is not namespace/name\n",
		"-f c.yaml --state=broken.yaml":    "--state: broken.yaml:1: did not find expected node content\n",
		"-f c.yaml --like=like.txt": "--like like.txt: neither the manifest of a kube-apiserver's pod nor its " +
			"command " +
			"line\n",
		"-f c.yaml --kubeconfig=none":             "kubeconfig: stat none: no such file or directory\n",
		"-f c.yaml --kubeconfig=gone --context=x": "kubeconfig: context \"x\" does not exist\n",
		"-f c.yaml --kubeconfig=gone": "the cluster at https://" + address +
			" can't be reached: dial tcp " + address + ": connect: connection refused\n",
		"-f c.yaml --enable-admission-plugins=LimitRangr": "enable-admission-plugins plugin \"LimitRangr\" is " +
			"unknown, " +
			"did you mean \"LimitRanger\"?\n",
	} {
		stdout, stderr, code := runCommand(t, append([]string{"review"}, strings.Fields(args)...)...)
		if want := "gatehouse: " + want; stdout != "" || stderr != want || code != ExitUsage {
			t.Errorf("%s: got %q, %q, exit code %d, want %q", args, stdout, stderr, code, want)
		}
	}
}

// The JSON has the fields that programs go by.
func TestReviewJSON(t *testing.T) {
	needs.Server(t)
	inFolder(t, map[string]string{"in.yaml": `kind: ResourceQuota
apiVersion: v1
metadata: {name: q}
spec: {hard: {pods: "1"}}
---
kind: ReplicaSet
apiVersion: apps/v1
metadata: {name: r}
spec:
  replicas: 3
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {containers: [{name: c, image: i}]}
---
kind: Pod
apiVersion: v1
metadata: {name: p}
spec: {containers: []}
`})
	stdout, stderr, code := runCommand(t, "review", "-f", "in.yaml", "-o", "json")
	if code != review.ExitRefused || stderr != "" {
		t.Errorf("it ended with %d, and said %q", code, stderr)
	}
	var got map[string]any
	decoder := json.NewDecoder(bytes.NewReader([]byte(stdout)))
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	results, _ := got["results"].([]any)
	for _, result := range results {
		fields := result.(map[string]any)
		decision, _ := fields["decision"].(map[string]any)
		if decision["kind"] != "Decision" || decision["verdict"] != fields["verdict"] {
			t.Errorf("the decision is %v", decision)
		}
		fields["decision"] = "…"
		if pods, ok := fields["pods"].([]any); ok {
			decision, _ := pods[0].(map[string]any)["decision"].(map[string]any)
			if decision["by"] != "ResourceQuota" {
				t.Errorf("the pods' decision is %v", decision)
			}
			pods[0] = map[string]any{"wanted": pods[0].(map[string]any)["wanted"],
				"admitted": pods[0].(map[string]any)["admitted"]}
		}
		delete(fields, "message")
	}
	object := func(apiVersion, kind, name string) map[string]any {
		return map[string]any{"apiVersion": apiVersion, "kind": kind, "namespace": "default", "name": name}
	}
	source := func(line float64) map[string]any { return map[string]any{"file": "in.yaml", "line": line} }
	want := map[string]any{
		"apiVersion": "gatehouse.dev/v1alpha1", "kind": "Review",
		"results": []any{
			map[string]any{"source": source(1), "object": object("v1", "ResourceQuota", "q"), "verdict": "Admitted",
				"decision": "…"},
			map[string]any{"source": source(6), "object": object("apps/v1", "ReplicaSet", "r"), "verdict": "Admitted",
				"decision": "…", "pods": []any{map[string]any{"wanted": 3.0, "admitted": 1.0}}},
			map[string]any{"source": source(16), "object": object("v1", "Pod", "p"), "verdict": "Refused",
				"decision": "…"},
		},
		"summary": map[string]any{"admitted": 1.0, "refused": 2.0, "failed": 0.0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Shells complete what flags can have.
func TestReviewCompletion(t *testing.T) {
	for flag, want := range map[string]string{
		"--operation=": "create\nupdate\napply\ndelete\nconnect\n:4\n",
		"--webhooks=":  "skip\nask\nfail\n:4\n",
		"--output=":    "json\nyaml\njunit\nsarif\ngithub\nmarkdown\n:4\n",
	} {
		if stdout, _, _ := runCommand(t, "__complete", "review", flag); stdout != want {
			t.Errorf("%s is completed by %q, want %q", flag, stdout, want)
		}
	}
}

// Long work is shown on a terminal, and is gone from there at the end; short work isn't.
func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out, last: -1}
	for i := range longWork - 1 {
		p.report("reading")(i, longWork-1)
	}
	p.done()
	if out.Len() > 0 {
		t.Errorf("of short work it says %q", &out)
	}
	for i := range 1000 {
		p.report("judging")(i, 1000)
	}
	p.done()
	if text := out.String(); strings.Count(text, "judging: ") != 100 || !strings.HasSuffix(text, "\r\x1b[K") ||
		!strings.Contains(text, "\r\x1b[Kjudging: 500 of 1000") {
		t.Errorf("it says %q", text)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "no-terminal"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if newProgress(file).out != nil || newProgress(&out).out != nil {
		t.Error("it is shown where no terminal is")
	}
}

// Each operation is a request of its own.
func TestReviewOperations(t *testing.T) {
	needs.Server(t)
	inFolder(t, map[string]string{
		"state.yaml": `kind: Pod
apiVersion: v1
metadata: {name: p, labels: {was: there}}
spec: {containers: [{name: c, image: i}]}
---
kind: ValidatingAdmissionPolicy
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: all}
spec:
  matchConstraints:
    resourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: [v1], resources: [pods, pods/exec]}]
  validations:
  - expression: "false"
    messageExpression: >-
      request.operation + ' of ' + request.resource.resource +
      (has(request.subResource) ? '/' + request.subResource : '') + ', ' + (object != null && has(object.metadata) && has(object.metadata.labels) ?
      string(size(object.metadata.labels)) : 'no') + ' labels'
---
kind: ValidatingAdmissionPolicyBinding
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: all}
spec: {policyName: all, validationActions: [Deny]}
`,
		"in.yaml": "kind: Pod\napiVersion: v1\nmetadata: {name: p, labels: {new: one}}\n" +
			"spec: {serviceAccountName: default, containers: [{name: c, image: i}]}\n",
	})
	for operation, want := range map[string]string{
		"":        "UPDATE of pods, 1 labels", // as kubectl apply does: the old one is gone
		"create":  "CREATE of pods, 1 labels",
		"update":  "UPDATE of pods, 1 labels",
		"apply":   "UPDATE of pods, 2 labels", // the old one is somebody else's
		"delete":  "DELETE of pods, no labels",
		"connect": "CONNECT of pods/exec, no labels",
	} {
		stdout, stderr, code := runCommand(t, "review", "-f", "in.yaml", "--state=state.yaml", "--operation="+operation,
			"--explain")
		if code != review.ExitRefused || stderr != "" || !strings.Contains(stdout, "denied request: "+want+"\n") ||
			!strings.Contains(stdout, "\n          Validate ValidatingAdmissionPolicy: refused in ") ||
			!strings.Contains(stdout, "\n            policy all, binding all: refused: "+want+"\n              "+
				"false\n") {
			t.Errorf("%s: it ended with %d, and said %q and\n%s, want %s", operation, code, stderr, stdout, want)
		}
	}
}
