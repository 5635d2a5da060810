// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"slices"

	"gatehouse.dev/internal/lint"
	"gatehouse.dev/internal/review/input"
)

// APIVersion and Kind identify a Report.
const (
	APIVersion = "gatehouse.dev/v1alpha1"
	Kind       = "Drill"
)

// A Report has the outages that were tried.
type Report struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Outages    []Outage `json:"outages"`
	// Unread are objects and kinds that could not be read. Nothing is known about them.
	Unread  []lint.Unread `json:"unread,omitempty"`
	Notes   []string      `json:"notes,omitempty"`
	Summary Summary       `json:"summary"`
}

// Summary counts outages.
type Summary struct {
	Outages int `json:"outages"`
	// Stops counts those that stop writes, Critical those that stop what the cluster can't do without, and CantHeal
	// those that don't end by themselves.
	Stops    int `json:"stops"`
	Critical int `json:"critical"`
	CantHeal int `json:"cantHeal"`
	Unread   int `json:"unread"`
}

// An Outage is what happens while backends are down.
type Outage struct {
	Backends []string  `json:"backends"`
	Webhooks []Webhook `json:"webhooks"`
	// Stops are the writes that are refused, Waits those that wait, by area.
	Stops []Area `json:"stops,omitempty"`
	Waits []Area `json:"waits,omitempty"`
	// Heals says whether the backends can come back by themselves.
	Heals Heals `json:"heals"`
	// Blocked are the writes that would bring them back, and that are refused.
	Blocked []Blocked `json:"blocked,omitempty"`
}

// Heals says whether a backend can come back by itself.
type Heals string

const (
	Yes Heals = "yes"
	No  Heals = "no"
	// Unknown means that the backend is outside the cluster, and nothing of the cluster holds it back.
	Unknown Heals = "unknown"
)

// A Webhook is a webhook whose backend is down.
type Webhook struct {
	Kind          string       `json:"kind"`
	Configuration string       `json:"configuration"`
	Name          string       `json:"name"`
	FailurePolicy string       `json:"failurePolicy"`
	Source        input.Source `json:"source"`
}

// An Area has the writes of nodes, of events, or in a namespace.
type Area struct {
	// Name is "nodes", "events" or the name of a namespace.
	Name string `json:"name"`
	// Critical reports whether the cluster can't do without these writes.
	Critical bool `json:"critical,omitempty"`
	// Writes say what they are: "the creation of pods of Deployment shop/web".
	Writes []string `json:"writes"`
	// By names the webhooks that are asked about them.
	By []string `json:"by"`
	// Seconds is the longest time that one of them waits, before it is refused or admitted.
	Seconds int `json:"seconds,omitempty"`
}

// Blocked is a write that would bring a backend back.
type Blocked struct {
	What string   `json:"what"`
	By   []string `json:"by"`
}

// A tally adds up effects on writes.
type tally struct {
	areas []Area
	at    map[string]int // where an area is, by its name
	has   map[[2]string]bool
}

func newTally() *tally { return &tally{at: map[string]int{}, has: map[[2]string]bool{}} }

// add adds the effect on a write.
func (t *tally) add(write areaWrite, e effect) {
	at, ok := t.at[write.area]
	if !ok {
		at = len(t.areas)
		t.at[write.area], t.areas = at, append(t.areas, Area{Name: write.area})
	}
	a := &t.areas[at]
	a.Critical = a.Critical || write.critical
	if what := [2]string{write.area, write.What}; !t.has[what] {
		t.has[what], a.Writes = true, append(a.Writes, write.What)
	}
	a.Seconds = max(a.Seconds, e.seconds)
	for _, name := range e.by {
		if !slices.Contains(a.By, name) {
			a.By = append(a.By, name)
		}
	}
}

// isCritical reports whether the outage stops writes that the cluster can't do without.
func (o *Outage) isCritical() bool {
	return slices.ContainsFunc(o.Stops, func(a Area) bool { return a.Critical })
}

// severity returns how bad an outage is; empty if nothing stops or waits.
func (o *Outage) severity() lint.Severity {
	switch {
	case o.Heals == No, o.isCritical():
		return lint.Error
	case len(o.Stops) > 0, len(o.Waits) > 0:
		return lint.Warning
	}
	return ""
}

// Fail adds what could not be read.
func (r *Report) Fail(errs ...error) {
	r.Unread = append(r.Unread, lint.UnreadOf(errs)...)
	r.summarize()
}

func (r *Report) summarize() {
	r.Summary = Summary{Outages: len(r.Outages), Unread: len(r.Unread)}
	for i := range r.Outages {
		o := &r.Outages[i]
		if len(o.Stops) > 0 {
			r.Summary.Stops++
		}
		if o.isCritical() {
			r.Summary.Critical++
		}
		if o.Heals == No {
			r.Summary.CantHeal++
		}
	}
}

// ExitCode returns 2 if something could not be read, 1 if an outage is at least as bad as failOn, and otherwise 0.
// It is an error if an outage stops what the cluster can't do without, or doesn't end by itself, and a warning if
// other writes stop or wait.
func (r *Report) ExitCode(failOn lint.Severity) int { return r.findings("").ExitCode(failOn) }
