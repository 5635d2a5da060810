// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/apiserver/manifests"
	"gatehouse.dev/plugin"
)

type (
	validating = *admissionregistrationv1.ValidatingWebhookConfiguration
	mutating   = *admissionregistrationv1.MutatingWebhookConfiguration
)

// minimal is the least that a webhook of a manifest has.
const minimal = `{name: a.example.com, clientConfig: {url: "https://example.com/a"}, sideEffects: None, ` +
	`admissionReviewVersions: [v1]}`

// manifestOf is a configuration of a kind, in YAML.
func manifestOf(kind, name string, webhooks ...string) string {
	return fmt.Sprintf("apiVersion: admissionregistration.k8s.io/v1\nkind: %s\nmetadata: {name: %s}\nwebhooks: [%s]\n",
		kind, name, strings.Join(webhooks, ", "))
}

func validatingOf(name string, webhooks ...string) string {
	return manifestOf("ValidatingWebhookConfiguration", name, webhooks...)
}

func mutatingOf(name string, webhooks ...string) string {
	return manifestOf("MutatingWebhookConfiguration", name, webhooks...)
}

// itemOf is one in a list.
func itemOf(name string) string {
	return fmt.Sprintf("{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, "+
		"metadata: {name: %s}}", name)
}

// write makes a directory of files.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		put(t, dir, name, text)
	}
	return dir
}

