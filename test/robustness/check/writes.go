// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// checkWrites compares the answers about objects of Registers and Quotas with etcd's history: what was
// acknowledged is stored, what was refused isn't, and what was read was there.
func (h *History) checkWrites(s *store, r *Report) {
	for i := range h.Operations {
		o := &h.Operations[i]
		switch {
		case o.isUnknown():
		case o.Namespace == Quotas:
			o.checkCounted(s, r)
		case o.Namespace == Registers && o.Resource == "configmaps":
			o.checkRegister(s, r)
		}
	}
}

// checkRegister checks an answer about an object of Registers.
func (o *Operation) checkRegister(s *store, r *Report) {
	key := registerKey(o.Name)
	switch {
	case o.wasRefused():
		if o.Value == "" {
			return
		}
		r.count("refused writes")
		if revision := s.values[o.Value]; revision != 0 {
			r.fail("writes", "%s %s %s got %d and is stored, at revision %d", o.ID, o.Verb, o.Name, o.Code, revision)
		}
	case o.Verb == "delete":
		r.count("acknowledged deletes")
		if !slices.ContainsFunc(s.versions[key], func(v version) bool { return v.object == nil }) {
			r.fail("writes", "%s delete %s was acknowledged, and etcd has no such deletion", o.ID, o.Name)
		}
	case o.Object != nil:
		if o.Value != "" {
			r.count("acknowledged writes")
			if o.Object.Value != o.Value {
				r.fail("writes", "%s %s %s wrote %s and was answered %s", o.ID, o.Verb, o.Name, o.Value, o.Object.Value)
			}
		}
		stored, ok := s.changed(key, o.Object.Revision)
		if !ok || stored.object == nil || stored.value != o.Object.Value {
			r.fail("writes", "%s %s %s was answered %s at revision %d; etcd has %q there", o.ID, o.Verb, o.Name,
				o.Object.Value, o.Object.Revision, stored.value)
		}
	}
}

// checkCounted checks an answer about an object of Quotas. Objects that clients create have names of their
// own: nobody creates another object of that name, before or later.
func (o *Operation) checkCounted(s *store, r *Report) {
	key := keyPrefix + o.Resource + "/" + Quotas + "/" + o.Name
	versions := s.versions[key]
	switch {
	case o.wasRefused():
		if o.Verb != "create" {
			return
		}
		r.count("refused writes with a quota")
		if len(versions) > 0 {
			r.fail("writes", "%s create %s got %d and is stored, at revision %d", o.ID, key, o.Code, versions[0].revision)
		}
	case o.Verb == "delete":
		r.count("acknowledged deletes with a quota")
		if !slices.ContainsFunc(versions, o.hasDeleted) {
			r.fail("writes", "%s delete %s was acknowledged, and etcd has no such deletion", o.ID, key)
		}
	case o.Object != nil:
		r.count("acknowledged writes with a quota")
		if stored, ok := s.changed(key, o.Object.Revision); !ok || stored.object == nil {
			r.fail("writes", "%s %s %s was acknowledged at revision %d, and etcd has no such write", o.ID, o.Verb, key,
				o.Object.Revision)
		}
	}
}

// hasDeleted reports whether a version may be what a delete made of its object. A pod that was given time
// is stored until it ends.
func (o *Operation) hasDeleted(v version) bool {
	pod, isPod := v.object.(*corev1.Pod)
	return v.object == nil || isPod && o.Grace > 0 && pod.DeletionTimestamp != nil
}

// checkLists checks that each list of Registers is what was stored at its revision. A list must know
// every write that was acknowledged before the request, unless it allowed any revision.
func (h *History) checkLists(s *store, r *Report) {
	type acknowledgement struct{ at, revision int64 }
	var acknowledged []acknowledgement
	for i := range h.Operations {
		if o := &h.Operations[i]; o.Object != nil && o.Code != 0 {
			acknowledged = append(acknowledged, acknowledgement{o.End, o.Object.Revision})
		}
	}
	slices.SortFunc(acknowledged, func(a, b acknowledgement) int { return int(a.at - b.at) })
	latest, next := int64(0), 0
	for i := range h.Operations { // in the order of Start
		o := &h.Operations[i]
		for ; next < len(acknowledged) && acknowledged[next].at < o.Start; next++ {
			latest = max(latest, acknowledged[next].revision)
		}
		if o.List == nil || o.Code != http.StatusOK {
			continue
		}
		r.count("lists")
		if !o.MayBeOld && o.List.Revision < latest {
			r.fail("lists", "%s is of revision %d, and %d was acknowledged before", o.ID, o.List.Revision, latest)
		}
		got := map[string]Object{}
		for _, object := range o.List.Objects {
			got[object.Name] = object
		}
		if len(got) != len(o.List.Objects) {
			r.fail("lists", "%s has an object twice", o.ID)
		}
		there := 0
		for _, name := range s.names {
			stored := s.at(registerKey(name), o.List.Revision)
			if stored.object == nil {
				continue
			}
			there++
			if object, ok := got[name]; !ok || object.Revision != stored.revision || object.Value != stored.value {
				r.fail("lists", "%s, of revision %d, has %+v as %s; stored was %s at revision %d", o.ID, o.List.Revision,
					object, name, stored.value, stored.revision)
			}
		}
		if there != len(got) {
			r.fail("lists", "%s, of revision %d, has %d objects; stored were %d", o.ID, o.List.Revision, len(got), there)
		}
	}
}
