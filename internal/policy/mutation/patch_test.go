// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Source: TestJSONPatch in
// k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/json_patch_test.go; the messages that
// it doesn't have are what upstream's patcher answered.
func TestPatch(t *testing.T) {
	const containers = "spec template spec containers"
	const given = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, labels: {x: "1", w: "1"}}
spec:
  replicas: 1
  selector: null
  template: {spec: {containers: [{name: a}, {name: b}, {name: c}]}}
`
	const at = "/spec/template/spec/containers"
	const strict, internal = "strict decoding error: ", "Internal error occurred: "
	for name, test := range map[string]struct {
		patch      string
		path, want string // where nothing changes, no path
		err        string
	}{
		"a test that fails ends it": {
			patch: "[{op: test, path: /spec/replicas, value: 100}, {op: replace, path: /spec/replicas, value: 3}]"},
		"a test that doesn't": {
			patch: "[{op: test, path: /spec/replicas, value: 1}, {op: replace, path: /spec/replicas, value: 3}]",
			path:  "spec replicas", want: "3"},
		"remove a field": {patch: "[{op: remove, path: /spec/replicas}]", path: "spec replicas"},
		"remove a key": {
			patch: "[{op: remove, path: /metadata/labels/w}]", path: "metadata labels", want: `{x: "1"}`},
		"remove an item": {patch: "[{op: remove, path: " + at + "/1}]", path: containers, want: "[a, c]"},
		"copy an item": {patch: "[{op: copy, from: " + at + "/0, path: " + at + "/-}]",
			path: containers, want: "[a, b, c, a]"},
		"move an item": {patch: "[{op: move, from: " + at + "/0, path: " + at + "/-}]",
			path: containers, want: "[b, c, a]"},
		"move a key": {patch: "[{op: move, from: /metadata/labels/x, path: /metadata/labels/z}]",
			path: "metadata labels", want: `{w: "1", z: "1"}`},
		"add a key": {patch: `[{op: add, path: /metadata/labels/k8s.io~1x~0y, value: "2"}]`,
			path: "metadata labels", want: `{x: "1", w: "1", k8s.io/x~y: "2"}`},
		"add over a map": {patch: `[{op: add, path: /metadata/labels, value: {z: "2"}}]`,
			path: "metadata labels", want: `{z: "2"}`},
		"add at the start": {patch: "[{op: add, path: " + at + "/0, value: {name: x}}]",
			path: containers, want: "[x, a, b, c]"},
		"replace what isn't": {patch: `[{op: replace, path: /metadata/annotations, value: {z: "2"}}]`,
			path: "metadata annotations", want: `{z: "2"}`},
		"nothing":             {patch: "[]"},
		"the kind is removed": {patch: "[{op: remove, path: /kind}]"},
		"null is nothing": {
			patch: "[{op: add, path: /spec/replicas, value: null}]", path: "spec replicas"},

		"replace past the end": {patch: "[{op: replace, path: " + at + "/-, value: {name: x}}]",
			err: "JSON Patch: replace operation does not apply: doc is missing key: " + at + "/-: missing value"},
		"remove what isn't": {patch: "[{op: remove, path: /metadata/none}]",
			err: "JSON Patch: error in remove for path: '/metadata/none': " +
				"Unable to remove nonexistent key: none: missing value"},
		"an unknown operation": {
			patch: "[{op: nop, path: /metadata/none}]", err: "JSON Patch: Unexpected kind: nop"},
		"no sense at all": {patch: `[{op: replace, path: ""}]`,
			err: "JSON Patch: an operation can't be applied, check its path and value: runtime error: invalid memory " +
				"address or nil pointer dereference"},
		"a quantity that takes for ever to parse": {
			patch: "[{op: add, path: " + at + `/0/resources, value: {limits: {cpu: "1e-99999999"}}}]`,
			err:   internal + resource.ErrFormatWrong.Error()},
		"an unknown field": {patch: "[{op: add, path: " + at + "/0/imageZ, value: x}]",
			err: internal + strict + `unknown field "spec.template.spec.containers[0].imageZ"`},
		"another type": {patch: "[{op: add, path: /spec/paused, value: x}]",
			err: internal + "json: cannot unmarshal string into Go struct field " +
				"DeploymentSpec.spec.paused of type bool"},
		"another version": {patch: "[{op: add, path: /apiVersion, value: apps/v1beta1}]",
			err: internal + "apiVersion and kind must stay those of apps/v1, Kind=Deployment, " +
				"not become those of apps/v1beta1, Kind=Deployment"},
	} {
		t.Run(name, func(t *testing.T) {
			object := newObject(t, given, builtin)
			before := object.Object()
			want := contentOf(t, before)
			changed, err := object.Patch(patchOf(t, test.patch))
			if fmt.Sprint(err) != test.err && (err != nil || test.err != "") {
				t.Fatalf("got error  %v\nwant error %s", err, test.err)
			}
			if apierrors.IsInternalError(err) != strings.HasPrefix(test.err, internal) {
				t.Errorf("the error is %#v", err)
			}
			if diff := cmp.Diff(want, contentOf(t, before)); diff != "" {
				t.Errorf("the given object has changed: %s", diff)
			}
			if changed != (test.path != "") {
				t.Errorf("changed: %v", changed)
			}
			path := strings.Fields(test.path)
			switch {
			case test.path == containers:
				var items []any
				for _, name := range strings.Split(strings.Trim(test.want, "[]"), ", ") {
					items = append(items, map[string]any{"name": name, "resources": map[string]any{}})
				}
				set(want, path, items)
			case test.want == "" && test.path != "":
				delete(want["spec"].(map[string]any), path[1])
			case test.path != "":
				set(want, path, configuration(t, "{x: "+test.want+"}")["x"])
			}
			check(t, object, want)
		})
	}
}
