// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"net/http"
	"strconv"
	"strings"

	"k8s.io/apiserver/pkg/admission"
)

// sequence makes the records of an event, and remembers the object that the event shows. Events come
// here in order.
func (r *Reader) sequence(e *event) {
	if e.kind == reviewLine {
		r.ready = append(r.ready, &Record{event: e})
		return
	}
	rec := &Record{event: e}
	switch {
	case e.problem != "":
		r.ready = append(r.ready, rec)
		return
	case is(e.stage, "Panic"):
		r.states.forget(e.key())
		return
	case e.connects():
		rec.operation, rec.from = admission.Connect, fromURI
		r.ready = append(r.ready, rec)
		return
	case is(e.verb, "deletecollection"):
		r.sequenceCollection(e)
		return
	}
	switch text(e.verb) {
	case "create":
		rec.operation, rec.from = admission.Create, fromRequest
		r.rememberCreated(rec)
	case "delete":
		rec.operation = admission.Delete
		r.sequenceDelete(rec)
	default: // update and patch
		rec.operation = admission.Update
		if e.subresource == "scale" {
			r.sequenceScale(rec)
		} else {
			r.sequenceUpdate(rec)
		}
		rec.setOrigin()
	}
	rec.unjudged = rec.reason()
	r.ready = append(r.ready, rec)
}

// reason returns why the record can't be judged, as far as it can be said without decoding.
func (rec *Record) reason() Reason {
	e := rec.event
	switch {
	case is(e.level, "Metadata"):
		return MetadataLevel
	case e.truncated:
		return Truncated
	case rec.unjudged != "":
		return rec.unjudged
	case rec.from == fromRequest && isNull(e.request), rec.from == fromPatch && isNull(e.request):
		return NoBody
	case rec.operation != admission.Create && rec.old == nil && rec.scaleOf == nil:
		return UnknownBase
	}
	return ""
}

// setOrigin says where an update's or a patch's object comes from.
func (rec *Record) setOrigin() {
	e := rec.event
	if e.outcome == Admitted && e.code == http.StatusCreated {
		rec.operation, rec.old, rec.scaleOf = admission.Create, nil, nil
	}
	switch {
	case is(e.verb, "update"):
		rec.from = fromRequest
	case e.outcome == Admitted && e.showsObject():
		rec.from = fromResponse
	case rec.operation == admission.Create && e.partial():
		rec.unjudged = PartialResponse
	case rec.operation == admission.Create:
		rec.unjudged = NoResponse
	default:
		rec.from = fromPatch
	}
}

// apiVersion returns the version of the request's resource.
func (e *event) apiVersion() string {
	if e.group == "" {
		return e.version
	}
	return e.group + "/" + e.version
}

// showsObject reports whether the response is an object and neither a Status nor a part of one.
func (e *event) showsObject() bool {
	h := e.responseHead()
	return h.kind != "" && (h.kind != "Status" || h.apiVersion != "v1") && !e.partial()
}

// partial reports whether the response is a table, or metadata alone.
func (e *event) partial() bool { return strings.HasPrefix(e.responseHead().apiVersion, "meta.k8s.io/") }

// maybeStores reports whether the event's request may have changed what is stored. A request may have
// done so though it failed in the server, for example because its time was up.
func (e *event) maybeStores() bool {
	failed := e.outcome == NoNews && e.code >= http.StatusInternalServerError
	return !e.dryRun && (e.outcome == Admitted || e.outcome == Unknown || failed)
}

// remember keeps the object in the response, or forgets the one that was known.
func (r *Reader) remember(key objectKey, e *event, known *base) {
	h := e.responseHead()
	switch {
	case !e.maybeStores():
	case e.outcome != Admitted || !e.showsObject():
		r.states.forget(key)
	case known != nil && known.head.uid == h.uid && known.head.resourceVersion > h.resourceVersion:
		// The event came late: what is known is newer.
	default:
		r.states.put(key, e.response, *h)
	}
}

// rememberCreated keeps a new object, or forgets the object that a subresource changes.
func (r *Reader) rememberCreated(rec *Record) {
	e := rec.event
	if !e.maybeStores() {
		return
	}
	key := e.key()
	switch {
	case e.subresource == "token":
		return
	case e.resource == "bindings" && e.group == "":
		key.resource = "pods"
		r.states.forget(key)
		return
	case e.subresource != "":
		if known := r.states.get(key); known != nil && e.subresource == "eviction" {
			rec.evicted = known.raw
		}
		r.states.forget(key)
		return
	}
	if h := e.responseHead(); e.showsObject() {
		key.name = h.name
	}
	if key.name != "" {
		r.remember(key, e, nil)
	}
}

func (r *Reader) sequenceUpdate(rec *Record) {
	e := rec.event
	key := e.key()
	if !e.sharesObject() { // of an API that is not Kubernetes' own
		if e.maybeStores() {
			r.states.forget(key)
		}
		return
	}
	known := r.states.get(key)
	if e.isBase(known) && known.head.apiVersion == e.apiVersion() {
		rec.old = known.raw
	}
	r.remember(key, e, known)
}

