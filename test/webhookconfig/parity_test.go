// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookconfig_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	upstream "k8s.io/kubernetes/pkg/admission/plugin/webhook/manifest/loader"

	"gatehouse.dev/internal/matching/manifest"
)

// Manifests are defaulted and validated by code of ours, since upstream's is out of a plugin's
// reach. Here the two are held against each other: they load the same, and refuse the same with the
// same words. Not drawn is what they differ in on purpose: service references, certificates, and
// more than one wrong document.
func TestManifestsAreUpstreams(t *testing.T) {
	const rounds = 1500
	loaded := 0
	for round := range rounds {
		draw := drawing{rand.New(rand.NewPCG(uint64(round), 5793))}
		kind := draw.one("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
		dir := t.TempDir()
		text := draw.configuration(kind)
		if err := os.WriteFile(filepath.Join(dir, "a.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var got, want any
		var gotErr, wantErr error
		if kind == "MutatingWebhookConfiguration" {
			got, gotErr = ours[*admissionregistrationv1.MutatingWebhookConfiguration](manifest.MutatingWebhooks, dir)
			var result *upstream.MutatingLoadResult
			if result, wantErr = upstream.LoadMutatingManifests(dir); wantErr == nil {
				want = result.Configurations
			}
		} else {
			got, gotErr = ours[*admissionregistrationv1.ValidatingWebhookConfiguration](manifest.ValidatingWebhooks,
				dir)
			var result *upstream.ValidatingLoadResult
			if result, wantErr = upstream.LoadValidatingManifests(dir); wantErr == nil {
				want = result.Configurations
			}
		}
		if fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
			t.Errorf("%s\nis refused with\n  %v\nby upstream with\n  %v", text, gotErr, wantErr)
			continue
		}
		if wantErr != nil {
			continue
		}
		loaded++
		if !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s\n-upstream's +loaded:\n%s", text, cmp.Diff(want, got))
		}
	}
	if loaded < rounds/10 || loaded > rounds*9/10 {
		t.Errorf("%d of %d were good: nothing to compare with", loaded, rounds)
	}
}

// ours are the objects of one type that our plugin's manifests hold.
func ours[T manifest.Object](plugin *manifest.Plugin, dir string) ([]T, error) {
	set, err := plugin.Load(dir, "")
	if err != nil {
		return nil, err
	}
	return manifest.CurrentObjects[T](set), nil
}

// drawing makes configurations at random, most of whose fields are good.
type drawing struct{ *rand.Rand }

// one draws a value. The first half of the values is good, and mostly drawn.
func (d drawing) one(values ...string) string {
	if d.IntN(25) > 0 {
		return values[d.IntN((len(values)+1)/2)]
	}
	return values[d.IntN(len(values))]
}

// some is a list of a few values, in JSON; each is JSON or a string.
func (d drawing) some(n int, values ...string) string {
	var all []string
	for range n {
		all = append(all, d.one(values...))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// often is n mostly, and rarely another number up to 3.
func (d drawing) often(n int) int {
	if d.IntN(20) > 0 {
		return n
	}
	return d.IntN(4)
}

func (d drawing) configuration(kind string) string {
	webhooks := d.IntN(3)
	var all []string
	for range webhooks {
		all = append(all, d.webhook(kind))
	}
	return fmt.Sprintf(`{"apiVersion": "admissionregistration.k8s.io/v1", "kind": %q, "metadata": {"name": %s, `+
		`"labels": %s}, "webhooks": [%s]}`,
		kind, d.one(`"a.static.k8s.io"`, `"a.b-c.static.k8s.io"`, `"a"`, `"A.static.k8s.io"`, `""`),
		d.one(`{}`, `{"a": "b"}`, `{"a b": "c"}`, `{"a": "b c"}`), strings.Join(all, ","))
}

func (d drawing) webhook(kind string) string {
	fields := []string{
		`"name": ` + d.one(`"a.example.com"`, `"b.example.com"`, `"c.example.com"`, `"a.b"`, `""`, `"a.B.c"`),
		`"clientConfig": {"url": ` + d.one(`"https://example.com"`, `"https://127.0.0.1:8443/a/b"`,
			`"http://example.com"`, `"https://u:p@example.com?a=b#c"`, `"://"`, `""`) + `}`,
	}
	maybe := func(field string, values ...string) {
		if value := d.one(values...); value != "" {
			fields = append(fields, fmt.Sprintf("%q: %s", field, value))
		}
	}
	maybe("sideEffects", `"None"`, `"NoneOnDryRun"`, `"Some"`, "")
	maybe("admissionReviewVersions", `["v1"]`, `["v1beta1", "v2"]`, `["v2"]`, `["v1", "v1"]`, `["v1", "V!"]`, "")
	maybe("failurePolicy", "", `"Fail"`, `"Ignore"`, `"fail"`, `""`)
	maybe("matchPolicy", "", `"Exact"`, `"Equivalent"`, `"exact"`)
	maybe("timeoutSeconds", "", "1", "30", "0", "31", "-1")
	maybe("namespaceSelector", "", `{}`, `{"matchLabels": {"a": "b"}}`, `{"matchLabels": {"a b": "c d"}}`,
		`{"matchExpressions": [{"key": "a", "operator": "In"}]}`)
	maybe("objectSelector", "", `{"matchExpressions": [{"key": "a", "operator": "Exists"}]}`,
		`{"matchExpressions": [{"key": "", "operator": "Is", "values": ["x y"]}]}`,
		`{"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["x y"]}]}`)
	if kind == "MutatingWebhookConfiguration" {
		maybe("reinvocationPolicy", "", `"IfNeeded"`, `"Never"`, `"Always"`)
	}
	fields = append(fields, `"rules": `+d.rules(), `"matchConditions": `+d.conditions())
	return "{" + strings.Join(fields, ", ") + "}"
}

func (d drawing) rules() string {
	var all []string
	for range d.IntN(3) {
		rule := fmt.Sprintf(`{"operations": %s, "apiGroups": %s, "apiVersions": %s, "resources": %s`,
			d.some(d.often(1), `"CREATE"`, `"*"`, `"UPDATE"`, `"*"`, `"PATCH"`),
			d.some(d.often(1), `""`, `"*"`, `"apps"`, `"*"`),
			d.some(d.often(1), `"v1"`, `"*"`, `"v2"`, `""`, `"*"`),
			d.some(1+d.IntN(3), `"pods"`, `"pods/status"`, `"services"`, `"pods/*"`, `"deployments/scale"`, `"*/scale"`,
				`"*/*"`, `"*"`, `""`, `"a/b/c"`, `"/"`))
		if scope := d.one("", `"*"`, `"Cluster"`, `"Namespaced"`, `"All"`, `""`); scope != "" {
			rule += `, "scope": ` + scope
		}
		all = append(all, rule+"}")
	}
	return "[" + strings.Join(all, ",") + "]"
}

func (d drawing) conditions() string {
	n := d.IntN(3)
	if d.IntN(40) == 0 {
		n = 63 + d.IntN(3)
	}
	var all []string
	for i := range n {
		name := fmt.Sprintf(`"c%d"`, i)
		expression := d.one(`"true"`, `" request.name == 'a' "`, `"object.metadata.name.startsWith('a')"`,
			`"!authorizer.group('').resource('pods').check('get').allowed()"`,
			`"1"`, `"nobody"`, `"params.a"`, `" \n"`, `""`, `"request.nothing"`, `"true &&"`, `"variables.a"`)
		all = append(all,
			fmt.Sprintf(`{"name": %s, "expression": %s}`, d.one(name, name, name, `"c0"`, `"a b"`, `""`), expression))
	}
	return "[" + strings.Join(all, ",") + "]"
}
