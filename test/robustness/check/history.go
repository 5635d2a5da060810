// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check checks what clients, etcd and servers recorded while faults happened. It reads the
// record from a directory and knows nothing of how it was made.
//
//	all, err := check.Load(dir)
//	report := all.Check()
package check

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// The files of a history. Each line is a JSON object.
const (
	OperationsFile = "operations.jsonl"
	WatchesFile    = "watches.jsonl"
	RevisionsFile  = "revisions.jsonl"
	LivesFile      = "lives.jsonl"
	FaultsFile     = "faults.jsonl"
	// DecisionsFiles is a pattern of the servers' decision logs. Each process has one.
	DecisionsFiles = "decisions-*.jsonl"
)

// The namespaces of the clients.
const (
	// Registers has the ConfigMaps that many clients read and write. Their histories must be
	// linearizable.
	Registers = "registers"
	// Quotas has ResourceQuotas and the objects that they count.
	Quotas = "quotas"
)

// The annotations that a policy and a webhook write. The value is the generation of the
// configuration that wrote it.
const (
	PolicyAnnotation  = "robustness/policy"
	WebhookAnnotation = "robustness/webhook"
)

// History is everything that was recorded. All times are nanoseconds since 1970 by the clock of the
// test, unless a server's clock is named.
type History struct {
	Operations []Operation
	Watches    []Watch
	Revisions  []Revision
	Lives      []Life
	Faults     []Fault
	// Decisions are those of each process, by the name of its file.
	Decisions map[string][]Decision
	// Logs are those of each process, by the name of its file.
	Logs map[string]Log
}