// isBase reports whether an object that is known is certainly not another than the one that the
// update was made to, as far as the event shows.
func (e *event) isBase(known *base) bool {
	if known == nil {
		return false
	}
	if is(e.verb, "update") {
		sent := readHead(e.request)
		if sent.resourceVersion != 0 && known.head.resourceVersion != 0 &&
			sent.resourceVersion != known.head.resourceVersion || sent.uid != "" && sent.uid != known.head.uid {
			return false
		}
	}
	if e.outcome != Admitted {
		return true
	}
	if !e.showsObject() {
		uid := text(find(e.response, "details", "uid")) // a Status has it that answers a deletion
		return uid == "" || known.head.uid == "" || uid == known.head.uid
	}
	h := e.responseHead()
	if known.before && h.resourceVersion == known.head.resourceVersion && !e.dryRun {
		return false // it is the result, and not the base: the state is of a later time
	}
	grown := h.generation - known.head.generation
	return h.uid == known.head.uid && h.resourceVersion >= known.head.resourceVersion &&
		(h.kind == "Scale" || grown == 0 || grown == 1)
}

func (r *Reader) sequenceDelete(rec *Record) {
	e := rec.event
	key := e.key()
	known := r.states.get(key)
	h := e.responseHead()
	switch {
	case e.outcome == Admitted && e.showsObject() && !h.deleting && h.apiVersion == e.apiVersion():
		// The object was removed at once: the response is how it was, but for its version.
		var version []byte
		if known != nil && known.head.uid == h.uid {
			version = find(known.raw, "metadata", "resourceVersion")
		}
		rec.old = setMetadata(e.response, member{"resourceVersion", version})
	case e.isBase(known) && known.head.apiVersion == e.apiVersion():
		rec.old = known.raw
	}
	if !e.maybeStores() {
		return
	}
	if e.showsObject() && h.deleting {
		r.remember(key, e, known)
	} else {
		r.states.forget(key)
	}
}

// sequenceCollection makes a record for each item of a collection's deletion. The answer has the
// items as they were before.
func (r *Reader) sequenceCollection(e *event) {
	rec := &Record{event: e, operation: admission.Delete}
	h := e.responseHead()
	kind, isList := strings.CutSuffix(h.kind, "List")
	switch {
	case isList && !e.partial() && e.outcome == Admitted:
		// An empty list is no question to admission.
	case e.partial():
		rec.unjudged = PartialResponse
	case isNull(e.response) && e.outcome == Admitted:
		rec.unjudged = NoResponse
	default:
		rec.unjudged = UnknownItems
	}
	if rec.unjudged != "" {
		rec.unjudged = rec.reason()
		r.ready = append(r.ready, rec)
		if e.maybeStores() {
			r.states.forgetAll(e.key())
		}
		return
	}
	items := find(e.response, "items")
	if isNull(items) {
		return
	}
	_ = eachElement(items, func(item []byte) error { // its syntax was checked with the line
		one := &Record{event: e, operation: admission.Delete,
			old: setMembers(item, member{"apiVersion", quoted(h.apiVersion)}, member{"kind", quoted(kind)})}
		if one.old == nil {
			one.unjudged = Unparseable
		} else if e.maybeStores() {
			key, head := e.key(), readHead(item)
			key.namespace, key.name = head.namespace, head.name
			r.states.forget(key)
		}
		r.ready = append(r.ready, one)
		return nil
	})
}

// scales are Kubernetes' own resources with a subresource scale.
func hasScale(group, resource string) bool {
	switch resource {
	case "deployments", "replicasets", "statefulsets":
		return group == "apps"
	case "replicationcontrollers":
		return group == ""
	}
	return false
}

// sequenceScale finds the Scale before an update of one. It is made of the object, or if the object
// isn't known, or is of a custom kind, it is the Scale that was seen last.
func (r *Reader) sequenceScale(rec *Record) {
	e := rec.event
	key := e.key()
	ownKey := key
	ownKey.subresource = "scale"
	whole := r.states.get(key)
	builtIn := hasScale(e.group, e.resource)
	if builtIn && e.isBase(whole) {
		rec.scaleOf = whole.raw
	} else if own := r.states.get(ownKey); e.isBase(own) {
		rec.old = own.raw
	}
	if !e.maybeStores() {
		return
	}
	if builtIn && rec.scaleOf != nil && e.showsObject() && e.outcome == Admitted {
		if scaled := scaledObject(whole, e.response); scaled != nil {
			r.states.put(key, scaled, readHead(scaled))
			return
		}
	}
	r.states.forget(key)
	if e.showsObject() && e.outcome == Admitted {
		r.states.put(ownKey, e.response, *e.responseHead())
	}
}

// scaledObject returns an object with the number of replicas and the version of a Scale that was
// stored. Its managed fields stay as they were.
func scaledObject(of *base, scale []byte) []byte {
	replicas := find(scale, "spec", "replicas")
	if replicas == nil {
		replicas = []byte("0")
	}
	spec := find(of.raw, "spec")
	changes := []member{{"resourceVersion", find(scale, "metadata", "resourceVersion")}}
	if string(find(spec, "replicas")) != string(replicas) && of.head.generation != 0 {
		changes = append(changes, member{"generation", strconv.AppendInt(nil, of.head.generation+1, 10)})
	}
	if spec == nil || changes[0].value == nil {
		return nil
	}
	return setMembers(setMetadata(of.raw, changes...), member{"spec", setMembers(spec, member{"replicas", replicas})})
}
