// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// lineKind says what a line holds.
type lineKind int

const (
	otherLine lineKind = iota
	eventLine
	eventListLine
	reviewLine
)

// event is a record whose members were found, and not decoded.
type event struct {
	source Source
	kind   lineKind
	// problem says why the line is left out. Then the event has nothing else but its time.
	problem string
	// what is the kind of a line that is none of the others.
	what string

	// Of an audit event:
	level, stage, auditID, uri, verb, user, impersonated, userAgent []byte
	objectRef, status, request, response, received, at, annotations []byte
	// Of an event list:
	items []byte
	// Of an AdmissionReview:
	reviewRequest, reviewResponse, details []byte

	// read from objectRef
	group, version, resource, subresource, namespace, name string
	// read from status and annotations
	code             int32
	message          string
	decision         string
	truncated        bool
	outcome          Outcome
	dryRun, isDelete bool
	// stored is the head of the response, once it was looked at.
	stored *head
}

// readEvent finds the members of a line. The line must hold one JSON object.
func readEvent(line []byte, source Source) (*event, error) {
	e := &event{source: source}
	var apiVersion, kind []byte
	err := eachMember(line, func(name, value []byte) error {
		switch string(name) {
		case "kind":
			kind = value
		case "apiVersion":
			apiVersion = value
		case "level":
			e.level = value
		case "auditID":
			e.auditID = value
		case "stage":
			e.stage = value
		case "requestURI":
			e.uri = value
		case "verb":
			e.verb = value
		case "user":
			e.user = value
		case "impersonatedUser":
			e.impersonated = value
		case "userAgent":
			e.userAgent = value
		case "objectRef":
			e.objectRef = value
		case "responseStatus":
			e.status = value
		case "requestObject":
			e.request = value
		case "responseObject":
			e.response = value
		case "requestReceivedTimestamp":
			e.received = value
		case "stageTimestamp":
			e.at = value
		case "annotations":
			e.annotations = value
		case "items":
			e.items = value
		case "request":
			e.reviewRequest = value
		case "response":
			e.reviewResponse = value
		case "recorded":
			e.details = value
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	switch e.kind = kindOfLine(text(apiVersion), text(kind), e); e.kind {
	case reviewLine:
		e.at = find(e.details, "time")
	case otherLine:
		if e.what = "no kind"; !isNull(kind) {
			e.what = fmt.Sprintf("kind %.60s of %.100s", text(kind), cmp.Or(text(apiVersion), "no group"))
		}
	}
	return e, nil
}

// leaveOut drops what an event has, because of a problem with it.
func (e *event) leaveOut(problem string) { *e = event{source: e.source, at: e.at, problem: problem} }

// namespaceProblem says what is wrong with the namespace that an event is in or about; empty if nothing is. No server
// has a namespace whose name isn't a label, and state of that name can't be made.
func (e *event) namespaceProblem() string {
	namespace := e.namespace
	switch {
	case e.kind == reviewLine:
		namespace = text(find(e.reviewRequest, "namespace"))
	case e.group == "" && e.resource == "namespaces":
		namespace = e.name
	}
	if namespace == "" || len(validation.IsDNS1123Label(namespace)) == 0 {
		return ""
	}
	return fmt.Sprintf("there is no namespace %.100q", namespace)
}

// kindOfLine returns what a line is. v1beta1 of both groups has the fields of v1.
func kindOfLine(apiVersion, kind string, e *event) lineKind {
	group, version, _ := strings.Cut(apiVersion, "/")
	known := version == "v1" || version == "v1beta1"
	switch {
	case group == "audit.k8s.io" && known && kind == "Event":
		return eventLine
	case group == "audit.k8s.io" && known && kind == "EventList":
		return eventListLine
	case group == "admission.k8s.io" && known && kind == "AdmissionReview":
		return reviewLine
	case apiVersion == "" && kind == "" && len(e.auditID) > 0 && len(e.stage) > 0:
		return eventLine // an item of a list has no kind
	}
	return otherLine
}

// readTarget reads what an audit event was for and how it ended, without bodies.
func (e *event) readTarget() error {
	if err := members(e.objectRef, func(name, value []byte) error {
		switch string(name) {
		case "apiGroup":
			e.group = text(value)
		case "apiVersion":
			e.version = text(value)
		case "resource":
			e.resource = text(value)
		case "subresource":
			e.subresource = text(value)
		case "namespace":
			e.namespace = text(value)
		case "name":
			e.name = text(value)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := members(e.status, func(name, value []byte) error {
		switch string(name) {
		case "code":
			for _, c := range value {
				if c < '0' || c > '9' || e.code > 1000 {
					return errSyntax
				}
				e.code = e.code*10 + int32(c-'0')
			}
		case "message":
			e.message = text(value)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := members(e.annotations, func(name, value []byte) error {
		switch string(name) {
		case decisionAnnotation:
			e.decision = text(value)
		case truncatedAnnotation:
			e.truncated = text(value) == "true"
		}
		return nil
	}); err != nil {
		return err
	}
	// A body of a deletion is its options, and the query is not looked at then.
	e.isDelete = is(e.verb, "delete") || is(e.verb, "deletecollection")
	if e.isDelete && !isNull(e.request) {
		dry := find(e.request, "dryRun")
		e.dryRun = !isNull(dry) && !bytes.Equal(dry, []byte("[]"))
	} else if bytes.Contains(e.uri, []byte("dryRun")) {
		e.dryRun = len(queryOf(text(e.uri))["dryRun"]) > 0
	}
	return nil
}

// members is eachMember for a member that may be missing.
func members(object []byte, f func(name, value []byte) error) error {
	if isNull(object) {
		return nil
	}
	return eachMember(object, f)
}

// is reports whether a JSON value is a string without escapes.
func is(value []byte, s string) bool {
	return len(value) == len(s)+2 && string(value[1:len(value)-1]) == s
}

// connections are the subresources that are connected to, by resource.
// Source: k8s.io/kubernetes/pkg/registry/core/rest/storage_core.go#legacyProvider.NewRESTStorage 708bf2e3
var connections = map[string]string{
	"pods/exec": "PodExecOptions", "pods/attach": "PodAttachOptions", "pods/portforward": "PodPortForwardOptions",
	"pods/proxy": "PodProxyOptions", "services/proxy": "ServiceProxyOptions", "nodes/proxy": "NodeProxyOptions",
}

// connects reports whether the event is for a connection, with whatever verb.
func (e *event) connects() bool {
	return e.subresource != "" && e.group == "" && connections[e.resource+"/"+e.subresource] != ""
}

// isWrite reports whether the event's verb is one that admission is asked about.
func (e *event) isWrite() bool {
	switch text(e.verb) {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return e.connects()
}

// key returns the name of the object that the event is for.
func (e *event) key() objectKey {
	k := objectKey{group: e.group, resource: e.resource, namespace: e.namespace, name: e.name}
	if k.resource == "namespaces" && k.group == "" {
		k.namespace = ""
	}
	return k
}

// sharesObject reports whether a request for the event's subresource reads and writes the whole
// object.
func (e *event) sharesObject() bool {
	switch e.subresource {
	case "", "status", "ephemeralcontainers", "resize", "approval", "finalize":
		return true
	}
	return false
}
