// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const second = int64(time.Second)

// stored returns the event that stores an object.
func stored(key string, object any) Event {
	value, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return Event{Key: keyPrefix + key, Value: value}
}

func configMap(namespace, name, value string) Event {
	return stored("configmaps/"+namespace+"/"+name, &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"value": value}})
}

func quotaOf(used, hard string) Event {
	amount := func(text string) corev1.ResourceList {
		return corev1.ResourceList{"configmaps": resource.MustParse(text)}
	}
	return stored("resourcequotas/"+Quotas+"/all", &corev1.ResourceQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"},
		ObjectMeta: metav1.ObjectMeta{Namespace: Quotas, Name: "all"},
		Spec:       corev1.ResourceQuotaSpec{Hard: amount(hard)},
		Status:     corev1.ResourceQuotaStatus{Hard: amount(hard), Used: amount(used)}})
}

func lease(holder string, acquired, renewed int64) Event {
	duration := int32(15)
	return stored(strings.TrimPrefix(leaseKey, keyPrefix), &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &duration,
			AcquireTime: &metav1.MicroTime{Time: time.Unix(acquired, 0)},
			RenewTime:   &metav1.MicroTime{Time: time.Unix(renewed, 0)}}})
}

// operation returns a request to the first server about the ConfigMap a, in the seconds from start to
// start+1.
func operation(id, verb string, start int64, code int, object *Object) Operation {
	o := Operation{ID: id, Server: "one", Verb: verb, Resource: "configmaps", Namespace: Registers, Name: "a",
		Start: start * second, End: (start + 1) * second, Code: code, Object: object}
	if verb == "create" || verb == "update" || verb == "patch" {
		o.Value = id
	}
	return o
}

func decision(id string, code int, at int64, user string) Decision {
	return Decision{ID: id, Code: code, Time: at * second, User: user}
}

// right returns a history without a violation. The clock of the second server is 20 seconds ahead.
func right() *History {
	h := &History{}
	for i, events := range [][]Event{
		{configMap(Registers, "a", "w1")},
		{configMap(Registers, "a", "w2")},
		{{Key: registerKey("a"), Deleted: true}},
		{configMap(Registers, "a", "w4")},
		{configMap(Registers, "b", "w6")}, // its answer was lost
		{quotaOf("0", "1")},
		{quotaOf("1", "1"), configMap(Quotas, "x", "")},
		{quotaOf("1", "0")},
		{quotaOf("0", "0"), {Key: keyPrefix + "configmaps/" + Quotas + "/x", Deleted: true}},
		{lease("first", 10, 10)},
		{lease("first", 10, 12)},
		{lease("second", 47, 47)}, // at 27
		{lease("", 49, 49)},
		{lease("third", 30, 30)},
	} {
		h.Revisions = append(h.Revisions, Revision{Revision: int64(i + 1), Events: events})
	}
	for i, seen := range []int64{10, 12, 27, 29, 30} {
		h.Revisions[9+i].Seen = seen * second
	}
	object := func(revision int64, value string, generation int64) *Object {
		return &Object{Name: "a", Revision: revision, Value: value, Policy: generation, Webhook: generation}
	}
	w2 := operation("w2", "update", 2, 200, object(2, "w2", 1))
	w2.Expected = "w1"
	w5 := operation("w5", "update", 10, 409, nil)
	w5.Expected = "w2"
	w6 := operation("w6", "create", 12, 0, nil)
	w6.Name = "b"
	w9 := operation("w9", "update", 13, 422, nil)
	w7 := operation("w7", "patch", 14, 0, nil) // didn't happen
	q1 := operation("q1", "create", 20, 201, &Object{Name: "x", Revision: 7})
	q1.Namespace, q1.Name, q1.Value = Quotas, "x", ""
	q2 := operation("q2", "create", 22, 403, nil)
	q2.Namespace, q2.Name, q2.Value, q2.Message = Quotas, "y", "", "exceeded quota"
	q3 := operation("q3", "delete", 24, 200, nil)
	q3.Namespace, q3.Name = Quotas, "x"
	list := operation("l1", "list", 16, 200, nil)
	list.Name, list.List = "", &List{Revision: 8, Objects: []Object{*object(4, "w4", 2), {Name: "b", Revision: 5, Value: "w6"}}}
	old := operation("l2", "list", 18, 200, nil)
	old.Name, old.MayBeOld, old.List = "", true, &List{Revision: 1, Objects: []Object{*object(1, "w1", 1)}}
	h.Operations = []Operation{operation("w1", "create", 0, 201, object(1, "w1", 1)), w2,
		operation("g1", "get", 4, 200, object(2, "w2", 1)), operation("w3", "delete", 6, 200, nil),
		operation("g2", "get", 7, 404, nil), operation("w4", "create", 8, 201, object(4, "w4", 2)), w5, w6, w9, w7, list, old,
		q1, q2, q3}
	h.Watches = []Watch{
		{Client: "watcher", Code: 200, From: 1, Events: []WatchEvent{{"MODIFIED", "a", 2, "w2"}, {"DELETED", "a", 3, "w2"}}},
		{Client: "watcher", Code: 200, From: 3, Events: []WatchEvent{{"ADDED", "a", 4, "w4"}, {"ADDED", "b", 5, "w6"},
			{"BOOKMARK", "", 9, ""}}},
	}
	h.Lives = []Life{{Server: "one", End: 100 * second, Exit: cleanExit, Decisions: "one", Log: "one.log"},
		{Server: "two", End: 100 * second, Exit: cleanExit, Decisions: "two", Log: "two.log", Skew: 20 * second}}
	h.Logs = map[string]Log{"one.log": {WasReady: true}, "two.log": {WasReady: true}}
	h.Decisions = map[string][]Decision{
		"one": {decision("q1", 201, 0, ""), decision("q2", 403, 0, ""), decision("w1", 201, 0, ""), decision("w2", 200, 0, ""), decision("w3", 200, 0, ""), decision("w4", 201, 0, ""),
			decision("w5", 409, 0, ""), decision("c1", 200, 11, accounts+"namespace-controller"),
			decision("c4", 200, 31, accounts+"namespace-controller"), decision("q3", 200, 0, ""), decision("w9", 422, 0, "")},
		"two": {decision("c2", 200, 48, accounts+"namespace-controller"), decision("c3", 200, 49, accounts+"namespace-controller"),
			ofCollection("a"), ofCollection("b")},
	}
	for i, d := range h.Decisions["one"] {
		if o := h.find(d.ID); o != nil {
			h.Decisions["one"][i].Time = o.Start
		}
	}
	h.Faults = []Fault{{Kind: "rain"}}
	return h
}

