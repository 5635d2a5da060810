// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/internal/review/suite"
)

// parseInput reads a suite in a folder with a case whose input is a file of celtest with some text. more are other
// fields of the case, as lines.
func parseInput(t *testing.T, dir, text, more string) ([]suite.Suite, error) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "in.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	suites, errs := suite.Parse(filepath.Join(dir, "s.yaml"),
		[]byte(head+"  cases:\n  - name: a\n    input: in.yaml\n    expect: {verdict: Admitted}\n"+more))
	if err := errors.Join(errs...); err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), dir+"/", ""))
	}
	return suites, nil
}

const (
	inputPod  = "object: {apiVersion: v1, kind: Pod, metadata: {name: p}}\n"
	inputOld  = "oldObject: {apiVersion: v1, kind: Pod, metadata: {name: p}}\n"
	inputExec = "object: {apiVersion: v1, kind: PodExecOptions, command: [ls]}\n"
)

// An input of celtest becomes the request that a server is sent, and state.
func TestInputs(t *testing.T) {
	const (
		pod    = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`
		inShop = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"shop"}}`
		pods   = `"kind":{"group":"","kind":"Pod","version":"v1"},`
		what   = `"resource":{"group":"","resource":"","version":""},` // the server knows it
		strict = `"options":{"fieldValidation":"Strict"},`
		nobody = `"uid":"","userInfo":{}`
	)
	for name, test := range map[string]struct{ text, more, want string }{
		"an object is created": {inputPod, "",
			pods + `"name":"p","object":` + pod + `,"operation":"CREATE",` + strict + what + nobody},
		"two objects are an update": {inputPod + inputOld, "", pods + `"name":"p","object":` + pod +
			`,"oldObject":` + pod + `,"operation":"UPDATE",` + strict + what + nobody},
		"an old object is deleted": {inputOld + "object:\n", "",
			pods + `"name":"p","oldObject":` + pod + `,"operation":"DELETE","options":{},` + what + nobody},
		"namespace and params are state": {inputPod + "namespace: {metadata: {name: shop, labels: {a: b}}}\n" +
			"params: {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n", "",
			pods + `"name":"p","namespace":"shop","object":` + inShop + `,"operation":"CREATE",` + strict + what + nobody +
				` {"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"a":"b"},"name":"shop"}}` +
				` {"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`},
		"an object may leave its kind to the request": {"object: {metadata: {name: p}}\n" +
			"request: {requestKind: {version: v1, kind: Pod}, namespace: shop}\n", "",
			pods + `"name":"p","namespace":"shop","object":` + inShop +
				`,"operation":"CREATE",` + strict + `"requestKind":{"group":"","kind":"Pod","version":"v1"},` + what + nobody},
		"what the request says": {inputOld + `
request:
  operation: DELETE
  dryRun: true
  userInfo: {username: eve, uid: u, groups: [g], extra: {key: [x]}}
  options: {apiVersion: v1, kind: DeleteOptions, gracePeriodSeconds: 0}
`, "", `"dryRun":true,` + pods + `"name":"p","oldObject":` + pod + `,"operation":"DELETE","options":` +
			`{"apiVersion":"v1","gracePeriodSeconds":0,"kind":"DeleteOptions"},` + what +
			`"uid":"","userInfo":{"extra":{"key":["x"]},"groups":["g"],"uid":"u","username":"eve"}`},
		"a connection": {inputExec + "request: {operation: CONNECT, name: p, requestSubResource: exec, " +
			"resource: {version: v1, resource: pods}}\n", "", `"kind":{"group":"","kind":"PodExecOptions","version":"v1"},` +
			`"name":"p","object":{"apiVersion":"v1","command":["ls"],"kind":"PodExecOptions"},"operation":"CONNECT",` +
			`"requestSubResource":"exec","resource":{"group":"","resource":"pods","version":"v1"},"subResource":"exec",` + nobody},
		"a row sets fields of the input": {inputPod,
			"    table:\n    - {name: r, set: {object.metadata.namespace: shop, request.operation: CREATE}}\n",
			pods + `"name":"p","namespace":"shop","object":` + inShop + `,"operation":"CREATE",` + strict + what + nobody},
	} {
		t.Run(name, func(t *testing.T) {
			suites, err := parseInput(t, t.TempDir(), test.text, test.more)
			if err != nil {
				t.Fatal(err)
			}
			c := suites[0].Cases[0]
			fields := c.Object.Object["request"].(map[string]any)
			maps.DeleteFunc(fields, func(_ string, value any) bool { return value == nil })
			request, err := json.Marshal(fields)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.TrimSuffix(strings.TrimPrefix(string(request), "{"), "}")
			for _, d := range c.State {
				state, err := json.Marshal(d.Object.Object)
				if err != nil {
					t.Fatal(err)
				}
				got += " " + string(state)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if (c.Params != nil) != strings.Contains(test.text, "params:") {
				t.Errorf("its params are %v", c.Params)
			}
		})
	}
}

// A field that a server can't be given is an error that names it.
func TestBadInputs(t *testing.T) {
	request := func(fields string) string { return inputPod + "request: {" + fields + "}\n" }
	for name, test := range map[string]struct{ text, more, want string }{
		"no input":          {"", "", "EOF"},
		"two documents":     {inputPod + "---\n" + inputPod, "", "it has more than one document, and an input is one"},
		"a list":            {"[]", "", "in.yaml:1: the input: it is a list, and must be a mapping"},
		"a key twice":       {inputPod + inputPod, "", `in.yaml:2: key "object" is already there`},
		"an unknown field":  {inputPod + "paramRef: {}\n", "", `unknown field "paramRef"`},
		"a misspelt field":  {request("operator: CREATE"), "", `unknown field "request.operator"`},
		"no objects":        {"params: {}\n", "", "object: apiVersion and kind must be set, or request.kind"},
		"an authorizer":     {inputPod + "authorizer: {}\n", "", `unknown field "authorizer"`},
		"a uid":             {request("uid: u"), "", `request.uid: "u": the server gives each request its own`},
		"a request's":       {request("object: {}"), "", "request.object: celtest doesn't read it"},
		"a request's old":   {request("oldObject: {}"), "", "request.oldObject: celtest doesn't read it"},
		"nobody's groups":   {request("userInfo: {groups: [g]}"), "", "request.userInfo.username: Required value"},
		"keys of extra":     {request("userInfo: {username: u, extra: {Key: [x]}}"), "", `request.userInfo.extra: "Key"`},
		"no truth":          {request("dryRun: maybe"), "", "field AdmissionRequest.request.dryRun of type bool"},
		"another operation": {request("operation: PATCH"), "", `request.operation: unknown value "PATCH"`},
		"no old object":     {request("operation: UPDATE"), "", "oldObject: Required value for UPDATE"},
		"nothing to create": {inputOld + "request: {operation: CREATE}\n", "", "object: Required value for CREATE"},
		"an old object that is created": {inputPod + inputOld + "request: {operation: CREATE}\n", "",
			"oldObject: it can't be given to the server for CREATE of a Pod"},
		"an object that is deleted": {inputPod + inputOld + "request: {operation: DELETE}\n", "",
			"object: it can't be given to the server for DELETE of a Pod"},
		"an old Scale": {strings.ReplaceAll(inputPod+inputOld, "v1, kind: Pod", "autoscaling/v1, kind: Scale") +
			"request: {subResource: scale, resource: {group: apps, version: v1, resource: deployments}}\n", "",
			"oldObject: it can't be given to the server for UPDATE of a Scale"},
		"another kind": {request("kind: {version: v1, kind: Node}"), "",
			"object: it is a /v1, Kind=Pod, and must be a /v1, Kind=Node"},
		"a kind that was converted": {request("kind: {version: v1, kind: Pod}, requestKind: {version: v2, kind: Pod}"), "",
			"request.requestKind: it is /v2, Kind=Pod, and must be /v1, Kind=Pod"},
		"a resource that was converted": {request("resource: {version: v1, resource: pods}, " +
			"requestResource: {version: v2, resource: pods}"), "", "request.requestResource: it is /v2, Resource=pods"},
		"a resource of another version": {request("resource: {version: v2, resource: pods}"), "",
			"request.resource: /v2, Resource=pods: its group and version must be those of the kind"},
		"two subresources": {request("subResource: a, requestSubResource: b"), "", "request.requestSubResource: it is b"},
		"no resource":      {request("subResource: status"), "", "request.resource: Required value"},
		"another name":     {request("name: q"), "", `object.metadata.name: it is "p", and must be the name of the request, "q"`},
		"another name before": {inputPod + strings.Replace(inputOld, "name: p", "name: q", 1), "",
			`oldObject.metadata.name: it is "q"`},
		"no name": {"object: {apiVersion: v1, kind: Pod}\noldObject: {apiVersion: v1, kind: Pod}\n", "",
			"request.name: Required value for UPDATE of a Pod"},
		"another namespace": {request("namespace: a") + "namespace: {metadata: {name: b}}\n", "",
			`namespace.metadata.name: it is "b", and must be the namespace of the request, "a"`},
		"an object's namespace": {strings.Replace(request("namespace: a"), "name: p", "namespace: b, name: p", 1), "",
			`object.metadata.namespace: it is "b"`},
		"two namespaces":     {inputPod + "namespace: {}\nnamespaceObject: {}\n", "", "namespace, namespaceObject: only one"},
		"a nameless one":     {inputPod + "namespace: {}\n", "", `namespace.metadata.name: it is ""`},
		"no Namespace":       {inputPod + "namespace: {kind: Pod, metadata: {name: a}}\n", "", "namespace: it is a /, Kind=Pod"},
		"params of no kind":  {inputPod + "params: {data: {a: b}}\n", "", "params: apiVersion, kind and metadata.name must be set"},
		"params that aren't": {inputPod + "params: 5\n", "", "cannot unmarshal number into Go struct field admissionInput.params"},
		"a Namespace in one": {"object: {apiVersion: v1, kind: Namespace, metadata: {name: a}}\nnamespace: {metadata: {name: a}}\n",
			"", "namespace: a server has no namespace object for a Namespace"},
		"a Namespace of another": {"object: {apiVersion: v1, kind: Namespace, metadata: {name: a}}\nrequest: {namespace: b}\n",
			"", `request.namespace: it is "b", and must be the name of the Namespace, "a"`},
		"another kind of options":     {request("options: {kind: PatchOptions}"), "", "request.options.kind: PatchOptions"},
		"options that can't be given": {request("options: {preconditions: {uid: u}}"), "", "request.options.preconditions"},
		"a dry run by options":        {request("options: {dryRun: [All]}"), "", "A dry run is request.dryRun"},
		"options of a connection": {inputExec + "request: {operation: CONNECT, name: p, subResource: exec, dryRun: true, " +
			"resource: {version: v1, resource: pods}}\n", "", "request.options, request.dryRun: they can't be given"},
		"a user besides": {inputPod, "    as: {user: eve}\n", "operation, subresource and as can't be given besides"},
		"an object besides": {inputPod, "    object: {apiVersion: v1, kind: Pod}\n",
			"s.yaml:5: spec.cases[0]: input and object or file: only one can be given"},
		"a field that a row adds": {inputPod, "    table:\n    - {name: r, set: {spec.a: b}}\n", `unknown field "spec"`},
	} {
		t.Run(name, func(t *testing.T) {
			suites, err := parseInput(t, t.TempDir(), test.text, test.more)
			if err == nil {
				t.Fatalf("no error, but %v", suites[0].Cases[0].Object)
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("it says %q, and not %q", err, test.want)
			}
		})
	}
}

// A suite reads inputs of its folders alone.
func TestInputsAreInTheFolder(t *testing.T) {
	for path, want := range map[string]string{"../in.yaml": "outside of the folders that may be read",
		"none.yaml": "no such file or directory"} {
		_, errs := suite.Parse(filepath.Join(t.TempDir(), "s.yaml"),
			[]byte(head+"  cases:\n  - {name: a, input: "+path+", expect: {verdict: Admitted}}\n"))
		if err := errors.Join(errs...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Whatever an input has, nothing panics, and a case has a request for a server.
func FuzzInput(f *testing.F) {
	f.Add(inputPod+inputOld, "object.a", "request.operation")
	f.Add(inputPod+"params: {apiVersion: v1, kind: A, metadata: {name: n}}\nnamespace: {metadata: 5}\n", "object.metadata", "params")
	f.Add(inputExec+"request: {operation: CONNECT, options: {a: 1}, userInfo: {extra: {A: []}}}\n", "request.kind.kind", "object")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text, one, other string) {
		set, err := json.Marshal(map[string]any{one: "DELETE", other: nil})
		if err != nil {
			t.Fatal(err)
		}
		suites, _ := parseInput(t, dir, text, "    set: "+string(set)+"\n")
		for _, s := range suites {
			for _, c := range s.Cases {
				request, _ := c.Object.Object["request"].(map[string]any)
				if c.Object.GetKind() != "AdmissionReview" || request["operation"] == "" || request["uid"] != "" {
					t.Errorf("%q: %v", text, c.Object)
				}
				for _, d := range c.State {
					if d.Object.GetKind() == "" || d.Object.GetName() == "" {
						t.Errorf("%q: the state has %v", text, d.Object)
					}
				}
			}
		}
	})
}
