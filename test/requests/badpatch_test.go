// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// badPatches are patches that don't apply, or that would cost too much to apply.
func badPatches() []badInput {
	const source = "k8s.io/apiserver/pkg/endpoints/handlers/patch.go "
	patch := func(name, function, contentType, query, body string) badInput {
		return badInput{name, source + function, "PATCH", configMaps + "/kept" + query, contentType, body, 400,
			badRequest, ""}
	}
	refused := func(b badInput, message string) badInput {
		b.message = message
		return b
	}
	// A patch that is no JSON is refused before it is looked at, for the audit log holds it.
	unreadable := func(name, contentType, query, body string) badInput {
		return refused(patch(name, "validateAndTranscodePatch", contentType, query, body), "invalid JSON patch")
	}
	rejected := func(name, body string) badInput {
		b := patch(name, "applyJSPatch", jsonPatchType, "", body)
		b.code, b.reason, b.message = 422, invalid, rejectedPatch
		return b
	}
	operations := func(n int, operation string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(operation+",", n), ",") + "]"
	}
	var bomb []string
	for i := range 40 {
		bomb = append(bomb, fmt.Sprintf(`{"op":"copy","from":"/data","path":"/data/%d"}`, i))
	}
	deep := nested(100_000, `{"a":`, "1", "}")
	deepValue := `[{"op":"add","path":"/data/x","value":` + nested(100_000, "[", "", "]") + "}]"
	many := patch("JSON patch of too many operations", "maxJSONPatchOperations", jsonPatchType, "",
		operations(10_001, `{"op":"test","path":"/data/a","value":"b"}`))
	many.code, many.reason = 413, tooLarge
	many.message = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"

	// What the decoders say that patch.go calls; into any for the types that it decodes into.
	decodeError := func(body string, into any) string {
		return "error decoding patch: " +
			strings.ReplaceAll(undecodable(body, into), "requests_test.operation", "handlers.jsonPatchOp")
	}
	_, notYAML := utilyaml.ToJSON([]byte("a: ["))
	return []badInput{
		many,
		// What it copies doubles with each operation; JSONPatchMaxCopyBytes of
		// k8s.io/apiserver/pkg/server/config.go ends that at 3 MiB.
		rejected("JSON patch that copies its object into itself again and again", "["+strings.Join(bomb, ",")+"]"),
		rejected("JSON patch of an unknown operation", `[{"op":"make","path":"/data/a"}]`),
		rejected("JSON patch of a path that isn't there", `[{"op":"replace","path":"/none/of/this","value":1}]`),
		rejected("JSON patch without a path", `[{"op":"remove"}]`),
		rejected("JSON patch of an impossible index",
			`[{"op":"add","path":"/metadata/managedFields/4294967296","value":{}}]`),
		refused(patch("JSON patch that is none", "applyJSPatch", jsonPatchType, "", `{"op":"remove","path":"/data/a"}`),
			decodeError(`{"op":"remove","path":"/data/a"}`, &[]operation{})),
		unreadable("JSON patch of a deep value", jsonPatchType, "", deepValue),
		unreadable("JSON patch of a deep value, unvalidated", jsonPatchType, "?fieldValidation=Ignore", deepValue),
		refused(patch("merge patch that is none", "applyJSPatch", mergePatchType, "", "[1]"),
			decodeError("[1]", &map[string]any{})),
		refused(patch("merge patch that is none, unvalidated", "applyJSPatch", mergePatchType,
			"?fieldValidation=Ignore", "1"), jsonpatch.ErrBadJSONPatch.Error()),
		unreadable("merge patch that is no JSON", mergePatchType, "", "[1"),
		unreadable("deep merge patch", mergePatchType, "", deep),
		unreadable("deep merge patch, unvalidated", mergePatchType, "?fieldValidation=Ignore", deep),
		unreadable("strategic merge patch that is none", strategicPatchType, "", "nothing"),
		unreadable("deep strategic merge patch", strategicPatchType, "", deep),
		unreadable("deep strategic merge patch, unvalidated", strategicPatchType, "?fieldValidation=Ignore", deep),
		refused(patch("apply of no YAML", "validateAndTranscodePatch", applyPatchType, "?fieldManager=f", "a: ["),
			"error encoding patch: "+fmt.Sprint(notYAML)),
		{"merge patch that leaves no object", source + "applyPatchToCurrentObject", "PATCH", configMaps + "/kept",
			mergePatchType, `{"data":{"a":{"b":"c"}}}`, 422, invalid,
			`~ "" is invalid: patch: Invalid value: "{.*}": json: cannot unmarshal object into Go struct field ` +
				`ConfigMap\.data of type string`},
	}
}

