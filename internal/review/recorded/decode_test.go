// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// sameObject reports a difference between JSON objects.
func sameObject(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	if want == "" || len(got) == 0 {
		if string(got) != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
		return
	}
	var x, y any
	if err := json.Unmarshal(got, &x); err != nil {
		t.Fatalf("%s: %v: %s", what, err, got)
	}
	if err := json.Unmarshal([]byte(want), &y); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(y, x); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestDecode(t *testing.T) {
	line := createdMap("a", "1", 1)
	line.impersonated, line.at = "bob", began
	line.uri = "/api/v1/namespaces/default/configmaps?fieldManager=m&dryRun=All"
	line.id = "the-id"
	q := requests(t, Options{}, line)[0]
	sameObject(t, "object", q.Object,
		`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default"},"data":{"k":"1"}}`)
	options := &metav1.CreateOptions{FieldManager: "m", DryRun: []string{"All"}}
	options.APIVersion, options.Kind = "meta.k8s.io/v1", "CreateOptions"
	want := &Request{Source: q.Source, ID: "the-id", Time: q.Time, User: &user.DefaultInfo{Name: "bob", Groups: []string{"g"}},
		UserAgent: "kubectl/v1.37", Verb: "create", URI: line.uri, Operation: admission.Create,
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		Kind:     schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "default", Name: "a", StoredName: "a", DryRun: true,
		Object: q.Object, Options: options, Recorded: Recorded{Outcome: Admitted, Code: 201}}
	if diff := cmp.Diff(want, q, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !q.Time.Equal(began) || q.Source.Line != 1 || !strings.HasSuffix(q.Source.String(), "audit.log:1") {
		t.Errorf("time %s, source %s", q.Time, q.Source)
	}
	line.impersonated, line.id = "", ""
	q = requests(t, Options{}, line)[0]
	if diff := cmp.Diff(&user.DefaultInfo{Name: "alice", UID: "u-1", Groups: []string{"dev", "system:authenticated"},
		Extra: map[string][]string{"k": {"v"}}}, q.User); diff != "" {
		t.Errorf("user (-want +got):\n%s", diff)
	}
}

// A change is judged with the object that earlier events show, and only if nothing contradicts it.
func TestBase(t *testing.T) {
	with := func(a audit, change func(*audit)) audit { change(&a); return a }
	put := func(version string) audit {
		return audit{verb: "update", name: "a", response: configMap("a", "3", 3), request: `{"kind":"ConfigMap","apiVersion":"v1",` +
			`"metadata":{"name":"a","namespace":"default","resourceVersion":"` + version + `"},"data":{"k":"3"}}`}
	}
	state := Options{Lookup: func(r schema.GroupResource, namespace, name, subresource string) []byte {
		if r.Resource != "configmaps" || namespace != "default" || name != "a" {
			return nil
		}
		return []byte(configMap("a", "state", 1))
	}}
	metadata := with(patchedMap("a", "2", 2), func(a *audit) { a.level, a.request, a.response = "Metadata", "", "" })
	request := with(patchedMap("a", "2", 2), func(a *audit) { a.level, a.response = "Request", "" })
	dry := with(patchedMap("a", "2", 1), func(a *audit) { a.uri = "/api/v1/namespaces/default/configmaps/a?dryRun=All" })
	table := with(patchedMap("a", "2", 2), func(a *audit) { a.response = `{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}` })
	early := with(patchedMap("a", "2", 2), func(a *audit) { a.at = began.Add(time.Hour) })
	for name, test := range map[string]struct {
		lines []audit
		Options
		old      string // the value in the old object of the last request
		object   string
		unjudged Reason
	}{
		"known":                   {lines: []audit{createdMap("a", "1", 1), patchedMap("a", "2", 2)}, old: "1", object: "2"},
		"unknown":                 {lines: []audit{patchedMap("a", "2", 2)}, object: "2", unjudged: UnknownBase},
		"an update that is known": {lines: []audit{createdMap("a", "1", 1), put("1")}, old: "1", object: "3"},
		"an unconditional update": {lines: []audit{createdMap("a", "1", 1), put("")}, old: "1", object: "3"},
		"an update of another":    {lines: []audit{createdMap("a", "1", 1), put("2")}, object: "3", unjudged: UnknownBase},
		"state":                   {lines: []audit{patchedMap("a", "2", 2)}, Options: state, old: "state", object: "2"},
		"state of a later time":   {lines: []audit{patchedMap("a", "2", 1)}, Options: state, object: "2", unjudged: UnknownBase},
		"deleted another": {lines: []audit{createdMap("a", "1", 1), with(deletedMap("a"), func(a *audit) {
			a.response = strings.Replace(a.response, `"status"`, `"details":{"uid":"uid-new"},"status"`, 1)
		})}, unjudged: UnknownBase},
		"state, deleted since":      {lines: []audit{deletedMap("a"), patchedMap("a", "2", 2)}, Options: state, object: "2", unjudged: UnknownBase},
		"state, changed since":      {lines: []audit{metadata, patchedMap("a", "3", 3)}, Options: state, object: "3", unjudged: UnknownBase},
		"state after a dry run":     {lines: []audit{dry, patchedMap("a", "3", 3)}, Options: state, old: "state", object: "3"},
		"a dry run changes nothing": {lines: []audit{createdMap("a", "1", 1), dry, patchedMap("a", "3", 3)}, old: "1", object: "3"},
		"after level Metadata": {lines: []audit{createdMap("a", "1", 1), metadata, patchedMap("a", "3", 3)}, object: "3",
			unjudged: UnknownBase},
		"level Metadata":         {lines: []audit{createdMap("a", "1", 1), metadata}, old: "1", unjudged: MetadataLevel},
		"level Request":          {lines: []audit{createdMap("a", "1", 1), request}, old: "1", object: "2"},
		"after level Request":    {lines: []audit{createdMap("a", "1", 1), request, patchedMap("a", "3", 3)}, object: "3", unjudged: UnknownBase},
		"level Request, unknown": {lines: []audit{request}, unjudged: UnknownBase},
		"a table as response":    {lines: []audit{createdMap("a", "1", 1), table}, old: "1", object: "2"},
		"after a table":          {lines: []audit{createdMap("a", "1", 1), table, patchedMap("a", "3", 3)}, object: "3", unjudged: UnknownBase},
		"truncated": {lines: []audit{createdMap("a", "1", 1), with(patchedMap("a", "2", 2), func(a *audit) {
			a.request, a.response, a.annotations = "", "", `"audit.k8s.io/truncated":"true",`
		})}, old: "1", unjudged: Truncated},
		"no body": {lines: []audit{with(createdMap("a", "1", 1), func(a *audit) { a.request = "" })}, unjudged: NoBody},
		"a body of another kind": {lines: []audit{with(createdMap("a", "1", 1), func(a *audit) { a.request = `"x"` })},
			unjudged: Unparseable},
		"another UID": {lines: []audit{createdMap("a", "1", 1), with(patchedMap("a", "2", 2), func(a *audit) {
			a.response = strings.Replace(a.response, "uid-a", "uid-new", 1)
		})}, object: "2", unjudged: UnknownBase},
		"a skipped generation": {lines: []audit{
			with(createdMap("a", "1", 1), func(a *audit) { a.response = strings.Replace(a.response, `"uid"`, `"generation":1,"uid"`, 1) }),
			with(patchedMap("a", "2", 2), func(a *audit) { a.response = strings.Replace(a.response, `"uid"`, `"generation":3,"uid"`, 1) })},
			object: "2", unjudged: UnknownBase},
		"another version of the kind": {lines: []audit{createdMap("a", "1", 1), with(patchedMap("a", "2", 2), func(a *audit) {
			a.version, a.response = "v2", strings.Replace(a.response, `"apiVersion":"v1"`, `"apiVersion":"v2"`, 1)
		})}, object: "2", unjudged: UnknownBase},
		"out of order":   {lines: []audit{createdMap("a", "1", 1), patchedMap("a", "3", 3), early}, old: "2", object: "3"},
		"deleted":        {lines: []audit{createdMap("a", "1", 1), deletedMap("a")}, old: "1"},
		"deleted unseen": {lines: []audit{deletedMap("a")}, unjudged: UnknownBase},
		"a deletion that shows the object": {lines: []audit{with(deletedMap("a"), func(a *audit) { a.response = configMap("a", "x", 9) })},
			old: "x"},
		"a deletion that shows a deleted object": {lines: []audit{with(deletedMap("a"), func(a *audit) {
			a.response = strings.Replace(configMap("a", "x", 9), `"uid"`, `"deletionTimestamp":"2026-01-01T00:00:00Z","uid"`, 1)
		})}, unjudged: UnknownBase},
		"created by a patch": {lines: []audit{createdMap("a", "1", 1), deletedMap("a"), with(patchedMap("a", "2", 3), func(a *audit) {
			a.code = 201
		})}, object: "2"},
		"forgotten": {lines: []audit{createdMap("a", "1", 1), createdMap("b", strings.Repeat("x", 2000), 1), patchedMap("a", "2", 2)},
			Options: Options{StateBytes: 2500}, object: "2", unjudged: UnknownBase},
		"evicted": {lines: []audit{createdMap("a", "1", 1), {verb: "create", name: "a", subresource: "strange", code: 201,
			request: `{"kind":"X","apiVersion":"v1","metadata":{}}`}, patchedMap("a", "2", 2)}, object: "2", unjudged: UnknownBase},
		"a client that was gone": {lines: []audit{createdMap("a", "1", 1), with(patchedMap("a", "2", 2), func(a *audit) {
			a.response, a.message = "", "Connection closed early"
		}), patchedMap("a", "3", 3)}, object: "3", unjudged: UnknownBase},
		"after a timeout": {lines: []audit{createdMap("a", "1", 1), with(patchedMap("a", "2", 2), func(a *audit) {
			a.code, a.message, a.response = 504, "Timeout: request did not complete within the allotted timeout", ""
		}), patchedMap("a", "3", 3)}, object: "3", unjudged: UnknownBase},
		"after a panic": {lines: []audit{createdMap("a", "1", 1), with(patchedMap("a", "2", 2), func(a *audit) {
			a.code, a.stage, a.response = 500, "Panic", ""
		}), patchedMap("a", "3", 3)}, object: "3", unjudged: UnknownBase},
		"a refusal changes nothing": {lines: []audit{createdMap("a", "1", 1), with(patchedMap("a", "2", 2), func(a *audit) {
			a.code, a.message, a.response = 403, `configmaps "a" is forbidden: no`, `{"kind":"Status","apiVersion":"v1","code":403}`
		}), patchedMap("a", "3", 3)}, old: "1", object: "3"},
	} {
		t.Run(name, func(t *testing.T) {
			all := requests(t, test.Options, test.lines...)
			q := all[len(all)-1]
			if old := text(find(q.OldObject, "data", "k")); old != test.old {
				t.Errorf("old object with %q, want %q", old, test.old)
			}
			if object := text(find(q.Object, "data", "k")); object != test.object {
				t.Errorf("object with %q, want %q", object, test.object)
			}
			if q.Unjudged != test.unjudged {
				t.Errorf("unjudged %q, want %q", q.Unjudged, test.unjudged)
			}
		})
	}
}

// Nothing that is known is about is guessed: an update that waits for its base has its kind and its
// options nevertheless.
func TestUnjudgedRequestsAreComplete(t *testing.T) {
	q := requests(t, Options{}, patchedMap("a", "2", 2))[0]
	if q.Unjudged != UnknownBase || q.Kind.Kind != "ConfigMap" || q.Options.(*metav1.UpdateOptions).FieldManager != "test" {
		t.Errorf("%+v", q)
	}
}

func TestCollections(t *testing.T) {
	item := func(name string) string {
		return `{"metadata":{"name":"` + name + `","namespace":"default","uid":"uid-` + name + `","resourceVersion":"1"},"data":{"k":"1"}}`
	}
	collection := audit{verb: "deletecollection", request: `{"kind":"DeleteOptions","apiVersion":"v1"}`,
		response: `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[` + item("a") + "," + item("b") + "]}"}
	all := requests(t, Options{}, createdMap("a", "1", 1), collection, patchedMap("a", "2", 2))
	if len(all) != 4 || all[3].Unjudged != UnknownBase {
		t.Fatalf("%d requests, the last %+v", len(all), all[len(all)-1])
	}
	for i, name := range []string{"a", "b"} {
		q := all[i+1]
		if q.Operation != admission.Delete || q.Name != "" || q.Unjudged != "" || q.Kind.Kind != "ConfigMap" || q.Object != nil {
			t.Errorf("item %s: %+v", name, q)
		}
		sameObject(t, "item", q.OldObject, `{"apiVersion":"v1","kind":"ConfigMap",`+item(name)[1:])
	}
	for why, change := range map[Reason]func(*audit){
		NoResponse:    func(a *audit) { a.level, a.response = "Request", "" },
		MetadataLevel: func(a *audit) { a.level, a.response, a.request = "Metadata", "", "" },
		PartialResponse: func(a *audit) {
			a.response = `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[]}`
		},
		UnknownItems: func(a *audit) {
			a.code, a.message, a.response = 403, `configmaps "a" is forbidden: no`, `{"kind":"Status","apiVersion":"v1"}`
		},
	} {
		c := collection
		change(&c)
		all := requests(t, Options{}, createdMap("a", "1", 1), c, patchedMap("a", "2", 2))
		if len(all) != 3 || all[1].Unjudged != why || all[1].Operation != admission.Delete {
			t.Fatalf("%s: %d requests, %+v", why, len(all), all[1])
		}
		if known := all[2].Unjudged == ""; known != (why == UnknownItems) { // a refusal deletes nothing
			t.Errorf("%s: the next patch: %q", why, all[2].Unjudged)
		}
	}
	collection.response = `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":null}`
	if all := requests(t, Options{}, collection); len(all) != 0 {
		t.Errorf("an empty list: %d requests", len(all))
	}
}

func TestConnections(t *testing.T) {
	for uri, want := range map[string]string{
		"pods/p/exec?command=sh&command=-c&stdin=true&container=c": `{"kind":"PodExecOptions","apiVersion":"v1","stdin":true,` +
			`"container":"c","command":["sh","-c"]}`,
		"pods/p/portforward?ports=80": `{"kind":"PodPortForwardOptions","apiVersion":"v1","ports":[80]}`,
		"services/s/proxy/a/b/?x=y":   `{"kind":"ServiceProxyOptions","apiVersion":"v1","path":"/a/b/"}`,
		"pods/p/proxy":                `{"kind":"PodProxyOptions","apiVersion":"v1"}`,
	} {
		path, _, _ := strings.Cut(uri, "?")
		parts := strings.Split(path, "/")
		q := requests(t, Options{}, audit{level: "Metadata", verb: "get", resource: parts[0], name: parts[1], subresource: parts[2],
			uri: "/api/v1/namespaces/default/" + uri, code: 101})[0]
		if q.Operation != admission.Connect || q.Options != nil || q.Unjudged != "" || q.Recorded.Outcome != Admitted {
			t.Errorf("%s: %+v", uri, q)
		}
		sameObject(t, uri, q.Object, want)
	}
}

func TestApplyPatch(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"x"}]}}`
	const lamp = `{"apiVersion":"example.com/v1","kind":"Lamp","metadata":{"name":"l"},"spec":{"rooms":["a"]}}`
	for name, test := range map[string]struct {
		old, patch, uri, want string
		why                   Reason
	}{
		"merge": {old: pod, patch: `{"metadata":{"labels":{"a":"b"}}}`, want: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p",` +
			`"labels":{"a":"b"}},"spec":{"containers":[{"name":"a","image":"x"}]}}`},
		"JSON": {old: pod, patch: `[{"op":"remove","path":"/spec/containers/0/image"}]`,
			want: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"a"}]}}`},
		"JSON that fails":     {old: pod, patch: `[{"op":"test","path":"/metadata/name","value":"q"}]`, why: FailedPatch},
		"JSON that is none":   {old: pod, patch: `[1]`, why: FailedPatch},
		"lists of two kinds":  {old: pod, patch: `{"spec":{"containers":[{"name":"b","image":"y"}]}}`, why: AmbiguousPatch},
		"the same either way": {old: pod, patch: `{"spec":{"containers":[{"name":"a","image":"x"}]}}`, want: pod},
		"strategic": {old: pod, patch: `{"spec":{"$setElementOrder/containers":[{"name":"a"},{"name":"b"}],"containers":[{"name":"b",` +
			`"image":"y"}]}}`, want: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":` +
			`"x"},{"name":"b","image":"y"}]}}`},
		"custom": {old: lamp, patch: `{"spec":{"rooms":["b"]}}`, want: strings.Replace(lamp, `["a"]`, `["b"]`, 1)},
		"apply":  {old: pod, patch: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`, why: ApplyPatch},
		"forced": {old: pod, patch: `{"metadata":{"name":"p"}}`, uri: "/x?force=true", why: ApplyPatch},
		"text":   {old: pod, patch: `"x"`, why: Unparseable},
	} {
		t.Run(name, func(t *testing.T) {
			got, why := applyPatch([]byte(test.old), []byte(test.patch), test.uri)
			if why != test.why {
				t.Errorf("reason %q, want %q", why, test.why)
			}
			sameObject(t, "patched", got, test.want)
		})
	}
}

func TestRedactedSecrets(t *testing.T) {
	for object, want := range map[string]bool{
		`{"kind":"Secret","apiVersion":"v1","data":{"a":"aGk="}}`:          false,
		`{"kind":"Secret","apiVersion":"v1","data":{"a":""}}`:              false,
		`{"kind":"Secret","apiVersion":"v1","stringData":{"a":"b"}}`:       false,
		`{"kind":"Secret","apiVersion":"v1","data":{"a":"REDACTED!"}}`:     true,
		`{"kind":"Secret","apiVersion":"v1","data":{"a":null}}`:            true,
		`{"kind":"Secret","apiVersion":"v1"}`:                              true,
		`{"kind":"Secret","apiVersion":"v1","stringData":{"a":null}}`:      true,
		`{"kind":"Secret","apiVersion":"v1","data":"***"}`:                 true,
		`{"kind":"ConfigMap","apiVersion":"v1","data":{"a":"not base64"}}`: false,
	} {
		if isRedacted([]byte(object)) != want {
			t.Errorf("%s: redacted %t", object, !want)
		}
	}
	q := requests(t, Options{}, audit{verb: "create", resource: "secrets", name: "s", code: 201,
		request: `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s"},"data":{"a":"<redacted>"}}`})[0]
	if q.Unjudged != RedactedSecret {
		t.Errorf("unjudged %q", q.Unjudged)
	}
}