// Operation is one request of a client.
type Operation struct {
	// ID is the audit ID that the client gave the request.
	ID string `json:"id"`
	// Server is the name of the server that the client asked.
	Server string `json:"server"`
	// Verb is create, get, update, patch, delete or list.
	Verb      string `json:"verb"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Start     int64  `json:"start"`
	End       int64  `json:"end"`
	// Code is the status of the answer. It is 0 if there was none.
	Code    int    `json:"code"`
	Message string `json:"message,omitempty"`
	// Value is what the request wrote. No other request writes the same value.
	Value string `json:"value,omitempty"`
	// Expected is the value that the object must have had, by the resource version in the request.
	Expected string `json:"expected,omitempty"`
	// Grace is how many seconds a delete gave the object to end.
	Grace int `json:"grace,omitempty"`
	// MayBeOld is true if the request was a list of any revision.
	MayBeOld bool `json:"mayBeOld,omitempty"`
	// Object is the object in the answer, or nil.
	Object *Object `json:"object,omitempty"`
	// List is the list in the answer, or nil.
	List *List `json:"list,omitempty"`
}

// Object is what the checks need to know of an object in an answer.
type Object struct {
	Name     string `json:"name"`
	Revision int64  `json:"revision"`
	Value    string `json:"value,omitempty"`
	// Policy and Webhook are the generations in the annotations, or 0.
	Policy  int64 `json:"policy,omitempty"`
	Webhook int64 `json:"webhook,omitempty"`
}

// List is a list in an answer.
type List struct {
	Revision int64    `json:"revision"`
	Objects  []Object `json:"objects"`
}

// Watch is one watch of the namespace Registers, until its connection ended.
type Watch struct {
	// Client is the name of the watcher. Its watches follow each other.
	Client string `json:"client"`
	Server string `json:"server"`
	// From is the revision after which the events begin.
	From  int64 `json:"from"`
	Start int64 `json:"start"`
	End   int64 `json:"end"`
	// Code is the status of the answer. It is 0 if there was none.
	Code   int          `json:"code"`
	Events []WatchEvent `json:"events"`
	// Error is the code in the event ERROR that ended the watch, or 0.
	Error int `json:"error,omitempty"`
}

// WatchEvent is an event, or a bookmark.
type WatchEvent struct {
	// Type is ADDED, MODIFIED, DELETED or BOOKMARK.
	Type     string `json:"type"`
	Name     string `json:"name,omitempty"`
	Revision int64  `json:"revision"`
	Value    string `json:"value,omitempty"`
}

// Revision is one transaction of etcd.
type Revision struct {
	Revision int64 `json:"revision"`
	// Seen is when the test had it.
	Seen   int64   `json:"seen"`
	Events []Event `json:"events"`
}

// Event is a change of a key.
type Event struct {
	Key     string `json:"key"`
	Deleted bool   `json:"deleted,omitempty"`
	// Value is the stored object.
	Value []byte `json:"value,omitempty"`
}

// Life is one process of a server.
type Life struct {
	Server string `json:"server"`
	Start  int64  `json:"start"`
	End    int64  `json:"end"`
	// Killed is true if the process had no time to finish.
	Killed bool `json:"killed,omitempty"`
	// ByItself is true if the process ended before anybody killed it or told it to end.
	ByItself bool `json:"byItself,omitempty"`
	// Late is true if the process was told to end, and was killed because that took too long.
	Late bool `json:"late,omitempty"`
	// Exit says how the process ended, as os.ProcessState does.
	Exit string `json:"exit"`
	// Skew is how far the server's clock was ahead, in nanoseconds.
	Skew int64 `json:"skew,omitempty"`
	// Decisions is the name of the decision log.
	Decisions string `json:"decisions"`
	// Log is the name of what the process printed.
	Log string `json:"log"`
}

// Decision is what the checks need to know of a decision.
type Decision struct {
	// ID is the request's audit ID.
	ID string
	// Code is the status of the answer.
	Code int
	// Time is a time by the clock of the server.
	Time int64
	// User is who made the request.
	User string
	// Request is the operation and the object.
	Request string
}

// Fault is something that was done to the processes or what is between them.
type Fault struct {
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
	Start  int64  `json:"start"`
	End    int64  `json:"end"`
	// HidesEtcd is true if etcd may not have answered the servers in time.
	HidesEtcd bool `json:"hidesEtcd,omitempty"`
	// Error says why the fault didn't happen, or not as it should.
	Error string `json:"error,omitempty"`
}

// Load reads a history from a directory. A file that is missing is an error.
func Load(dir string) (*History, error) {
	h := &History{Decisions: map[string][]Decision{}, Logs: map[string]Log{}}
	err := errors.Join(
		read(filepath.Join(dir, OperationsFile), &h.Operations),
		read(filepath.Join(dir, WatchesFile), &h.Watches),
		read(filepath.Join(dir, RevisionsFile), &h.Revisions),
		read(filepath.Join(dir, LivesFile), &h.Lives),
		read(filepath.Join(dir, FaultsFile), &h.Faults))
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, DecisionsFiles))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if h.Decisions[filepath.Base(file)], err = readDecisions(file); err != nil {
			return nil, err
		}
	}
	for _, life := range h.Lives {
		log, err := readLog(filepath.Join(dir, life.Log))
		if err != nil {
			return nil, err
		}
		if _, ok := h.Decisions[life.Decisions]; !ok && log.WasReady {
			return nil, fmt.Errorf("%s was ready, and there is no %s", life.Log, life.Decisions)
		}
		h.Logs[life.Log] = log
	}
	slices.SortFunc(h.Operations, func(a, b Operation) int { return int(a.Start - b.Start) })
	return h, nil
}

// read appends a file's lines.
func read[T any](name string, lines *[]T) error {
	return eachLine(name, func(line []byte) error {
		var one T
		if err := json.Unmarshal(line, &one); err != nil {
			return err
		}
		*lines = append(*lines, one)
		return nil
	})
}

// readDecisions reads a decision log. Its last line may be cut off, if the process was killed.
func readDecisions(name string) (all []Decision, err error) {
	var cut error
	err = eachLine(name, func(line []byte) error {
		if cut != nil {
			return cut
		}
		var one v1alpha1.Decision
		if cut = json.Unmarshal(line, &one); cut == nil {
			all = append(all, newDecision(&one))
		}
		return nil
	})
	return all, err
}

func newDecision(d *v1alpha1.Decision) Decision {
	return Decision{ID: cmp.Or(d.Annotations[v1alpha1.AuditIDAnnotation], d.Name), Code: int(d.Code),
		Time: d.Time.UnixNano(), User: d.Request.User.Username,
		Request: d.Request.Operation + " " + d.Request.Resource + " " + d.Request.Namespace + "/" + d.Request.Name}
}

func eachLine(name string, do func(line []byte) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		if err := do(lines.Bytes()); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	return lines.Err()
}