// operation is patch.go's jsonPatchOp.
type operation struct {
	Op    string      `json:"op"`
	Path  string      `json:"path"`
	From  string      `json:"from"`
	Value interface{} `json:"value"`
}

// bodyLimit is MaxRequestBodyBytes of k8s.io/apiserver/pkg/server/config.go.
const bodyLimit = 3 * 1024 * 1024

// tooBig are requests over the limits of the server and of its storage.
func tooBig() []badInput {
	const source = "k8s.io/apiserver/pkg/endpoints/handlers/rest.go limitedReadBody"
	const message = "Request entity too large: limit is 3145728"
	big := func(size int) string {
		const frame = `{"metadata":{"name":"kept"},"data":{"a":""}}`
		return strings.Replace(frame, `""`, `"`+strings.Repeat("x", size-len(frame))+`"`, 1)
	}
	const pod = `{"metadata":{"name":"big"},"spec":{"containers":[{"name":"c","image":"i","args":["%s"]}]}}`
	return []badInput{
		{"create over the limit", source, "POST", configMaps, jsonType, big(bodyLimit + 1), 413, tooLarge, message},
		{"create far over the limit", source, "POST", configMaps, jsonType, big(5 * bodyLimit), 413, tooLarge, message},
		{"update over the limit", source, "PUT", configMaps + "/kept", jsonType, big(bodyLimit + 1), 413, tooLarge,
			message},
		{"patch over the limit", source, "PATCH", configMaps + "/kept", mergePatchType, big(bodyLimit + 1), 413,
			tooLarge, message},
		{"apply over the limit", source, "PATCH", configMaps + "/kept?fieldManager=f", applyPatchType,
			big(bodyLimit + 1), 413, tooLarge, message},
		{"delete over the limit", source, "DELETE", configMaps + "/kept", jsonType, big(bodyLimit + 1), 413, tooLarge,
			message},
		{"as much as the limit, which is too much for a ConfigMap",
			"k8s.io/kubernetes/pkg/apis/core/validation/validation.go ValidateConfigMap", "POST", configMaps, jsonType,
			strings.Replace(big(bodyLimit), "kept", "made", 1), 422, invalid,
			fmt.Sprintf(`ConfigMap "made" is invalid: []: Too long: may not be more than %d bytes`,
				corev1.MaxSecretSize)},
		{"too much for etcd",
			"go.etcd.io/etcd/server/v3/etcdserver/v3_server.go; " +
				"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/status.go", "POST",
			"/api/v1/namespaces/bad/pods", jsonType, fmt.Sprintf(pod, strings.Repeat("x", 1_700_000)), 500, unexpected,
			"etcdserver: request is too large"},
	}
}

// Kubernetes takes these, odd as they look.
func TestOddInput(t *testing.T) {
	namespace := shared.namespace(t, "odd")
	path := "/api/v1/namespaces/" + namespace + "/configmaps"
	get := func(t *testing.T, name string) map[string]string {
		var object corev1.ConfigMap
		if err := json.Unmarshal(shared.send(t, request{method: "GET", path: path + "/" + name}).body,
			&object); err != nil {
			t.Fatal(err)
		}
		return object.Data
	}
	for name, test := range map[string]struct{ contentType, body, want string }{
		// encoding/json replaces it, and so does sigs.k8s.io/json.
		"invalid-utf8": {jsonType, "{\"metadata\":{\"name\":\"invalid-utf8\"},\"data\":{\"a\":\"\xff\"}}", "\ufffd"},
		"null-byte":    {jsonType, `{"metadata":{"name":"null-byte"},"data":{"a":"\u0000"}}`, "\x00"},
		// Quoted, it is a string whatever it looks like.
		"yaml-number":   {yamlType, "metadata: {name: yaml-number}\ndata: {a: '1e999999'}\n", "1e999999"},
		"no-type-given": {"", `{"metadata":{"name":"no-type-given"},"data":{"a":"b"}}`, "b"},
		"with-charset": {"application/json; charset=utf-8", `{"metadata":{"name":"with-charset"},"data":{"a":"b"}}`,
			"b"},
	} {
		t.Run(name, func(t *testing.T) {
			shared.send(t, request{method: "POST", path: path, contentType: test.contentType,
				body: []byte(test.body)}).wantCode(t, http.StatusCreated)
			if got := get(t, name)["a"]; got != test.want {
				t.Errorf("stored is %q, want %q", got, test.want)
			}
		})
	}
	shared.wantReady(t)
}