// Answers to requests for tokens have tokens: they are nowhere in a Request.
func TestTokensAreLeftOut(t *testing.T) {
	const answer = `{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{"name":"a"},"spec":{},` +
		`"status":{"token":"ey-secret"}}`
	q := requests(t, Options{}, audit{verb: "create", resource: "serviceaccounts", name: "a", subresource: "token", code: 201,
		request: answer, response: answer})[0]
	if strings.Contains(string(q.Object), "ey-secret") || q.Unjudged != "" || q.Operation != admission.Create {
		t.Errorf("%+v", q)
	}
}

func TestReviews(t *testing.T) {
	const request = `"uid":"u","kind":{"group":"apps","version":"v1","kind":"Deployment"},"resource":{"group":"apps","version":"v1",` +
		`"resource":"deployments"},"name":"d","namespace":"n","operation":"UPDATE","userInfo":{"username":"alice","groups":["g"]},` +
		`"object":{"a":1},"oldObject":{"a":0},"dryRun":true`
	review := func(request, response string) string {
		return `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{` + request + `}` + response + "}\n"
	}
	all, r, err := readAll(t, Options{}, logFile(t, review(request, "")+
		review(request, `,"response":{"uid":"u","allowed":false,"status":{"code":403,"reason":"Forbidden","message":"no"}}`)+
		review(request, `,"response":{"uid":"u","allowed":true}`)+
		review(strings.Replace(request, `"oldObject":{"a":0},`, "", 1), "")+
		review(strings.Replace(request, `"object":{"a":1},`, `"object":null,`, 1), "")+
		review(strings.Replace(request, `"UPDATE"`, `"DANCE"`, 1), "")+
		review(strings.Replace(request, `"UPDATE"`, `7`, 1), "")))
	if err != nil || r.Counts().Writes != 7 {
		t.Fatalf("%+v, error %v", r.Counts(), err)
	}
	for i, want := range []Request{
		{},
		{Recorded: Recorded{Outcome: Refused, Code: 403, Reason: "Forbidden", Message: "no"}},
		{Recorded: Recorded{Outcome: Admitted}},
		{Unjudged: UnknownBase}, {Unjudged: NoBody}, {Unjudged: Unparseable}, {Unjudged: Unparseable},
	} {
		if all[i].Unjudged != want.Unjudged || all[i].Recorded != want.Recorded {
			t.Errorf("review %d: %q, %+v", i, all[i].Unjudged, all[i].Recorded)
		}
	}
	q := all[0]
	options := &metav1.UpdateOptions{DryRun: []string{"All"}}
	options.APIVersion, options.Kind = "meta.k8s.io/v1", "UpdateOptions"
	want := &Request{Source: q.Source, ID: "u", User: &user.DefaultInfo{Name: "alice", Groups: []string{"g"}}, Verb: "update",
		Operation: admission.Update, Resource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		Kind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, Namespace: "n", Name: "d", StoredName: "d", DryRun: true,
		Object: []byte(`{"a":1}`), OldObject: []byte(`{"a":0}`), Options: options}
	if diff := cmp.Diff(want, q); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestReasonsAreDescribed(t *testing.T) {
	for _, r := range []Reason{MetadataLevel, Truncated, NoBody, NoResponse, PartialResponse, UnknownBase, ApplyPatch, AmbiguousPatch,
		FailedPatch, RedactedSecret, UnknownItems, Unparseable} {
		if r.Describe() == string(r) {
			t.Errorf("reason %s has no description", r)
		}
	}
}

// Records may be decoded in any goroutine, while others are read.
func TestDecodeConcurrently(t *testing.T) {
	var log strings.Builder
	for i := range 50 {
		log.WriteString(createdMap("a", "1", 10*i+1).line() + patchedMap("a", "2", 10*i+2).line())
		log.WriteString(audit{verb: "deletecollection", response: `{"kind":"ConfigMapList","apiVersion":"v1","items":[` +
			`{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`}.line())
	}
	r, err := Open(t.Context(), []string{logFile(t, log.String())}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var decoders sync.WaitGroup
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		decoders.Go(func() {
			if q := record.Decode(); q.Unjudged != "" {
				t.Errorf("%s: %s", q.Source, q.Unjudged)
			}
		})
	}
	decoders.Wait()
}
