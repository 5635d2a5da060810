// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/internal/review/input"
)

const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"

// A directory with a kustomization is rendered, one that another includes only with that, and each object has the file
// and the line that it was made from.
func TestKustomizations(t *testing.T) {
	tree(t, map[string]string{
		"base/kustomization.yaml": "resources: [all.yaml]\n",
		"base/all.yaml":           "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n---\n" + config,
		"prod/kustomization.yml": "namePrefix: prod-\nnamespace: shop\nresources: [../base, sub/d.json]\n" +
			"patches: [{path: patch.yaml}]\nconfigMapGenerator: [{name: made, literals: [a=https://example.com]}]\n" +
			"commonAnnotations: {docs: https://example.com/docs}\n",
		"prod/patch.yaml":         config + "data: {number: '7'}\n",
		"prod/state.yaml":         config,
		"prod/sub/d.json":         `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"d"},"immutable":true}`,
		"prod/sub/own.yaml":       object,
		"plain/a.yaml":            object,
		"flow/kustomization.yaml": "{resources: [a.yaml], buildMetadata: [originAnnotations]}\n",
		"flow/a.yaml":             config,
	})
	reader := &input.Reader{}
	documents, errs := reader.Read(t.Context(), []string{"."})
	if errs != nil {
		t.Fatal(errs)
	}
	got := map[string]string{}
	for _, d := range documents {
		got[d.Source.String()] = d.Object.GetKind() + " " + d.Object.GetNamespace() + "/" + d.Object.GetName()
	}
	want := map[string]string{"base/all.yaml:1": "Service shop/prod-s", "base/all.yaml:5": "ConfigMap shop/prod-c",
		"prod/sub/d.json:1": "Secret shop/prod-d", "prod/sub/own.yaml:1": "A /", "plain/a.yaml:1": "A /",
		"flow/a.yaml:1": "ConfigMap /c", "prod/kustomization.yml": got["prod/kustomization.yml"]}
	if diff := cmp.Diff(want, got); diff != "" || !strings.HasPrefix(got["prod/kustomization.yml"], "ConfigMap shop/prod-made-") {
		t.Errorf("-want +got:\n%s%s", diff, got["prod/kustomization.yml"])
	}
	for _, d := range documents {
		_, annotated := d.Object.GetAnnotations()["config.kubernetes.io/origin"]
		if data, _ := d.Object.Object["data"].(map[string]any); d.Object.GetName() == "prod-c" && data["number"] != "7" ||
			annotated != (d.Source.File == "flow/a.yaml") || d.Rendered != (d.Object.GetKind() != "A") {
			t.Errorf("%s: %v, rendered: %v", d.Source, d.Object, d.Rendered)
		}
	}
	if diff := cmp.Diff([]string{"prod/state.yaml: left out, for the kustomization beside it doesn't name it: name the file " +
		"to have it read"}, reader.Notes()); diff != "" {
		t.Errorf("notes: -want +got:\n%s", diff)
	}
	var each []string
	err := (&input.Reader{}).Each(t.Context(), []string{"prod", "prod/patch.yaml"}, func(d input.Document, problem *input.Error) error {
		if problem != nil {
			t.Error(problem)
		}
		each = append(each, d.Object.GetName())
		return nil
	})
	if err != nil || len(each) != 5 { // the patch was read with the kustomization
		t.Errorf("object by object: %q, %v", each, err)
	}
	if files, errs := (&input.Reader{}).Files(t.Context(), "flow"); len(files) != 2 || errs != nil {
		t.Errorf("its files as they are: %q, %v", files, errs)
	}
}

// A kustomization that can't be rendered is an error of its file. Nothing is downloaded, run, or read outside of the
// folders that may be read.
func TestKustomizationErrors(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a resource that isn't there": {map[string]string{"in/kustomization.yaml": "resources: [none.yaml]\n"}, "none.yaml"},
		"an unknown field":            {map[string]string{"in/kustomization.yaml": "resource: [a.yaml]\n"}, "resource"},
		"nothing":                     {map[string]string{"in/kustomization.yaml": ""}, "empty"},
		"a repository": {map[string]string{"in/kustomization.yaml": "resources: ['github.com/example/example//x?ref=v1']\n"},
			"it needs github.com/example/example//x?ref=v1, and Gatehouse downloads nothing"},
		"by SSH": {map[string]string{"in/kustomization.yaml": "components: ['git@example.com:a/b.git']\n"},
			"it needs git@example.com:a/b.git"},
		"a file of the web": {map[string]string{"in/kustomization.yaml": "resources: [a.yaml]\npatches: [{path: 'HTTPS://example.com/p.yaml'}]\n",
			"in/a.yaml": config}, "it needs HTTPS://example.com/p.yaml"},
		"a generator's": {map[string]string{"in/kustomization.yaml": "configMapGenerator: [{name: c, files: ['a=http://127.0.0.1:1/a']}]\n"},
			"it needs http://127.0.0.1:1/a"},
		"one of a base": {map[string]string{"in/kustomization.yaml": "resources: [base]\n",
			"in/base/kustomization.yaml": "bases: ['ssh://example.com/a/b']\n"}, "it needs ssh://example.com/a/b"},
		"one of a transformer": {map[string]string{"in/kustomization.yaml": "resources: [a.yaml]\ntransformers: [t.yaml]\n",
			"in/a.yaml": config, "in/t.yaml": "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: t}\n" +
				"path: http://127.0.0.1:1/p.yaml\n"}, "it needs http://127.0.0.1:1/p.yaml"},
		"one of a transformer in place": {map[string]string{"in/kustomization.yaml": "resources: [a.yaml]\ntransformers:\n- |-\n" +
			"  apiVersion: builtin\n  kind: PatchTransformer\n  metadata: {name: t}\n  path: http://127.0.0.1:1/p.yaml\n",
			"in/a.yaml": config}, "it needs http://127.0.0.1:1/p.yaml"},
		"a chart": {map[string]string{"in/kustomization.yaml": "helmCharts: [{name: c, repo: 'http://127.0.0.1:1'}]\n"}, "helm"},
		"what may not be read": {map[string]string{"in/kustomization.yaml": "resources: [../out]\n",
			"out/kustomization.yaml": "resources: [a.yaml]\n", "out/a.yaml": config}, "outside of the folders"},
	} {
		t.Run(name, func(t *testing.T) {
			tree(t, test.files)
			documents, errs := (&input.Reader{Within: input.Folders{"in"}}).Read(t.Context(), []string{"in"})
			if len(documents) > 0 || len(errs) != 1 || !strings.Contains(errs[0].Error(), test.want) ||
				!strings.HasPrefix(errs[0].Error(), filepath.Join("in", "kustomization.yaml")+": rendering it as kustomize does: ") {
				t.Errorf("got %v and %v, want an error that says %s", documents, errs, test.want)
			}
		})
	}
}
