// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/test/servertest"
)

const (
	badNamespace = "bad"
	configMaps   = "/api/v1/namespaces/bad/configmaps"
	deployments  = "/apis/apps/v1/namespaces/bad/deployments"

	jsonType, yamlType, protobufType = "application/json", "application/yaml",
		"application/vnd.kubernetes.protobuf"
	jsonPatchType, mergePatchType      = "application/json-patch+json", "application/merge-patch+json"
	strategicPatchType, applyPatchType = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
	acceptedTypes                      = "application/json, application/yaml, " +
		"application/vnd.kubernetes.protobuf"
	badRequest, invalid, conflict, unexpected = metav1.StatusReasonBadRequest, metav1.StatusReasonInvalid,
		metav1.StatusReasonConflict, metav1.StatusReasonUnknown
	tooLarge, unsupported = metav1.StatusReasonRequestEntityTooLarge,
		metav1.StatusReasonUnsupportedMediaType

	// rejectedPatch is NewGenericServerResponse's message for 422, which applyJSPatch gives for
	// every patch that doesn't apply.
	rejectedPatch = "the server rejected our request due to an error in our request"
)

// badInput is a request that must be refused. What is expected is from Kubernetes' sources: the
// code, reason and form of the message from the function named in source, and what a decoder says
// from that very decoder, called here.
type badInput struct {
	name                      string
	source                    string
	method, path, contentType string
	body                      string
	code                      int
	reason                    metav1.StatusReason
	// message is exact, or begins with ~ and is a regular expression.
	message string
}

// unrecognized is transformDecodeError's message (k8s.io/apiserver/pkg/endpoints/handlers/rest.go)
// where the body doesn't tell its kind.
func unrecognized(kind string, cause any, body string) string {
	summary := body
	if len(summary) > 30 {
		summary = summary[:30]
	}
	if !strings.HasPrefix(body, "{") {
		summary = hex.EncodeToString([]byte(summary))
	}
	switch {
	case body == "":
		summary = "<empty>"
	case len(body) > 30:
		summary += " ..."
	}
	return fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", kind, cause, summary)
}

// untyped is the same for JSON in which SimpleMetaFactory
// (k8s.io/apimachinery/pkg/runtime/serializer/json/meta.go) finds no kind.
func untyped(kind, body string) string {
	var findKind struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	return unrecognized(kind,
		fmt.Sprintf("couldn't get version/kind; json parse error: %v", json.Unmarshal([]byte(body), &findKind)), body)
}

// failure is the error of a call.
func failure(_ any, err error) string { return err.Error() }

// undecodable is the error of the decoder of request bodies.
func undecodable(body string, into any) string {
	_, err := kjson.UnmarshalStrict([]byte(body), into)
	return err.Error()
}

func nested(depth int, open, inner, end string) string {
	return strings.Repeat(open, depth) + inner + strings.Repeat(end, depth)
}

// protobuf is an object in Kubernetes' envelope,
// k8s.io/apimachinery/pkg/runtime/serializer/protobuf.
func protobuf(apiVersion, kind string, raw []byte) string {
	data, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: raw}).Marshal()
	if err != nil {
		panic(err)
	}
	return "k8s\x00" + string(data)
}

