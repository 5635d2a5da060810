// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// logDelay bounds how long after its answer a decision is in the log. What a killed server answered
// within that time before its end may have no decision.
const logDelay = 2 * time.Second

// checkDecisions checks that each write that was answered has exactly one decision, by the server
// that answered it, with the answer's status, and that no request has two. The deletion of a collection has one for each
// object.
func (h *History) checkDecisions(r *Report) {
	type found struct {
		server string
		skew   int64
		Decision
	}
	byID := map[string][]found{}
	for _, life := range h.Lives {
		for _, d := range h.Decisions[life.Decisions] {
			r.count("decisions")
			byID[d.ID] = append(byID[d.ID], found{life.Server, life.Skew, d})
		}
	}
	for id, all := range byID {
		objects := map[string]bool{}
		for _, d := range all {
			if objects[d.Request] || len(objects) > 0 && !strings.HasPrefix(d.Request, "DELETE ") {
				r.fail("decisions", "%s has %d decisions, by %s and %s", id, len(all), all[0].server, d.server)
				break
			}
			objects[d.Request] = true
		}
	}
	deleted := map[string]bool{} // namespaces; to delete one again changes nothing, and no plugin is asked
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Verb == "get" || o.Verb == "list" {
			continue
		}
		all := byID[o.ID]
		switch {
		case len(all) == 0 && (!o.wasDecided() || h.isAboutToEnd(o) || deleted[o.Name]):
		case len(all) == 0:
			r.fail("decisions", "%s %s %s was answered %d by %s and has no decision", o.ID, o.Verb, o.Name, o.Code, o.Server)
		case all[0].server != o.Server:
			r.fail("decisions", "%s %s %s was sent to %s and decided by %s", o.ID, o.Verb, o.Name, o.Server, all[0].server)
		case o.wasDecided() && all[0].Code != o.Code:
			r.fail("decisions", "%s %s %s was answered %d; the decision says %d", o.ID, o.Verb, o.Name, o.Code, all[0].Code)
		case o.wasDecided():
			r.count("decided requests")
			o.checkClock(r, all[0].Time, all[0].skew)
		}
		if o.Resource == "namespaces" && o.Verb == "delete" {
			deleted[o.Name] = true
		}
	}
}

// checkClock checks that the server's clock was ahead by as much as is recorded. Otherwise checks that
// compare times prove nothing.
func (o *Operation) checkClock(r *Report, decided, skew int64) {
	if skew != 0 {
		r.count("requests decided by a wrong clock")
	}
	at, tolerance := decided-skew, clockError.Nanoseconds()
	if at < o.Start-tolerance || at > o.End+tolerance {
		r.fail("clocks", "%s was decided at %s by the clock of %s, which is %s ahead, and was sent at %s", o.ID,
			time.Unix(0, decided).UTC(), o.Server, time.Duration(skew), time.Unix(0, o.Start).UTC())
	}
}

// wasDecided reports whether the answer says that the server has decided about the request. A server
// that ends or is overloaded refuses requests before that.
func (o *Operation) wasDecided() bool {
	switch o.Code {
	case 0, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusUnauthorized:
		return false
	}
	return true
}

// isAboutToEnd reports whether the server was killed soon after its answer.
func (h *History) isAboutToEnd(o *Operation) bool {
	return slices.ContainsFunc(h.Lives, func(l Life) bool {
		return l.Server == o.Server && l.Killed && l.End > o.Start && l.End < o.End+logDelay.Nanoseconds()
	})
}
