// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/terminal"
)

var update = flag.Bool("update", false, "write the texts that are compared with")

// now is when the texts are printed.
var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// Each file of testdata is what a server may tell of an object; the text beside it is what is said
// of that.
func TestTexts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			text := printer(100).Found(read(t, file), 10)
			for line := range strings.Lines(text) {
				if n := len([]rune(line)); n > 101 && len(strings.Fields(line)) > 2 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func printer(width int) *Printer {
	return &Printer{Width: width, Now: now, Remedies: map[string]string{
		"LimitRanger": "Keep to the LimitRanges of the namespace (kubectl describe limitrange).",
	}}
}

func read(t *testing.T, file string) *Found {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var told struct {
		Resource, Group, Kind, Namespace, Name string
		Gone                                   bool
		Unavailable                            string
		Object                                 map[string]any
		Decisions, Dependents                  []v1alpha1.Decision
		Events                                 []corev1.Event
	}
	document, err := yaml.YAMLToJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	strict := json.NewDecoder(bytes.NewReader(document))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&told); err != nil {
		t.Fatal(err)
	}
	f := &Found{Resource: schema.GroupResource{Group: told.Group, Resource: told.Resource}, Kind: told.Kind,
		Namespace: told.Namespace, Name: told.Name, Gone: told.Gone, Unavailable: Unavailable(told.Unavailable),
		Decisions: told.Decisions, Dependents: told.Dependents, Events: told.Events}
	if told.Object != nil {
		f.Object = &unstructured.Unstructured{Object: told.Object}
	}
	return f
}

// On a terminal verdicts have a colour, and nothing else is different.
func TestColor(t *testing.T) {
	f := read(t, "testdata/quota-deployment.yaml")
	p := printer(100)
	without := p.Found(f, 3)
	p.Color = true
	with := p.Found(f, 3)
	if !strings.Contains(with, string(terminal.Red)+"Refused") || !strings.Contains(with, string(terminal.Green)+"Admitted") {
		t.Errorf("no colours:\n%q", with)
	}
	if !strings.Contains(with, "by        "+string(terminal.Bold)) {
		t.Errorf("the plugin's name isn't bold:\n%q", with)
	}
	if got := regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(with, ""); got != without {
		t.Error(cmp.Diff(without, got))
	}
}

// A narrow terminal gets narrow lines.
func TestNarrow(t *testing.T) {
	text := printer(60).Found(read(t, "testdata/fails-open.yaml"), 3)
	for line := range strings.Lines(text) {
		if n := len([]rune(line)) - 1; n > 60 && len(strings.Fields(line)) > 1 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// How many are told of: the newest, and the newest refusal and the creation besides.
func TestEntries(t *testing.T) {
	decision := func(name, operation string, verdict v1alpha1.Verdict, by string) v1alpha1.Decision {
		d := v1alpha1.Decision{Verdict: verdict, By: by}
		d.Name, d.Request.Operation, d.Request.Resource, d.Request.User.Username = name, operation, "pods", name
		return d
	}
	all := []v1alpha1.Decision{
		decision("e", "UPDATE", v1alpha1.Admitted, ""),
		decision("d", "UPDATE", v1alpha1.Admitted, ""),
		decision("d", "UPDATE", v1alpha1.Admitted, ""),
		decision("c", "UPDATE", v1alpha1.Refused, "Some"),
		decision("b", "UPDATE", v1alpha1.Refused, "Some"),
		decision("a", "CREATE", v1alpha1.Admitted, ""),
	}
	for _, c := range []struct {
		limit   int
		want    string
		omitted int
	}{{0, "e d c b a", 0}, {1, "e c a", 3}, {3, "e d c a", 1}, {9, "e d c b a", 0}} {
		entries, omitted := Entries(all, c.limit, nil)
		var names []string
		for _, e := range entries {
			names = append(names, e.Decision.Name)
		}
		if got := strings.Join(names, " "); got != c.want || omitted != c.omitted {
			t.Errorf("limit %d: %s and %d more, want %s and %d", c.limit, got, omitted, c.want, c.omitted)
		}
	}
	entries, _ := Entries(all, 0, nil)
	if entries[1].Times != 2 {
		t.Errorf("d happened %d times, want 2", entries[1].Times)
	}
}

func TestFieldPath(t *testing.T) {
	for pointer, want := range map[string]string{
		"/spec/containers/0/image":             "spec.containers[0].image",
		"/metadata/labels/app":                 "metadata.labels.app",
		"/metadata/labels/example.com~1a":      "metadata.labels[example.com/a]",
		"/metadata/annotations/a~0b":           "metadata.annotations[a~b]",
		"":                                     "the whole object",
		"/data":                                "data",
		"/spec/template/spec/nodeSelector/a.b": "spec.template.spec.nodeSelector[a.b]",
	} {
		if got := fieldPath(pointer); got != want {
			t.Errorf("%q: %s, want %s", pointer, got, want)
		}
	}
}

// What a value is shown as.
func TestInline(t *testing.T) {
	for document, want := range map[string]string{
		`{"image":"a:1","name":"a","env":[{"name":"x"}],"resources":{"limits":{"cpu":1}}}`: "{name: a, image: a:1, " +
			"env: [{…}], resources: {limits: {…}}}",
		`""`: `""`, `" a"`: `" a"`, `"a\nb"`: `"a\nb"`, `null`: "null", `3607`: "3607", `12345678901`: "12345678901",
		`[]`: "[]", `{}`: "{}", `true`: "true",
	} {
		o := v1alpha1.PatchOperation{Op: "replace", Path: "/x", Value: &v1alpha1.Value{Raw: []byte(document)}}
		got := changesOf(o, Source{})
		if len(got) != 1 || got[0].Value != want {
			t.Errorf("%s: %+v, want %s", document, got, want)
		}
	}
}

// Whatever a patch and a message say there is something to say, and no panic.
func FuzzExplain(f *testing.F) {
	f.Add(`[{"op":"add","path":"/spec/containers/-","value":{"name":"a"}}]`,
		`[{"op":"add","path":"/spec/containers/1"}]`,
		`Pod "a" is invalid: spec.containers[1].name: Duplicate value: "a"`)
	f.Add(`[{"op":"add","path":"/b"}]`, `[{"op":"remove","path":""}]`, "a.b[")
	f.Fuzz(func(t *testing.T, call, step, message string) {
		var ofCall, ofStep []v1alpha1.PatchOperation
		if yaml.Unmarshal([]byte(call), &ofCall) != nil || yaml.Unmarshal([]byte(step), &ofStep) != nil {
			return
		}
		d := &v1alpha1.Decision{Verdict: v1alpha1.Refused, Code: 422, Reason: "Invalid", Message: message,
			Steps: []v1alpha1.Step{{Plugin: "P", Verdict: v1alpha1.Admitted, Patch: ofStep,
				Calls: []v1alpha1.Call{{Kind: webhook, Name: "w", Verdict: v1alpha1.Admitted, Patch: ofCall}}}}}
		printer(80).Decision(d)
	})
}
