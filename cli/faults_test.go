// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/test/needs"
)

// lampEvent returns the creation of a custom resource whose definition nobody has any more.
func lampEvent(id string) string {
	e := event(id, "jane", "create", "configmaps", "lamp", "", 201)
	e = strings.ReplaceAll(e, `"apiVersion":"v1"`, `"apiGroup":"example.com","apiVersion":"v1"`)
	e = strings.ReplaceAll(e, `"kind":"ConfigMap","apiGroup":"example.com","apiVersion":"v1"`, `"kind":"Lamp","apiVersion":"example.com/v1"`)
	return strings.ReplaceAll(strings.ReplaceAll(e, "configmaps", "lamps"), "/api/v1/", "/apis/example.com/v1/")
}

// What real logs have is judged as far as it goes, and what can't be judged is counted.
func TestFaultsOfReplays(t *testing.T) {
	needs.Server(t)
	one, two := event("a", "jane", "create", "configmaps", "one", "", 201), event("bb", "joe", "create", "configmaps", "two", "", 201)
	atLevel := func(level, e string) string { return strings.Replace(e, `"level":"Request"`, `"level":"`+level+`"`, 1) }
	responded := func(e, version, labels string) string {
		return strings.Replace(atLevel("RequestResponse", e), `"requestReceivedTimestamp"`, `"responseObject":{"kind":"ConfigMap",`+
			`"apiVersion":"v1","metadata":{"name":"one","namespace":"shop","uid":"u","resourceVersion":"`+version+`"`+labels+`}},`+
			`"requestReceivedTimestamp"`, 1)
	}
	patched := responded(strings.Replace(event("ccc", "joe", "patch", "configmaps", "one", "", 200),
		`"requestObject":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"one"}}`,
		`"requestObject":{"metadata":{"labels":{"a":"b"}}}`, 1), "8", `,"labels":{"a":"b"}`)
	beta := strings.ReplaceAll(event("v", "jane", "create", "configmaps", "one", "", 201), `"apiVersion":"v1"`, `"apiVersion":"v1beta9"`)
	large := event("l", "jane", "create", "configmaps", "large", `,"data":{"k":"`+strings.Repeat("x", 30<<20)+`"}`, 201)
	inFolder(t, map[string]string{
		"no-data.yaml": validating("no-data", "configmaps", "has(object.data)", ""),
		"everything.yaml": strings.NewReplacer(`apiGroups: [""]`, `apiGroups: ["*"]`, `apiVersions: [v1]`, `apiVersions: ["*"]`).
			Replace(validating("everything", `"*"`, "has(object.data)", "")),
	})
	for name, test := range map[string]struct {
		log, candidate string
		refused        []string
		unjudged       map[string][]string
	}{
		"mixed levels": {log: atLevel("Metadata", one) + two + patched, refused: []string{"bb"},
			unjudged: map[string][]string{"metadata-level": {"a"}, "unknown-base": {"ccc"}}},
		"a resource that nobody serves": {log: lampEvent("lamp") + one, candidate: "everything.yaml", refused: []string{"a"},
			unjudged: map[string][]string{"not-served": {"lamp"}}},
		"a version that nobody serves": {log: beta + one, candidate: "everything.yaml", refused: []string{"a"},
			unjudged: map[string][]string{"not-served": {"v"}}},
		"twice": {log: one + two + one, refused: []string{"a", "bb"}},
		// The log has a patch before the creation of its object.
		"out of order": {log: patched + responded(one, "7", ""), refused: []string{"a", "ccc"}},
		"30 MB":        {log: one + large + two, refused: []string{"a", "bb"}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile("audit.log", []byte(test.log), 0o600); err != nil {
				t.Fatal(err)
			}
			if test.candidate == "" {
				test.candidate = "no-data.yaml"
			}
			report, code := replayJSON(t, "audit.log", "--show=all", "-f="+test.candidate)
			refused := report.ids("Refused")
			slices.Sort(refused)
			if !slices.Equal(refused, test.refused) || code != 1 {
				t.Errorf("it ended with %d, refused %q: %+v", code, refused, report)
			}
			for reason, ids := range test.unjudged {
				if got := report.ids(reason); !slices.Equal(got, ids) {
					t.Errorf("%s: %q, want %q", reason, got, ids)
				}
			}
		})
	}
}

// Objects of files that can't be judged are counted by reason, parts that are no objects are named, and the others are
// judged.
func TestFaultsOfAudits(t *testing.T) {
	needs.Server(t)
	const object = "{kind: %, apiVersion: !, metadata: {name: x, namespace: shop}}\n---\n"
	named := func(kind, version string) string { return strings.NewReplacer("%", kind, "!", version).Replace(object) }
	inFolder(t, map[string]string{
		"objects.yaml": named("ConfigMap", "v1") + named("Lamp", "example.com/v1") + named("Deployment", "apps/v9") +
			named("ConfigMap", "v9") + "text\n",
		"policy.yaml": strings.NewReplacer(`apiGroups: [""]`, `apiGroups: ["*"]`, `apiVersions: [v1]`, `apiVersions: ["*"]`).
			Replace(validating("everything", `"*"`, "has(object.data)", "")),
		"broken.yaml":    validating("broken", "configmaps", "has(object.data", ""),
		"truncated.json": `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"`,
	})
	stdout, stderr, code := runCommand(t, "audit", "objects.yaml", "-f=policy.yaml")
	if code != 2 || stderr != "" {
		t.Errorf("it ended with %d: %s", code, stderr)
	}
	for _, want := range []string{"of 4 objects, 1 judged", "not judged: 3", "3  not-served", "error: objects.yaml:9: no object: it is a text",
		"namespace shop  ConfigMap"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("the report has no %q:\n%s", want, stdout)
		}
	}
	if _, stderr, code := runCommand(t, "audit", "objects.yaml", "-f=broken.yaml"); code != 2 || !strings.Contains(stderr, "broken.yaml:2") {
		t.Errorf("a policy that doesn't compile: it ended with %d: %s", code, stderr)
	}
	if stdout, stderr, code := runCommand(t, "audit", "truncated.json", "-f=policy.yaml"); code != 2 ||
		!strings.Contains(stdout+stderr, "truncated.json") {
		t.Errorf("a truncated file: it ended with %d: %s%s", code, stdout, stderr)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs strings.Builder
	if code := Run(ctx, compiled.Plugins, []string{"audit", "objects.yaml", "-f=policy.yaml"}, &out, &errs); code != 2 {
		t.Errorf("interrupted: it ended with %d: %s%s", code, &out, &errs)
	}
}