// malformed are bodies that aren't what their content type says.
func malformed() []badInput {
	const handlers = "k8s.io/apiserver/pkg/endpoints/handlers/"
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1,
			c-1, c-1)
	}
	create := func(name, contentType, body, message string) badInput {
		return badInput{name, handlers + "create.go, rest.go transformDecodeError", "POST", configMaps, contentType,
			body, 400, badRequest, message}
	}
	deep := nested(100_000, `{"a":`, "1", "}")
	deepList := `{"data":` + nested(100_000, "[", "", "]") + "}"
	var unknown runtime.Unknown
	return []badInput{
		create("JSON that ends early", jsonType, `{"metadata":{"name":`, untyped("ConfigMap", `{"metadata":{"name":`)),
		create("JSON that is none", jsonType, "hello", untyped("ConfigMap", "hello")),
		create("JSON with more behind it", jsonType, `{"metadata":{"name":"a"}} {}`,
			untyped("ConfigMap", `{"metadata":{"name":"a"}} {}`)),
		create("a JSON list", jsonType, `[{"metadata":{"name":"a"}}]`,
			untyped("ConfigMap", `[{"metadata":{"name":"a"}}]`)),
		create("null bytes", jsonType, "\x00\x00\x00", untyped("ConfigMap", "\x00\x00\x00")),
		create("a null byte in a JSON string", jsonType, "{\"metadata\":{\"name\":\"a\x00b\"}}",
			untyped("ConfigMap", "{\"metadata\":{\"name\":\"a\x00b\"}}")),
		create("no body", jsonType, "", untyped("ConfigMap", "")),
		create("deep JSON", jsonType, deep, untyped("ConfigMap", deep)),
		create("deep JSON lists", jsonType, deepList, untyped("ConfigMap", deepList)),
		create("YAML that ends early", yamlType, "a: [",
			unrecognized("ConfigMap", failure(yaml.YAMLToJSON([]byte("a: ["))), "a: [")),
		create("YAML with invalid UTF-8", yamlType, "a: \xff\xfe",
			unrecognized("ConfigMap", failure(yaml.YAMLToJSON([]byte("a: \xff\xfe"))), "a: \xff\xfe")),
		create("a YAML bomb", yamlType, bomb, unrecognized("ConfigMap", failure(yaml.YAMLToJSON([]byte(bomb))), bomb)),
		create("JSON sent as protobuf", protobufType, "{}",
			unrecognized("ConfigMap",
				"provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]", "{}")),
		create("protobuf that ends early", protobufType, "k8s\x00", unrecognized("ConfigMap", "empty body", "k8s\x00")),
		create("protobuf that is none", protobufType, "k8s\x00\xff\xff\xff",
			unrecognized("ConfigMap", unknown.Unmarshal([]byte("\xff\xff\xff")), "k8s\x00\xff\xff\xff")),
		create("protobuf around something else", protobufType, protobuf("v1", "ConfigMap", []byte("\xff\xff\xff")),
			`ConfigMap in version "v1" cannot be handled as a ConfigMap: unexpected EOF`),
		{"deep YAML to apply", handlers + "patch.go applyPatcher", "PATCH", configMaps + "/kept?fieldManager=f",
			applyPatchType, deep, 400, badRequest,
			"error decoding patch: " + yaml.Unmarshal([]byte(deep), &map[string]any{}).Error()},
	}
}

