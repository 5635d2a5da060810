// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Decode decodes the record. It never fails: what can't be decoded can't be judged, and the
// Request's Unjudged says so.
func (rec *Record) Decode() *Request {
	e := rec.event
	switch {
	case e.problem != "":
		return &Request{Source: e.source, User: &user.DefaultInfo{}, Unjudged: Unreadable}
	case e.kind == reviewLine:
		return rec.review()
	}
	q := &Request{
		Source: e.source, ID: text(e.auditID), Verb: text(e.verb), URI: text(e.uri), UserAgent: text(e.userAgent),
		Operation: rec.operation, Subresource: e.subresource,
		Resource:  schema.GroupVersionResource{Group: e.group, Version: e.version, Resource: e.resource},
		Namespace: e.namespace, Name: e.name, DryRun: e.dryRun, Unjudged: rec.unjudged,
		Recorded: Recorded{Outcome: e.outcome, Code: e.code, Message: e.message,
			Reason: metav1.StatusReason(text(find(e.status, "reason")))},
	}
	q.Time, _ = time.Parse(time.RFC3339Nano, text(e.received))
	var ok bool
	if q.User, ok = decodeUser(e.user); !isNull(e.impersonated) {
		q.User, ok = decodeUser(e.impersonated)
	}
	if !ok {
		q.unjudge(Unparseable)
	}
	rec.setOld(q)
	rec.setObject(q)
	q.setNames()
	if rec.operation != admission.Connect {
		rec.setOptions(q)
	}
	if q.Operation == admission.Delete && q.OldObject != nil && q.Kind.Empty() {
		q.Kind = kindOf(q.OldObject)
	}
	if q.Resource.GroupResource() == secrets && (isRedacted(q.Object) || isRedacted(q.OldObject)) {
		q.unjudge(RedactedSecret)
	}
	rec.setStored(q)
	return q
}

var (
	pods       = schema.GroupResource{Resource: "pods"}
	secrets    = schema.GroupResource{Resource: "secrets"}
	namespaces = schema.GroupResource{Resource: "namespaces"}
)

// unjudge records a reason, unless there is one already.
func (q *Request) unjudge(why Reason) {
	if q.Unjudged == "" {
		q.Unjudged = why
	}
}

func decodeUser(data []byte) (user.Info, bool) {
	var info authenticationv1.UserInfo
	if isNull(data) || json.Unmarshal(data, &info) != nil {
		return &user.DefaultInfo{}, false
	}
	return infoOf(&info), true
}

func infoOf(info *authenticationv1.UserInfo) user.Info {
	u := &user.DefaultInfo{Name: info.Username, UID: info.UID, Groups: info.Groups}
	if len(info.Extra) > 0 {
		u.Extra = make(map[string][]string, len(info.Extra))
		for key, values := range info.Extra {
			u.Extra[key] = values
		}
	}
	return u
}

// setOld sets the object before the request.
func (rec *Record) setOld(q *Request) {
	switch {
	case rec.old != nil:
		q.OldObject = rec.old
	case rec.scaleOf != nil:
		if q.OldObject = scaleFrom(rec.scaleOf); q.OldObject == nil {
			q.unjudge(UnknownBase)
		}
	}
}

// setObject sets the object of the request.
func (rec *Record) setObject(q *Request) {
	e := rec.event
	var why Reason
	switch rec.from {
	case fromRequest:
		q.Object, why = objectOfBody(e.request)
	case fromResponse:
		q.Object, q.Stored = e.response, true
		if q.Operation == admission.Update && q.OldObject != nil {
			// A patch leaves the version of the object that it is applied to.
			q.Object = setMetadata(q.Object, member{"resourceVersion", find(q.OldObject, "metadata", "resourceVersion")})
		}
		q.takeOutStored()
	case fromPatch:
		if isNull(e.request) || q.OldObject == nil {
			return
		}
		q.Object, why = applyPatch(q.OldObject, e.request, q.URI)
	case fromURI:
		if q.Object, why = connectOptions(e); why == "" {
			q.Kind = kindOf(q.Object)
		}
	}
	if why != "" {
		q.unjudge(why)
	}
	if q.Object != nil {
		q.Kind = kindOf(q.Object)
	}
}

func objectOfBody(body []byte) ([]byte, Reason) {
	switch {
	case isNull(body):
		return nil, NoBody
	case body[0] != '{':
		return nil, Unparseable
	}
	return body, ""
}

// kindOf returns the kind of an object, or an empty one.
func kindOf(object []byte) schema.GroupVersionKind {
	h := readHead(object)
	return schema.FromAPIVersionAndKind(h.apiVersion, h.kind)
}

// setNames sets what the server sets in names before admission.
// Source: k8s.io/apiserver/pkg/endpoints/handlers/create.go#createHandler 17a7ec0e
// Source: k8s.io/apiserver/pkg/registry/rest/meta.go#WipeObjectMetaSystemFields bfe06d54
// Source: k8s.io/apiserver/pkg/registry/rest/meta.go#EnsureObjectNamespaceMatchesRequestNamespace 2e9f64d2
func (q *Request) setNames() {
	isNamespace := q.Resource.GroupResource() == namespaces
	if q.Verb == "deletecollection" {
		q.Name = ""
	}
	if q.Verb == "create" && isNamespace && q.Namespace == "" {
		q.Namespace = q.Name
	}
	if q.Object == nil || q.Stored || q.Operation == admission.Connect {
		return
	}
	inObject := q.Namespace
	if isNamespace {
		inObject = ""
	}
	var changes []member
	metadata := find(q.Object, "metadata")
	if text(find(metadata, "namespace")) != inObject && (q.Verb == "create" || q.Verb == "update") {
		changes = append(changes, member{"namespace", quoted(inObject)})
	}
	// Bindings keep the UID of the pod that they are for, and requests for tokens that of their account.
	if q.Verb == "create" && q.Subresource != "binding" && q.Subresource != "token" {
		for _, name := range []string{"creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds",
			"selfLink"} {
			if find(metadata, name) != nil {
				changes = append(changes, member{name, nil})
			}
		}
	}
	if len(changes) > 0 {
		q.Object = setMetadata(q.Object, changes...)
	}
	if q.Subresource == "token" && text(find(q.Object, "status", "token")) != "" {
		q.Object = setMembers(q.Object, member{"status", nil}) // only answers have tokens
	}
}

// queryOf returns the query of a request's URI.
func queryOf(uri string) url.Values {
	_, query, _ := strings.Cut(uri, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil
	}
	return values
}