// ofCollection returns the decision about an object that is deleted with its collection.
func ofCollection(name string) Decision {
	d := decision("all", 200, 50, accounts+"namespace-controller")
	d.Request = "DELETE configmaps shop/" + name
	return d
}

// find returns the operation with an ID, or nil.
func (h *History) find(id string) *Operation {
	i := slices.IndexFunc(h.Operations, func(o Operation) bool { return o.ID == id })
	if i < 0 {
		return nil
	}
	return &h.Operations[i]
}

func TestRight(t *testing.T) {
	r := right().Check()
	if !r.OK() {
		t.Error(r)
	}
	r.Require(map[string]int{"registers": 2, "create requests on registers": 3, "unknown outcomes": 2, "acknowledged writes": 3,
		"acknowledged deletes": 1, "lists": 2, "watches": 2, "resumed watches": 1, "watch events": 4, "bookmarks": 1,
		"revisions": 14, "revisions with quotas": 4, "writes with a policy": 3, "policy generations seen by a server": 2,
		"webhook generations seen by a server": 2, "decisions": 15, "decided requests": 9, "refusals by quota": 1, "acknowledged writes with a quota": 1,
		"acknowledged deletes with a quota": 1, "refused writes": 2, "refused writes with a quota": 1, "leader's terms": 3,
		"lease renewals": 5, "controllers' writes": 4, "lives of servers": 2, "faults": 1, "fault rain": 1})
	if !r.OK() {
		t.Error(r)
	}
}