// mistyped are bodies of another kind, version or type than the URL's.
func mistyped() []badInput {
	const source = "k8s.io/apiserver/pkg/endpoints/handlers/create.go, rest.go transformDecodeError; " +
		"k8s.io/apimachinery/pkg/runtime/error.go"
	scheme := legacyscheme.Scheme.Name()
	create := func(name, path, body, message string) badInput {
		return badInput{name, source, "POST", path, jsonType, body, 400, badRequest, message}
	}
	decode := func(name, body string) badInput {
		return create(name, deployments, body,
			`Deployment in version "v1" cannot be handled as a Deployment: `+undecodable(body, &appsv1.Deployment{}))
	}
	return []badInput{
		create("another kind", configMaps, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`,
			`Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): `+
				`unknown conversion`),
		create("an unknown kind", configMaps, `{"apiVersion":"v1","kind":"Nonsense","metadata":{"name":"a"}}`,
			`Nonsense in version "v1" cannot be handled as a ConfigMap: no kind "Nonsense" is registered for `+
				`version "v1" in scheme "`+scheme+`"`),
		create("an unknown version", configMaps, `{"apiVersion":"v7","kind":"ConfigMap","metadata":{"name":"a"}}`,
			`ConfigMap in version "v7" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for `+
				`version "v7" in scheme "`+scheme+`"`),
		create("another version", "/apis/autoscaling/v1/namespaces/bad/horizontalpodautoscalers",
			`{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"a"},`+
				`"spec":{"maxReplicas":1,"scaleTargetRef":{"kind":"a","name":"b"}}}`,
			"the API version in the data (autoscaling/v2) does not match the expected API version (autoscaling/v1)"),
		decode("a number for a string", `{"metadata":{"name":1}}`),
		decode("a fraction for an integer", `{"metadata":{"name":"a"},"spec":{"replicas":1.5}}`),
		decode("a number too big for its field", `{"metadata":{"name":"a"},"spec":{"replicas":99999999999999999999}}`),
		decode("a number too big for any", `{"metadata":{"name":"a"},"spec":{"replicas":1e999999}}`),
		decode("a time that is none", `{"metadata":{"name":"a","creationTimestamp":"yesterday"}}`),
	}
}

// mismatched are objects that disagree with the URL or with what is stored.
func mismatched() []badInput {
	const handlers, registry = "k8s.io/apiserver/pkg/endpoints/handlers/", "k8s.io/apiserver/pkg/registry/"
	const modified = `Operation cannot be fulfilled on configmaps "kept": the object has been modified; please ` +
		`apply your changes to the latest version and try again`
	const otherName = "the name of the object (other) does not match the name on the URL (kept)"
	name := func(name, sent string) badInput {
		return badInput{name, registry +
			"rest/create.go BeforeCreate; k8s.io/apimachinery/pkg/util/validation/validation.go", "POST", configMaps,
			jsonType,
			fmt.Sprintf(`{"metadata":{"name":"%s"}}`, sent), 422, invalid, ""}
	}
	named := func(b badInput, stored string) badInput {
		b.message = fmt.Sprintf("ConfigMap %q is invalid: metadata.name: Invalid value: %q: %s", stored, stored,
			strings.Join(validation.IsDNS1123Subdomain(stored), ";"))
		return b
	}
	return []badInput{
		{"another name", handlers + "rest.go checkName", "PUT", configMaps + "/kept", jsonType,
			`{"metadata":{"name":"other"}}`, 400, badRequest, otherName},
		{"no name", handlers + "rest.go checkName; namer.go ObjectName", "PUT", configMaps + "/kept", jsonType,
			`{"metadata":{}}`, 400, badRequest,
			"the name of the object (kept based on URL) was undeterminable: name must be provided"},
		{"a patch to another name", handlers + "rest.go checkName", "PATCH", configMaps + "/kept", mergePatchType,
			`{"metadata":{"name":"other"}}`, 400, badRequest, otherName},
		{"another namespace", registry + "rest/meta.go EnsureObjectNamespaceMatchesRequestNamespace", "PUT",
			configMaps + "/kept", jsonType,
			`{"metadata":{"name":"kept","namespace":"default"}}`, 400, badRequest,
			"the namespace of the provided object does not match the namespace sent on the request"},
		{"a stale resourceVersion", registry + "generic/registry/store.go OptimisticLockErrorMsg", "PUT", configMaps +
			"/kept", jsonType,
			`{"metadata":{"name":"kept","resourceVersion":"1"}}`, 409, conflict, modified},
		{"a patch with a stale resourceVersion", registry + "generic/registry/store.go OptimisticLockErrorMsg", "PATCH",
			configMaps + "/kept", strategicPatchType,
			`{"metadata":{"resourceVersion":"1"}}`, 409, conflict, modified},
		{"a resourceVersion that is none",
			"k8s.io/apiserver/pkg/storage/api_object_versioner.go ObjectResourceVersion; " +
				"handlers/responsewriters/status.go", "PUT", configMaps + "/kept", jsonType,
			`{"metadata":{"name":"kept","resourceVersion":"new"}}`, 500, unexpected,
			`strconv.ParseUint: parsing "new": invalid syntax`},
		{"a query that is none", handlers + "create.go; k8s.io/apimachinery/pkg/runtime/conversion.go", "GET",
			configMaps + "?limit=many", "", "", 400, badRequest,
			`strconv.ParseInt: parsing "many": invalid syntax`},
		named(name("a name with invalid UTF-8", "a\xff"), "a\ufffd"), // as encoding/json reads it
		named(name("a name with a null byte", `a\u0000`), "a\x00"),
		named(name("a name that is a path", "../kept"), "../kept"),
		named(name("a long name", strings.Repeat("a", 254)), strings.Repeat("a", 254)),
	}
}

// misdirected are requests in a format that the URL doesn't take.
func misdirected() []badInput {
	const format, source = "the body of the request was in an unknown format - accepted media types include: ",
		"k8s.io/apiserver/pkg/endpoints/handlers/negotiation/errors.go"
	const object = `{"metadata":{"name":"a"}}`
	return []badInput{
		{"create from a form", source, "POST", configMaps, "application/x-www-form-urlencoded", "a=b", 415, unsupported,
			format + acceptedTypes},
		{"create from a patch", source, "POST", configMaps, mergePatchType, object, 415, unsupported, format +
			acceptedTypes},
		{"create from a type that is none", source, "POST", configMaps, ";;", object, 415, unsupported, format +
			acceptedTypes},
		{"update from text", source, "PUT", configMaps + "/kept", "text/plain", object, 415, unsupported, format +
			acceptedTypes},
		{"delete with text", source, "DELETE", configMaps + "/kept", "text/plain", object, 415, unsupported, format +
			acceptedTypes},
		// go-restful refuses what a route doesn't take before Kubernetes' handler sees it.
		{"patch from an object",
			"github.com/emicklei/go-restful/v3/jsr311.go detectRoute; k8s.io/apimachinery/pkg/api/errors " +
				"NewGenericServerResponse", "PATCH", configMaps + "/kept",
			jsonType, object, 415, unsupported, "415: Unsupported Media Type"},
	}
}

func TestBadInput(t *testing.T) {
	shared.namespace(t, badNamespace)
	shared.send(t, request{method: "POST", path: configMaps, contentType: jsonType,
		body: []byte(`{"metadata":{"name":"kept"},"data":{"a":"b"}}`)}).wantCode(t, http.StatusCreated)
	before := stored(t)
	for group, inputs := range map[string][]badInput{
		"malformed": malformed(), "mistyped": mistyped(), "mismatched": mismatched(), "misdirected": misdirected(),
		"patches": badPatches(), "sizes": tooBig(),
	} {
		t.Run(group, func(t *testing.T) {
			for _, b := range inputs {
				t.Run(b.name, func(t *testing.T) {
					a := shared.send(t,
						request{method: b.method, path: b.path, contentType: b.contentType, body: []byte(b.body)})
					message := b.message
					if expression, ok := strings.CutPrefix(message, "~"); ok &&
						regexp.MustCompile(`\A(?:`+expression+`)\z`).MatchString(a.status().Message) {
						message = a.status().Message
					}
					a.wantRefused(t, b.code, b.reason, message)
					if t.Failed() {
						t.Logf("expected after %s", b.source)
					}
					if diff := cmp.Diff(before, stored(t)); diff != "" {
						t.Errorf("something was stored (-before +after):\n%s", diff)
					}
					shared.wantReady(t)
				})
			}
		})
	}
}

// stored is what is in the namespace: for each object the version it has. It waits for what every
// namespace gets.
func stored(t testing.TB) map[string]string {
	objects := map[string]string{}
	servertest.Eventually(t, "the namespace to have all that it gets", func() bool {
		clear(objects)
		for _, path := range []string{
			configMaps, deployments, "/api/v1/namespaces/bad/secrets", "/api/v1/namespaces/bad/pods",
			"/api/v1/namespaces/bad/serviceaccounts",
			"/apis/autoscaling/v1/namespaces/bad/horizontalpodautoscalers",
		} {
			a, err := shared.do(t.Context(), request{method: "GET", path: path})
			var list metav1.PartialObjectMetadataList
			if err != nil || json.NewDecoder(bytes.NewReader(a.body)).Decode(&list) != nil || a.code != http.StatusOK {
				return false
			}
			for _, object := range list.Items {
				objects[path+"/"+object.Name] = object.ResourceVersion
			}
		}
		return objects[configMaps+"/kube-root-ca.crt"] != "" &&
			objects["/api/v1/namespaces/bad/serviceaccounts/default"] != ""
	})
	return objects
}