// put writes a file as one should, by a rename.
func put(t testing.TB, dir, name, text string) {
	t.Helper()
	unfinished := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(unfinished, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(unfinished, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// host is the environment in a server of that ID.
func host(id string) *plugin.Env {
	return &plugin.Env{APIServerID: id, ValidateManifest: manifests.Validate}
}

func load(t testing.TB, p *Plugin, dir string) *Set {
	t.Helper()
	s, err := p.Load(dir, host("server"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func namesOf(s *Set) string {
	var names []string
	for _, c := range CurrentObjects[Object](s) {
		names = append(names, strings.TrimSuffix(c.GetName(), nameSuffix))
	}
	return strings.Join(names, " ")
}

// What files may look like: k8s.io/apiserver/pkg/admission/plugin/manifest/loader.go,
// webhook/manifest/loader/loader.go and
// k8s.io/kubernetes/pkg/admission/plugin/webhook/manifest/loader/loader.go.
func TestFiles(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"none": {nil, ""},
		"one":  {map[string]string{"a.yaml": validatingOf("a.static.k8s.io", minimal)}, "a"},
		"by name, whatever the files": {map[string]string{"1.yaml": validatingOf("b.static.k8s.io"),
			"2.yml": validatingOf("a.static.k8s.io")}, "a b"},
		"an ending in capitals": {map[string]string{"A.YAML": validatingOf("a.static.k8s.io")}, "a"},
		"several documents": {map[string]string{
			"a.yaml": "# A comment.\n---\n" + validatingOf("b.static.k8s.io") + "---\n---\n# Another.\n\n---\n" +
				validatingOf("a.static.k8s.io"),
		}, "a b"},
		"JSON": {map[string]string{
			"a.json": `{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", ` +
				`"metadata": {"name": "a.static.k8s.io"}}`,
		}, "a"},
		"a list of the kind": {map[string]string{
			"a.yaml": "apiVersion: admissionregistration.k8s.io/v1\nkind: " +
				"ValidatingWebhookConfigurationList\nitems: [{metadata: {name: b.static.k8s.io}}, {metadata: {name: " +
				"a.static.k8s.io}}]",
		}, "a b"},
		"a v1 List, and one in it": {map[string]string{
			"a.yaml": "apiVersion: v1\nkind: List\nitems: [" + itemOf("b.static.k8s.io") +
				", {apiVersion: v1, kind: List, items: [" + itemOf("a.static.k8s.io") + "]}]",
		}, "a b"},
		"what kubectl get -o yaml shows": {map[string]string{
			"a.yaml": strings.Replace(validatingOf("a.static.k8s.io"), "{name",
				`{uid: x, resourceVersion: "3", generation: 2, creationTimestamp: "2026-01-02T03:04:05Z", name`, 1),
		}, "a"},
		"other files": {map[string]string{
			"a.yaml": validatingOf("a.static.k8s.io"), "README.md": "text", "a.yaml.swp": "text", "b.txt": "text",
			"yaml": "text", "empty.yaml": "", "comment.yaml": "# Nothing.\n",
		}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := namesOf(load(t, ValidatingWebhooks, write(t, test.files))); got != test.want {
				t.Errorf("loaded %q, want %q", got, test.want)
			}
		})
	}
}

// Folders are other people's, and links are followed: that is how a ConfigMap is mounted.
func TestFoldersAndLinks(t *testing.T) {
	dir := write(t, map[string]string{"a.yaml": validatingOf("a.static.k8s.io")})
	if err := os.Mkdir(filepath.Join(dir, "folder.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(dir, "folder.yaml"), "b.yaml", validatingOf("b.static.k8s.io"))
	elsewhere := write(t, map[string]string{"c.yaml": validatingOf("c.static.k8s.io")})
	if err := os.Symlink(filepath.Join(elsewhere, "c.yaml"), filepath.Join(dir, "c.yaml")); err != nil {
		t.Fatal(err)
	}
	if got, want := namesOf(load(t, ValidatingWebhooks, dir)), "a c"; got != want {
		t.Errorf("loaded %q, want %q", got, want)
	}
}

// What a configuration has that says no more than it must:
// k8s.io/kubernetes/pkg/apis/admissionregistration/v1/defaults.go.
func TestDefaults(t *testing.T) {
	const rule = `rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods]}]`
	const said = `name: a.example.com
clientConfig: {url: "https://example.com/a"}
sideEffects: None
admissionReviewVersions: [v1]
`
	const defaults = `failurePolicy: Fail
matchPolicy: Equivalent
timeoutSeconds: 10
namespaceSelector: {}
objectSelector: {}
rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [pods], scope: "*"}]
`
	withRule := strings.TrimSuffix(minimal, "}") + ", " + rule + "}"
	dir := write(t, map[string]string{"a.yaml": validatingOf("a.static.k8s.io", withRule)})
	var want admissionregistrationv1.ValidatingWebhook
	if err := yaml.UnmarshalStrict([]byte(said+defaults), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]admissionregistrationv1.ValidatingWebhook{want},
		CurrentObjects[validating](load(t, ValidatingWebhooks, dir))[0].Webhooks); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	dir = write(t, map[string]string{"a.yaml": mutatingOf("a.static.k8s.io", withRule)})
	var wantMutating admissionregistrationv1.MutatingWebhook
	if err := yaml.UnmarshalStrict([]byte(said+defaults+"reinvocationPolicy: Never\n"), &wantMutating); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]admissionregistrationv1.MutatingWebhook{wantMutating},
		CurrentObjects[mutating](load(t, MutatingWebhooks, dir))[0].Webhooks); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	// What is said stays.
	const full = `{name: a.example.com, clientConfig: {url: "https://example.com/a"}, sideEffects: NoneOnDryRun, admissionReviewVersions: [v2, v1beta1], failurePolicy: Ignore, matchPolicy: Exact,
		timeoutSeconds: 30, namespaceSelector: {matchLabels: {a: b}}, objectSelector: {matchExpressions: [{key: a, operator: Exists}]}, reinvocationPolicy: IfNeeded,
		matchConditions: [{name: x, expression: "request.name != 'a'"}],
		rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*/*"], scope: Namespaced}]}`
	dir = write(t, map[string]string{"a.yaml": mutatingOf("a.static.k8s.io", full)})
	if err := yaml.UnmarshalStrict([]byte(full), &wantMutating); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]admissionregistrationv1.MutatingWebhook{wantMutating},
		CurrentObjects[mutating](load(t, MutatingWebhooks, dir))[0].Webhooks); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What stops the start. DIR is the directory.
func TestBrokenFiles(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string // in the error
	}{
		"no YAML":   {map[string]string{"a.yaml": "{"}, `error loading DIR/a.yaml: `},
		"no object": {map[string]string{"a.yaml": "text"}, `error loading DIR/a.yaml: `},
		"no kind": {map[string]string{"a.yaml": "apiVersion: admissionregistration.k8s.io/v1"},
			`Object 'Kind' is missing in`},
		"another kind": {map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " +
			"a.static.k8s.io}"},
			`error loading DIR/a.yaml: unsupported resource type ConfigMap in v1: the manifests of ` +
				`ValidatingAdmissionWebhook are ValidatingWebhookConfiguration, lists of them, or a v1 List, in ` +
				`admissionregistration.k8s.io/v1`},
		"the other plugin's kind": {map[string]string{"a.yaml": mutatingOf("a.static.k8s.io")},
			`error loading DIR/a.yaml: unsupported resource type MutatingWebhookConfiguration in ` +
				`admissionregistration.k8s.io/v1`},
		"the other plugin's kind in a list": {map[string]string{
			"a.yaml": "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfigurationList\nitems: " +
				"[{metadata: {name: a.static.k8s.io}}]",
		},
			`error loading DIR/a.yaml: unsupported resource type MutatingWebhookConfigurationList in ` +
				`admissionregistration.k8s.io/v1`},
		"another version": {map[string]string{"a.yaml": strings.Replace(validatingOf("a.static.k8s.io"), "k8s.io/v1",
			"k8s.io/v1beta1", 1)},
			`unsupported resource type ValidatingWebhookConfiguration in admissionregistration.k8s.io/v1beta1`},
		"a policy": {map[string]string{"a.yaml": "apiVersion: admissionregistration.k8s.io/v1\nkind: " +
			"ValidatingAdmissionPolicy\nmetadata: {name: a.static.k8s.io}"},
			`unsupported resource type ValidatingAdmissionPolicy in admissionregistration.k8s.io/v1`},
		"an unknown field": {map[string]string{"a.yaml": validatingOf("a.static.k8s.io",
			strings.Replace(minimal, "{", "{timeout: 3, ", 1))},
			`strict decoding error: unknown field "webhooks[0].timeout"`},
		"a field twice": {map[string]string{"a.yaml": "apiVersion: admissionregistration.k8s.io/v1\nkind: " +
			"ValidatingWebhookConfiguration\nmetadata: {name: a.static.k8s.io}\nkind: " +
			"ValidatingWebhookConfiguration\n"},
			`key "kind" already set in map`},
		"no name": {map[string]string{"a.yaml": validatingOf(`""`)},
			`error loading DIR/a.yaml: ValidatingWebhookConfiguration "": metadata.name: Required value: name or ` +
				`generateName is required`},
		"a name of the API's": {map[string]string{"a.yaml": validatingOf("a")},
			`error loading DIR/a.yaml: "a" in file "DIR/a.yaml" must have a name ending with ".static.k8s.io"`},
		"the same name in two files": {map[string]string{"a.yaml": validatingOf("a.static.k8s.io"),
			"b.yaml": validatingOf("a.static.k8s.io")},
			`error loading DIR/b.yaml: duplicate name "a.static.k8s.io" found in file "DIR/b.yaml" (previously seen ` +
				`in "DIR/a.yaml")`},
		"a service": {map[string]string{"a.yaml": validatingOf("a.static.k8s.io",
			strings.Replace(minimal, `url: "https://example.com/a"`, "service: {name: svc, namespace: ns}", 1))},
			`error loading DIR/a.yaml: ValidatingWebhookConfiguration "a.static.k8s.io": ` +
				`webhooks[0].clientConfig.service: Forbidden: clientConfig.service is not supported for static ` +
				`manifests; use clientConfig.url instead`},
		"no certificate": {map[string]string{"a.yaml": validatingOf("a.static.k8s.io",
			strings.Replace(minimal, "{url", "{caBundle: YWJj, url", 1))},
			`error loading DIR/a.yaml: ValidatingWebhookConfiguration "a.static.k8s.io": ` +
				`webhooks[0].clientConfig.caBundle: Invalid value: "YWJj": unable to load root certificates: unable to ` +
				`parse bytes as PEM block`},
		"all that is wrong with one": {map[string]string{"a.yaml": validatingOf("a.static.k8s.io",
			strings.Replace(minimal, "None", "Some, timeoutSeconds: 60", 1))},
			`ValidatingWebhookConfiguration "a.static.k8s.io": [webhooks[0].sideEffects: Unsupported value: "Some": ` +
				`supported values: "None", "NoneOnDryRun", ` +
				`webhooks[0].timeoutSeconds: Invalid value: 60: the timeout value must be between 1 and 30 seconds]`},
		"no address": {map[string]string{"a.yaml": validatingOf("a.static.k8s.io",
			strings.Replace(minimal, `url: "https://example.com/a"`, "", 1))},
			`webhooks[0].clientConfig: Required value: exactly one of url or service is required`},
		"in a List": {map[string]string{"a.yaml": "apiVersion: v1\nkind: List\nitems: [" + itemOf("a.static.k8s.io") +
			", " + itemOf("b") + "]"},
			`error loading DIR/a.yaml: items[1]: "b" in file "DIR/a.yaml" must have a name ending with ` +
				`".static.k8s.io"`},
		"all that is wrong": {map[string]string{"a.yaml": validatingOf("a") + "---\n" + validatingOf("b"),
			"b.yaml": validatingOf("c")},
			`[error loading DIR/a.yaml: "a" in file "DIR/a.yaml" must have a name ending with ".static.k8s.io", ` +
				`error loading DIR/a.yaml: "b" in file "DIR/a.yaml" must have a name ending with ".static.k8s.io", ` +
				`error loading DIR/b.yaml: "c" in file "DIR/b.yaml" must have a name ending with ".static.k8s.io"]`},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, test.files)
			_, err := ValidatingWebhooks.Load(dir, host("server"))
			if want := strings.ReplaceAll(test.want, "DIR", dir); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error is\n  %v\nwant\n  %s", err, want)
			}
		})
	}
}

