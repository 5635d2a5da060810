// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, namespace: ns, labels: {a: b}}
spec:
  replicas: 1
  selector: {matchLabels: {a: b}}
  template:
    spec:
      volumes: [{name: x}]
      containers:
      - {name: c, image: i, env: [{name: A, value: "1"}, {name: A, value: "2"}, {name: B, value: "3"}]}
`

// Source: TestApplyConfiguration in
// k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/smd_test.go; the messages that it
// doesn't have are what upstream's patcher answered.
func TestApply(t *testing.T) {
	for name, test := range map[string]struct {
		configuration string
		// change is what the result has, at a path, and the given object not; or the error.
		path, want string
		err        string
	}{
		"an entry is added to a list by key": {
			"{spec: {template: {spec: {volumes: [{name: w}]}}}}",
			"spec template spec volumes", "[{name: x}, {name: w}]", ""},
		"an entry of a list is changed by its key": {
			"{spec: {template: {spec: {volumes: [{name: x, hostPath: {path: a}}]}}}}",
			"spec template spec volumes", "[{name: x, hostPath: {path: a}}]", ""},
		"a field is set":              {"{spec: {replicas: 3}}", "spec replicas", "3", ""},
		"duplicates elsewhere remain": {"{spec: {paused: true}}", "spec paused", "true", ""},
		"duplicates of what is changed become one": {
			"{spec: {template: {spec: {containers: [{name: c, env: [{name: A, value: z}]}]}}}}",
			"spec template spec containers",
			`[{name: c, image: i, resources: {}, env: [{name: A, value: z}, {name: B, value: "3"}]}]`, ""},
		"resources": {
			"{spec: {template: {spec: {containers: [{name: c, resources: {limits: {cpu: 128M}}}]}}}}",
			"spec template spec containers",
			`[{name: c, image: i, resources: {limits: {cpu: 128M}}, ` +
				`env: [{name: A, value: "1"}, {name: A, value: "2"}, {name: B, value: "3"}]}]`, ""},
		"a set": {`{metadata: {finalizers: [a.b/c]}}`, "metadata finalizers", "[a.b/c]",
			""},
		"a label":            {`{metadata: {labels: {l: v}}}`, "metadata labels", "{a: b, l: v}", ""},
		"a label is changed": {`{metadata: {labels: {a: v}}}`, "metadata labels", "{a: v}", ""},
		"the first annotation": {`{metadata: {annotations: {l: v}}}`, "metadata annotations", "{l: v}",
			""},
		"nothing":                              {`{}`, "", "", ""},
		"empty labels":                         {`{metadata: {labels: {}}}`, "", "", ""},
		"what is there already":                {`{metadata: {labels: {a: b}}, spec: {replicas: 1}}`, "", "", ""},
		"a label that is there":                {`{metadata: {labels: {a: b}}}`, "", "", ""},
		"name, which the server refuses":       {`{metadata: {name: other}}`, "metadata name", "other", ""},
		"apiVersion and kind are the object's": {`{apiVersion: v1, kind: Pod}`, "", "", ""},

		"an atomic map": {configuration: "{spec: {selector: {matchLabels: {l: v}}}}",
			err: "error applying patch: invalid ApplyConfiguration: " +
				"may not mutate atomic arrays, maps or structs: .spec.selector"},
		"an atomic list": {
			configuration: "{spec: {template: {spec: {containers: [{name: c, command: [x]}]}}}}",
			err: "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: " +
				".spec.template.spec.containers[0].command"},
		"an atomic map in an atomic list": {
			configuration: "{spec: {selector: {matchExpressions: []}}}",
			err: "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: " +
				".spec.selector, .spec.selector.matchExpressions"},
		"an owner": {
			configuration: `{metadata: {ownerReferences: [{uid: "1", name: o, kind: k, apiVersion: v1}]}}`,
			err: "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: " +
				".metadata.ownerReferences[0]"},
		"an unknown field": {configuration: "{spec: {replicasx: 1}}",
			err: "error applying patch: failed to convert patch object to typed object: " +
				".spec.replicasx: field not declared in schema"},
		"another type": {configuration: `{spec: {replicas: "3"}}`,
			err: "error applying patch: failed to convert patch object to typed object: " +
				".spec.replicas: expected numeric (int or float), got string"},
		"a label that is a number": {configuration: `{metadata: {labels: {a: 1}}}`,
			err: "error applying patch: failed to convert patch object to typed object: " +
				".metadata.labels.a: expected string, got &value.valueUnstructured{Value:1}"},
		"an entry twice": {configuration: "{spec: {template: {spec: {containers: [{name: x}, {name: x}]}}}}",
			err: "error applying patch: failed to convert patch object to typed object: " +
				`.spec.template.spec.containers: duplicate entries for key [name="x"]`},
		"a number that isn't whole": {configuration: "{spec: {replicas: 1.5}}",
			err: "unable to convert unstructured object to apps/v1, Kind=Deployment: cannot convert float64 to int32"},
		"a quantity that takes for ever to parse": {
			configuration: "{spec: {template: {spec: {containers: " +
				"[{name: c, resources: {limits: {cpu: \"1e-99999999\"}}}]}}}}",
			err: "unable to convert unstructured object to apps/v1, Kind=Deployment: " +
				"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
		"a quantity that is none": {
			configuration: "{spec: {template: {spec: {containers: [{name: c, resources: {limits: {cpu: x}}}]}}}}",
			err: "unable to convert unstructured object to apps/v1, Kind=Deployment: " +
				"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
	} {
		t.Run(name, func(t *testing.T) {
			object := newObject(t, deployment, builtin)
			given, want := object.Object(), contentOf(t, object.Object())
			changed, err := object.Apply(configuration(t, test.configuration))
			if fmt.Sprint(err) != test.err && (err != nil || test.err != "") {
				t.Fatalf("got error  %v\nwant error %s", err, test.err)
			}
			if diff := cmp.Diff(want, contentOf(t, given)); diff != "" {
				t.Errorf("the given object has changed: %s", diff)
			}
			if changed != (test.path != "") {
				t.Errorf("changed: %v", changed)
			}
			if test.path != "" {
				set(want, strings.Fields(test.path), configuration(t, "{x: "+test.want+"}")["x"])
			}
			check(t, object, want)
		})
	}
}

// check compares both forms of an object with what it should be.
func check(t *testing.T, object *Object, want map[string]any) {
	t.Helper()
	if diff := cmp.Diff(want, contentOf(t, object.Object())); diff != "" {
		t.Errorf("the object (-want +got): %s", diff)
	}
	content, err := object.Content()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, content); diff != "" {
		t.Errorf("the content (-want +got): %s", diff)
	}
}

func set(content map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		content = content[key].(map[string]any)
	}
	content[path[len(path)-1]] = value
}

// One object goes through mutations of both kinds, and each sees what the one before it has made.
func TestMutationsInTurn(t *testing.T) {
	object := newObject(t, deployment, builtin)
	for _, do := range []func() (bool, error){
		func() (bool, error) { return object.Apply(configuration(t, "{metadata: {labels: {one: x}}}")) },
		func() (bool, error) { return object.Patch(patchOf(t, "[{op: remove, path: /metadata/labels/a}]")) },
		func() (bool, error) { return object.Apply(configuration(t, "{metadata: {annotations: {two: x}}}")) },
		func() (bool, error) { return object.Apply(configuration(t, "{spec: {replicas: 4}}")) },
		func() (bool, error) { return object.Apply(configuration(t, "{metadata: {labels: {three: x}}}")) },
	} {
		if _, err := object.Content(); err != nil {
			t.Fatal(err)
		}
		if changed, err := do(); !changed || err != nil {
			t.Fatal(changed, err)
		}
	}
	want := contentOf(t, parse(t, deployment))
	set(want, []string{"metadata", "labels"}, map[string]any{"one": "x", "three": "x"})
	set(want, []string{"metadata", "annotations"}, map[string]any{"two": "x"})
	set(want, []string{"spec", "replicas"}, int64(4))
	check(t, object, want)
}

// Fields that earlier plugins and mutations left without defaults have them after each mutation,
// even if that only sets a label.
func TestDefaults(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	scheme.AddTypeDefaultingFunc(&appsv1.Deployment{}, func(object any) {
		containers := object.(*appsv1.Deployment).Spec.Template.Spec.Containers
		for i := range containers {
			if containers[i].ImagePullPolicy == "" {
				containers[i].ImagePullPolicy = corev1.PullAlways
			}
		}
	})
	for name, first := range map[string]func(o *Object) (bool, error){
		"label": func(o *Object) (bool, error) { return o.Apply(configuration(t, "{metadata: {labels: {l: v}}}")) },
		"no change": func(o *Object) (bool, error) {
			return o.Apply(configuration(t, "{metadata: {labels: {a: b}}}"))
		},
		"field": func(o *Object) (bool, error) { return o.Apply(configuration(t, "{spec: {replicas: 7}}")) },
		"patch": func(o *Object) (bool, error) {
			return o.Patch(patchOf(t, "[{op: add, path: /spec/replicas, value: 7}]"))
		},
		"patch whose test fails": func(o *Object) (bool, error) {
			return o.Patch(patchOf(t, "[{op: test, path: /spec/replicas, value: 7}]"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := newObject(t, deployment, builtin)
			o.interfaces = admission.NewObjectInterfacesFromScheme(scheme)
			for _, mutate := range []func(o *Object) (bool, error){first, func(o *Object) (bool, error) {
				return o.Apply(configuration(t, "{spec: {template: {spec: {containers: [{name: new}]}}}}"))
			}} {
				if _, err := mutate(o); err != nil {
					t.Fatal(err)
				}
				content, err := o.Content()
				if err != nil {
					t.Fatal(err)
				}
				deployment := &appsv1.Deployment{}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, deployment); err != nil {
					t.Fatal(err)
				}
				for _, c := range deployment.Spec.Template.Spec.Containers {
					if c.ImagePullPolicy != corev1.PullAlways {
						t.Errorf("container %s has imagePullPolicy %q", c.Name, c.ImagePullPolicy)
					}
				}
			}
		})
	}
}

// Labels and annotations are set as the library would set them.
func TestMetadataAsMerged(t *testing.T) {
	for _, object := range []string{
		deployment,
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: c, labels: {}, annotations: {x: w}}}",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, immutable: true, binaryData: {}}",
		"{apiVersion: v1, kind: Node, metadata: {name: m, labels: {x: u, l: w}}}",
		"{apiVersion: v1, kind: Node, metadata: {name: m}, spec: {taints: []}, status: {capacity: {cpu: 1e30}}}",
	} {
		for _, text := range []string{
			"{metadata: {labels: {l: v}}}", "{metadata: {labels: {l: v, x: z}, annotations: {x: w}}}",
			`{metadata: {annotations: {l: ""}}}`,
		} {
			direct, merged := newObject(t, object, builtin), newObject(t, object, builtin)
			if _, ok := metadataEdits(configuration(t, text)); !ok {
				t.Fatalf("%s isn't taken for labels and annotations", text)
			}
			changed, err := direct.Apply(configuration(t, text))
			if err != nil {
				t.Fatal(err)
			}
			// An empty list of finalizers is nothing, but has it go the long way.
			long := configuration(t, text)
			set(long, []string{"metadata", "finalizers"}, []any{})
			wantChanged, err := merged.Apply(long)
			if err != nil {
				t.Fatal(err)
			}
			if changed != wantChanged {
				t.Errorf("%s changes %s: %v, want %v", text, object, changed, wantChanged)
			}
			want := contentOf(t, merged.Object())
			delete(want["metadata"].(map[string]any), "finalizers")
			check(t, direct, want)
			// Validation tells an empty list from none.
			merged.Object().(metav1.Object).SetFinalizers(nil)
			if !reflect.DeepEqual(direct.Object(), merged.Object()) {
				t.Errorf("%s makes of %s %#v, want %#v", text, object, direct.Object(), merged.Object())
			}
		}
	}
}

func TestKindWithoutSchema(t *testing.T) {
	const bear = "{apiVersion: bears.example.com/v1, kind: Bear, metadata: {name: b}, spec: {color: brown}}"
	object := newObject(t, bear, builtin)
	_, err := object.Apply(configuration(t, "{spec: {color: white}}"))
	if !apierrors.IsServiceUnavailable(err) || err.Error() != "Resource kind bears.example.com/v1, Kind=Bear "+
		"not found. There can be a delay between when CustomResourceDefinitions are created and when they are "+
		"available." {
		t.Errorf("got error %v", err)
	}
	// These don't take a schema.
	if changed, err := object.Apply(configuration(t, "{metadata: {labels: {l: v}}}")); !changed || err != nil {
		t.Error(changed, err)
	}
	patch := patchOf(t, "[{op: add, path: /spec/color, value: white}]")
	if changed, err := object.Patch(patch); !changed || err != nil {
		t.Error(changed, err)
	}
	want := contentOf(t, parse(t, bear))
	set(want, []string{"metadata", "labels"}, map[string]any{"l": "v"})
	set(want, []string{"spec", "color"}, "white")
	check(t, object, want)
}
