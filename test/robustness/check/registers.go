// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"math"
	"net/http"
	"time"

	"github.com/anishathalye/porcupine"
)

// registerTimeout bounds the search for an order of one object's operations.
const registerTimeout = time.Minute

// register is the state of a ConfigMap. An empty value is that of an object that isn't there.
type register struct {
	isThere bool
	value   string
}

// isUnknown reports whether a request may or may not have had an effect.
func (o *Operation) isUnknown() bool {
	return o.Code != http.StatusOK && o.Code != http.StatusCreated && !o.wasRefused()
}

// wasRefused reports whether the answer says that the request had no effect.
func (o *Operation) wasRefused() bool {
	return o.Code >= http.StatusBadRequest && o.Code < http.StatusInternalServerError &&
		o.Code != http.StatusRequestTimeout && o.Code != http.StatusTooManyRequests
}

// checkRegisters checks that the operations on each object of Registers are linearizable: they have
// an order that explains all answers, and in which an operation that ended before another began
// comes first.
func (h *History) checkRegisters(s *store, r *Report) {
	byName := map[string][]porcupine.Operation{}
	for i := range h.Operations {
		o := &h.Operations[i]
		if o.Resource != "configmaps" || o.Namespace != Registers {
			continue
		}
		for _, read := range o.reads() {
			byName[read.Name] = append(byName[read.Name], porcupine.Operation{Input: &read, Call: o.Start, Return: o.End})
		}
		if o.Verb == "list" || o.Verb == "get" && o.isUnknown() || o.Verb == "patch" && o.Code == http.StatusConflict {
			continue
		}
		end := o.End
		if o.isUnknown() {
			r.count("unknown outcomes")
			if !o.mayHaveHappened(s) {
				continue
			}
			end = math.MaxInt64
		}
		r.count(o.Verb + " requests on registers")
		byName[o.Name] = append(byName[o.Name], porcupine.Operation{Input: o, Call: o.Start, Return: end})
	}
	for name, operations := range byName {
		r.count("registers")
		switch porcupine.CheckOperationsTimeout(registerModel(s), operations, registerTimeout) {
		case porcupine.Illegal:
			r.fail("linearizability", "the %d operations on %s have no order", len(operations), name)
		case porcupine.Unknown:
			r.fail("linearizability", "the order of the %d operations on %s wasn't found in %s", len(operations), name,
				registerTimeout)
		}
	}
}

// mayHaveHappened reports whether the effect of a request without an answer is in etcd's history.
func (o *Operation) mayHaveHappened(s *store) bool {
	if o.Verb != "delete" {
		return s.values[o.Value] != 0
	}
	var before version
	for _, v := range s.versions[registerKey(o.Name)] {
		if v.object == nil && (o.Expected == "" || before.value == o.Expected) {
			return true
		}
		before = v
	}
	return false
}

// reads returns a list's reads of single objects: those that it has.
func (o *Operation) reads() (reads []Operation) {
	if o.List == nil || o.MayBeOld || o.Code != http.StatusOK {
		return nil
	}
	for i := range o.List.Objects {
		object := &o.List.Objects[i]
		if object.Value == "" {
			continue // not a client's
		}
		reads = append(reads, Operation{Verb: "get", Name: object.Name, Code: http.StatusOK, Object: object})
	}
	return reads
}

func registerModel(s *store) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return register{} },
		Step: func(state, input, _ any) (bool, any) { return state.(register).step(input.(*Operation), s) },
	}
}

// step reports whether the answer to an operation is right for the state, and returns the next state.
func (now register) step(o *Operation, s *store) (bool, register) {
	written := register{true, o.Value}
	switch {
	case o.isUnknown() && o.Verb == "delete":
		if o.Expected == "" || now.value == o.Expected {
			return true, register{}
		}
		return true, now
	case o.isUnknown(): // its value was stored
		return now.isThere != (o.Verb == "create") && (o.Expected == "" || now.value == o.Expected), written
	case o.Code == http.StatusNotFound:
		return !now.isThere, now
	case o.Code == http.StatusConflict && o.Verb == "create":
		return now.isThere, now
	case o.Code == http.StatusConflict:
		return now.isThere && now.value != o.Expected, now
	case o.wasRefused(): // for a reason that isn't the object
		return true, now
	case o.Verb == "get":
		return now == register{true, o.Object.Value}, now
	case o.Verb == "create":
		return !now.isThere, written
	case o.Verb == "delete":
		return now.isThere && (o.Expected == "" || now.value == o.Expected), register{}
	}
	return now.isThere && (o.Expected == "" || now.value == o.Expected), written
}