// k8s.io/apiserver/pkg/admission/plugin/manifest/validation.go ValidateStaticManifestsDir.
func TestDirectory(t *testing.T) {
	dir := write(t, map[string]string{"file": ""})
	for given, want := range map[string]string{
		"":          `staticManifestsDir: Invalid value: "": must be an absolute file path`,
		"manifests": `staticManifestsDir: Invalid value: "manifests": must be an absolute file path`,
		filepath.Join(dir,
			"nowhere"): fmt.Sprintf(`staticManifestsDir: Invalid value: %q: unable to read: stat %[1]s: no such `+
			`file or directory`, filepath.Join(dir, "nowhere")),
		filepath.Join(dir, "file"): fmt.Sprintf(`staticManifestsDir: Invalid value: %q: must be a directory`,
			filepath.Join(dir, "file")),
	} {
		if _, err := MutatingWebhooks.Load(given, host("server")); err == nil || err.Error() != want {
			t.Errorf("error is\n  %v\nwant\n  %s", err, want)
		}
	}
}

// A program that can't validate manifests takes none.
func TestNoValidation(t *testing.T) {
	_, err := MutatingWebhooks.Load(t.TempDir(), &plugin.Env{})
	if err == nil || !strings.HasPrefix(err.Error(), "staticManifestsDir: ") {
		t.Errorf("error is %v", err)
	}
}

func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := MutatingWebhooks.Load(dir, host("server")); err == nil ||
		!strings.HasPrefix(err.Error(), fmt.Sprintf("failed to read file %q: ", filepath.Join(dir, "a.yaml"))) {
		t.Errorf("error is %v", err)
	}
}

// Only regular files are read: another one may never end.
func TestNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("failed to read file %q: is not a regular file", filepath.Join(dir, "a.yaml"))
	if _, err := MutatingWebhooks.Load(dir, host("server")); err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}