// Each check finds the histories that it exists for.
func TestWrong(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(h *History)
		check string
	}{
		"a revision isn't recorded":        {func(h *History) { h.Revisions = slices.Delete(h.Revisions, 5, 6) }, "revisions"},
		"an acknowledged write is lost":    {func(h *History) { h.Revisions[1].Events = nil }, "writes"},
		"an acknowledged deletion is lost": {func(h *History) { h.Revisions[2].Events = nil }, "writes"},
		"a write is stored twice":          {func(h *History) { h.Revisions[4].Events[0] = configMap(Registers, "a", "w4") }, "writes"},
		"a refused write is stored":        {func(h *History) { h.Revisions[4].Events[0] = configMap(Registers, "b", "w5") }, "writes"},
		"an invalid write is stored":       {func(h *History) { h.find("w6").Code = 422 }, "writes"},
		"a forbidden write is stored":      {func(h *History) { h.find("w6").Code = 403 }, "writes"},
		"the answer has another revision":  {func(h *History) { h.find("w4").Object.Revision = 3 }, "writes"},
		"the answer has another value":     {func(h *History) { h.find("w4").Object.Value = "w2" }, "writes"},

		"a read is stale":      {func(h *History) { h.find("g1").Object = h.find("w1").Object }, "linearizability"},
		"a read misses":        {func(h *History) { h.find("g2").Start, h.find("g2").End = 10*second, 11*second }, "linearizability"},
		"an update was late":   {func(h *History) { h.find("w2").Expected = "w0" }, "linearizability"},
		"a conflict is untrue": {func(h *History) { h.find("w5").Expected = "w4" }, "linearizability"},
		"a create is untrue":   {func(h *History) { h.find("w4").Start, h.find("w4").End = 4*second, 5*second }, "linearizability"},
		"a list is stale": {func(h *History) {
			h.find("l1").List = &List{Revision: 2, Objects: []Object{*h.find("w2").Object}}
		}, "linearizability"},

		"a list is of an old revision": {func(h *History) { h.find("l1").List.Revision = 2 }, "lists"},
		"a list lacks an object":       {func(h *History) { h.find("l1").List.Objects = h.find("l1").List.Objects[:1] }, "lists"},
		"a list has too many objects": {func(h *History) {
			h.find("l2").List.Objects = append(h.find("l2").List.Objects, Object{Name: "b"})
		}, "lists"},
		"a list has an object twice": {func(h *History) {
			h.find("l2").List.Objects = append(h.find("l2").List.Objects, h.find("l2").List.Objects...)
		}, "lists"},

		"watch events are in another order": {func(h *History) {
			events := h.Watches[1].Events
			events[0], events[1] = events[1], events[0]
		}, "watches"},
		"a watch event comes twice": {func(h *History) {
			h.Watches[0].Events = slices.Insert(h.Watches[0].Events, 0, h.Watches[0].Events[0])
		}, "watches"},
		"a watch event is missing": {func(h *History) { h.Watches[1].Events = h.Watches[1].Events[1:] }, "watches"},
		"a bookmark comes before an event": {func(h *History) {
			h.Watches[1].Events = slices.Delete(h.Watches[1].Events, 1, 2)
		}, "watches"},
		"a bookmark is older than an event": {func(h *History) { h.Watches[1].Events[2].Revision = 4 }, "watches"},
		"a resumed watch lacks an event":    {func(h *History) { h.Watches[1].From = 2 }, "watches"},
		"a watch event has another value":   {func(h *History) { h.Watches[0].Events[0].Value = "w1" }, "watches"},
		"a watch event has another type":    {func(h *History) { h.Watches[1].Events[0].Type = "MODIFIED" }, "watches"},
		"a watch event is nobody's":         {func(h *History) { h.Watches[1].Events[2] = WatchEvent{"ADDED", "c", 9, ""} }, "watches"},

		"a quota shows one too few":  {func(h *History) { h.Revisions[6].Events[0] = quotaOf("0", "1") }, "quotas"},
		"a quota shows one too many": {func(h *History) { h.Revisions[8].Events[0] = quotaOf("1", "0") }, "quotas"},
		"a charge has no object":     {func(h *History) { h.Revisions[6].Events = h.Revisions[6].Events[:1] }, "quotas"},
		"a quota is exceeded": {func(h *History) {
			h.Revisions[5].Events[0], h.Revisions[6].Events[0] = quotaOf("0", "0"), quotaOf("1", "0")
		}, "quotas"},

		"a counted write is lost":               {func(h *History) { h.Revisions[6].Events = nil }, "writes"},
		"a counted deletion is lost":            {func(h *History) { h.Revisions[8].Events = nil }, "writes"},
		"a refused counted write is stored":     {func(h *History) { h.find("q2").Name = "x" }, "writes"},
		"a counted write got 409 and is stored": {func(h *History) { h.find("q2").Name, h.find("q2").Code = "x", 409 }, "writes"},
		"a refusal with room": {func(h *History) {
			h.Revisions[6].Events[0], h.Revisions[7].Events[0] = quotaOf("1", "2"), quotaOf("1", "2")
			h.Revisions[8].Events[0], h.Revisions[9].Seen = quotaOf("0", "2"), 23*second
		}, "refusals"},
		"a refusal before the quota was full": {func(h *History) {
			h.Operations = append(h.Operations, operation("w8", "patch", 24, 200, &Object{Name: "a", Revision: 6, Value: "w8"}))
		}, "refusals"},

		"a policy goes backwards":     {func(h *History) { h.find("w2").Object.Policy = 3 }, "generations"},
		"a webhook goes backwards":    {func(h *History) { h.find("w2").Object.Webhook = 3 }, "generations"},
		"a policy isn't applied":      {func(h *History) { h.find("w1").Object.Policy = 0 }, "generations"},
		"a request has two decisions": {func(h *History) { h.Decisions["two"] = append(h.Decisions["two"], decision("w1", 201, 0, "")) }, "decisions"},
		"an object of a collection has two decisions": {func(h *History) {
			h.Decisions["two"] = append(h.Decisions["two"], ofCollection("b"))
		}, "decisions"},
		"a request has no decision":    {func(h *History) { h.Decisions["one"] = h.Decisions["one"][3:] }, "decisions"},
		"another server has decided":   {func(h *History) { h.find("w2").Server = "two" }, "decisions"},
		"a decision has another code":  {func(h *History) { h.Decisions["one"][2].Code = 409 }, "decisions"},
		"a killed server is no excuse": {func(h *History) { h.Decisions["one"] = h.Decisions["one"][3:]; h.Lives[0].Killed = true }, "decisions"},

		"a clock isn't as recorded": {func(h *History) { h.Lives[0].Skew = second }, "clocks"},

		"a server crashes": {func(h *History) {
			h.Lives[0].ByItself, h.Lives[0].Killed, h.Lives[0].Exit = true, true, "exit status 2"
			h.Faults[0].HidesEtcd, h.Faults[0].End = true, 200*second
		}, "lives"},
		"a start fails": {func(h *History) {
			h.Lives[0].ByItself, h.Lives[0].Killed, h.Logs["one.log"] = true, true, Log{}
		}, "lives"},
		"a server ends with an error": {func(h *History) { h.Lives[0].Exit = "exit status 1" }, "lives"},
		"a server doesn't end":        {func(h *History) { h.Lives[1].Killed, h.Lives[1].Late = true, true }, "lives"},
		"a server panics":             {func(h *History) { h.Logs["two.log"] = Log{WasReady: true, Panics: []string{"panic: x"}} }, "lives"},

		"a lease is taken early": {func(h *History) { h.Revisions[11].Events[0] = lease("second", 44, 47) }, "leases"},
		"a lease is gone":        {func(h *History) { h.Revisions[10].Events[0] = Event{Key: leaseKey, Deleted: true} }, "leases"},
		"controllers work on":    {func(h *History) { h.Decisions["one"][7] = decision("c1", 200, 29, accounts+"namespace-controller") }, "leases"},
		"another controller works on": {func(h *History) {
			h.Decisions["one"][7] = decision("c1", 200, 29, "system:serviceaccount:kube-system:pod-garbage-collector")
		}, "leases"},
		"controllers work without lease": {func(h *History) { h.Decisions["one"][7] = decision("c1", 200, 5, accounts+"namespace-controller") }, "leases"},
	} {
		t.Run(name, func(t *testing.T) {
			h := right()
			test.spoil(h)
			r := h.Check()
			if len(r.Violations[test.check]) == 0 {
				t.Errorf("the check %s has found nothing:\n%s", test.check, r)
			}
		})
	}
}

// A renewal that is recorded late doesn't change what is known of its holder's clock.
func TestLate(t *testing.T) {
	h := right()
	h.Revisions[9].Seen, h.Revisions[10].Seen = 15*second, 15*second
	if r := h.Check(); !r.OK() {
		t.Error(r)
	}
}
