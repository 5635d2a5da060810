// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// A record says whether its request removed the object, and how the object is called.
func TestRemoves(t *testing.T) {
	const (
		pod       = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"a","uid":"u"%s},"spec":{%s},"status":{%s}}`
		node      = `"nodeName":"n"`
		deleting  = `,"deletionTimestamp":"2026-01-01T00:00:00Z","deletionGracePeriodSeconds":%d`
		finalizer = `,"finalizers":["example.com/f"]`
		success   = `{"kind":"Status","apiVersion":"v1","status":"Success","details":{"uid":"u"}}`
	)
	event := func(verb, sub, request, response string, code int) string {
		uri := "/api/v1/namespaces/a/pods/p" + strings.TrimSuffix("/"+sub, "/")
		return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"%s","stage":"ResponseComplete",`+
			`"requestURI":%q,"verb":%q,"user":{"username":"u"},"objectRef":{"resource":"pods","subresource":%q,"namespace":"a","name":"p",`+
			`"apiVersion":"v1"},"responseStatus":{"code":%d},"requestObject":%s,"responseObject":%s}`, verb+sub, uri, verb, sub, code, request,
			response) + "\n"
	}
	object := func(metadata, spec, status string) string { return fmt.Sprintf(pod, metadata, spec, status) }
	deletedAt := func(grace int) string { return fmt.Sprintf(deleting, grace) }
	review := func(operation, object, old, options string) string {
		return fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"r","operation":%q,"kind":{"version":"v1",`+
			`"kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"namespace":"a","name":"p","userInfo":{"username":"u"},`+
			`"object":%s,"oldObject":%s,"options":%s},"response":{"uid":"r","allowed":true}}`, operation, object, old, options) + "\n"
	}
	created := event("create", "", object("", "", ""), object("", "", ""), 201)
	for name, test := range map[string]struct {
		log     string
		removes bool
	}{
		"removed at once":           {event("delete", "", "null", object("", "", ""), 200), true},
		"a status":                  {event("delete", "", "null", success, 200), true},
		"in its grace period":       {event("delete", "", "null", object(deletedAt(30), node, ""), 200), false},
		"at the end of it":          {event("delete", "", "null", object(deletedAt(0), node, ""), 200), true},
		"with a finalizer":          {event("delete", "", "null", object(deletedAt(0)+finalizer, "", ""), 200), false},
		"refused":                   {event("delete", "", "null", success, 403), false},
		"the last finalizer goes":   {event("patch", "", "{}", object(deletedAt(0), "", ""), 200), true},
		"an update":                 {event("update", "", object("", "", ""), object("", "", ""), 200), false},
		"an eviction before a node": {created + event("create", "eviction", "{}", success, 201), true},
		"an eviction from a node":   {created + event("create", "binding", "{}", success, 201) + event("create", "eviction", "{}", success, 201), false},
		"an eviction in the grace period": {event("delete", "", "null", object(deletedAt(30), node, `"phase":"Failed"`), 200) +
			event("create", "eviction", "{}", success, 201), false},
		"a review, twice":             {review("DELETE", "null", object(deletedAt(30), node, ""), "{}"), false},
		"a review":                    {review("DELETE", "null", object("", "", ""), "{}"), true},
		"a review, on a node":         {review("DELETE", "null", object("", node, ""), "{}"), false},
		"a review, at once":           {review("DELETE", "null", object("", node, ""), `{"gracePeriodSeconds":0}`), true},
		"a review, ended":             {review("DELETE", "null", object("", node, `"phase":"Failed"`), "{}"), true},
		"a review, in the foreground": {review("DELETE", "null", object("", "", ""), `{"propagationPolicy":"Foreground"}`), false},
		"a review, no grace":          {review("DELETE", "null", object("", node+`,"terminationGracePeriodSeconds":0`, ""), "{}"), true},
	} {
		r, err := Open(t.Context(), []string{"-"}, Options{Stdin: strings.NewReader(test.log)})
		if err != nil {
			t.Fatal(err)
		}
		var last *Request
		for {
			record, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			last = record.Decode()
		}
		if last == nil || last.Removes != test.removes || last.StoredName != "p" {
			t.Errorf("%s: %+v", name, last)
		}
	}
}
