// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"slices"
	"strings"

	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/server"
)

// Outcome is a review by one version of Kubernetes, with what Compare needs besides.
type Outcome struct {
	// Version is the minor version, such as 1.36.
	Version string  `json:"version"`
	Review  *Review `json:"review"`
	// Objects are the stored objects of the review's results, in their order; nil for none. They have
	// no values that differ each time.
	Objects []map[string]any `json:"objects"`
	// Plugins are the plugins that ran.
	Plugins []string `json:"plugins"`
}

// NewOutcome returns the outcome of a review by this process, on a server with a configuration.
func NewOutcome(r *Review, config *server.Config) (*Outcome, error) {
	o := &Outcome{Version: JudgedVersion(), Review: r, Objects: []map[string]any{}, Plugins: []string{}}
	for i := range r.Results {
		o.Objects = append(o.Objects, comparableObject(&r.Results[i]))
	}
	selected, err := config.Admission.Select(config.Plugins)
	if err != nil {
		return nil, err
	}
	for _, d := range selected {
		if d.Gate == "" || utilfeature.DefaultFeatureGate.Enabled(d.Gate) {
			o.Plugins = append(o.Plugins, d.Name)
		}
	}
	return o, nil
}

// ComparisonKind is the kind of a Comparison.
const ComparisonKind = "ReviewComparison"

// Comparison lists what differs between the reviews of the same manifests by two versions of
// Kubernetes.
type Comparison struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// From and To are the minor versions.
	From string `json:"from"`
	To   string `json:"to"`
	// Plugins are the plugins that run in one of the versions only.
	Plugins Difference `json:"plugins"`
	// Objects are the objects that change, and those that can't be judged.
	Objects []ObjectChange `json:"objects"`
	// Notes are those of both reviews. A note of one review names its version.
	Notes   []string          `json:"notes,omitempty"`
	Summary ComparisonSummary `json:"summary"`
}

// Difference has the texts that are in one of two lists only.
type Difference struct {
	Removed []string `json:"removed,omitempty"`
	Added   []string `json:"added,omitempty"`
}

// ComparisonSummary counts the objects.
type ComparisonSummary struct {
	Changed   int `json:"changed"`
	Unchanged int `json:"unchanged"`
	// Failed counts the objects that one of the versions couldn't judge, for another reason than that it
	// doesn't serve the kind.
	Failed int `json:"failed"`
}

// Change is what changes most about an object.
type Change string

// The changes. Unserved and Served objects are of a kind that only one of the versions serves, Refused
// and Admitted ones have another verdict. Of the others the refusal, the pods or the stored object
// change, or the warnings alone. Failed objects couldn't be judged.
const (
	ChangeFailed   Change = "Failed"
	ChangeUnserved Change = "Unserved"
	ChangeServed   Change = "Served"
	ChangeRefused  Change = "Refused"
	ChangeAdmitted Change = "Admitted"
	ChangeChanged  Change = "Changed"
	ChangeWarned   Change = "Warned"
)

// ObjectChange is an object that the two versions deal with differently.
type ObjectChange struct {
	Source input.Source `json:"source"`
	Object Object       `json:"object"`
	Change Change       `json:"change"`
	From   Judgement    `json:"from"`
	To     Judgement    `json:"to"`
	// Warnings are the warnings that only one of the versions gives, if both admit the object.
	Warnings Difference `json:"warnings"`
	// Fields are the fields that are stored differently, if both versions admit the object.
	Fields []FieldChange `json:"fields,omitempty"`
}

// Judgement is the verdict of one version.
type Judgement struct {
	// Verdict is Admitted, Refused or Failed. It is Refused, too, if pods of the object are refused.
	Verdict v1alpha1.Verdict `json:"verdict"`
	// NotServed says that the version doesn't serve the object's kind. The verdict is Failed then.
	NotServed bool `json:"notServed,omitempty"`
	// By is the plugin that refused.
	By      string `json:"by,omitempty"`
	Message string `json:"message,omitempty"`
}

// Compare compares the reviews of the same manifests.
func Compare(from, to *Outcome) *Comparison {
	c := &Comparison{APIVersion: APIVersion, Kind: ComparisonKind, From: from.Version, To: to.Version,
		Plugins: difference(from.Plugins, to.Plugins), Objects: []ObjectChange{}}
	olds, news := from.keys(), to.keys()
	oldAt, newAt := indexes(olds), indexes(news)
	all := slices.Clone(olds)
	for _, key := range news {
		if _, ok := oldAt[key]; !ok {
			all = append(all, key)
		}
	}
	at := func(indexes map[string]int, key string) int {
		if i, ok := indexes[key]; ok {
			return i
		}
		return -1
	}
	for _, key := range all {
		change := compareObject(from, at(oldAt, key), to, at(newAt, key))
		switch change.Change {
		case "":
			c.Summary.Unchanged++
			continue
		case ChangeFailed:
			c.Summary.Failed++
		default:
			c.Summary.Changed++
		}
		c.Objects = append(c.Objects, change)
	}
	notes := difference(from.Review.Notes, to.Review.Notes)
	for _, note := range from.Review.Notes {
		if !slices.Contains(notes.Removed, note) {
			c.Notes = append(c.Notes, note)
		}
	}
	for _, note := range notes.Removed {
		c.Notes = append(c.Notes, noteOf(from.Version, note))
	}
	for _, note := range notes.Added {
		c.Notes = append(c.Notes, noteOf(to.Version, note))
	}
	return c
}

// noteOf returns a note of one review, with its version before it unless it names that.
func noteOf(version, note string) string {
	if strings.Contains(note, "Kubernetes "+version) {
		return note
	}
	return version + ": " + note
}

// ExitCode returns 0 if nothing changes for the objects, 1 if something does, 2 if something could not
// be judged.
func (c *Comparison) ExitCode() int {
	switch {
	case c.Summary.Failed > 0:
		return ExitFailed
	case c.Summary.Changed > 0:
		return ExitRefused
	}
	return ExitAdmitted
}

// keys returns what identifies the results in the outcomes of the same manifests.
func (o *Outcome) keys() []string {
	var keys []string
	seen := map[string]int{}
	for i := range o.Review.Results {
		r := &o.Review.Results[i]
		// The namespace isn't known if the kind isn't served.
		key := fmt.Sprintf("%s %s %s %s", r.Source, r.Object.APIVersion, r.Object.Kind, r.Object.Name)
		seen[key]++
		keys = append(keys, fmt.Sprintf("%s %d", key, seen[key]))
	}
	return keys
}

// indexes returns the index of each key.
func indexes(keys []string) map[string]int {
	at := make(map[string]int, len(keys))
	for i, key := range keys {
		at[key] = i
	}
	return at
}

// compareObject compares the results at two indexes. An index is -1 if the object was left out of a
// review, for its kind isn't served.
func compareObject(from *Outcome, i int, to *Outcome, j int) ObjectChange {
	leftOut := Result{Verdict: v1alpha1.Failed, NotServed: true, Message: "left out: the kind is not served"}
	before, after := &leftOut, &leftOut
	var stored, storedAfter map[string]any
	if i >= 0 {
		before, stored = &from.Review.Results[i], from.Objects[i]
	}
	if j >= 0 {
		after, storedAfter = &to.Review.Results[j], to.Objects[j]
	}
	c := ObjectChange{Source: before.Source, Object: before.Object, From: judgementOf(before), To: judgementOf(after)}
	if i < 0 || before.NotServed && !after.NotServed {
		c.Source, c.Object = after.Source, after.Object // which has the namespace
	}
	if before.Verdict == v1alpha1.Admitted && after.Verdict == v1alpha1.Admitted {
		c.Warnings = difference(before.Warnings, after.Warnings)
		if stored != nil && storedAfter != nil {
			c.Fields = fieldChanges("", stored, storedAfter)
		}
	}
	c.Change = c.change(before, after)
	return c
}

// change returns what changes most, or "" if nothing does.
func (c *ObjectChange) change(before, after *Result) Change {
	switch {
	case c.From.NotServed && c.To.NotServed,
		c.From.Verdict == v1alpha1.Failed && !c.From.NotServed, c.To.Verdict == v1alpha1.Failed && !c.To.NotServed:
		return ChangeFailed
	case c.To.NotServed:
		return ChangeUnserved
	case c.To.Verdict == v1alpha1.Refused && c.From.Verdict != v1alpha1.Refused:
		return ChangeRefused
	case c.From.NotServed:
		return ChangeServed
	case c.To.Verdict != c.From.Verdict:
		return ChangeAdmitted
	case refusalChanges(before, after), len(c.Fields) > 0:
		return ChangeChanged
	case len(c.Warnings.Added)+len(c.Warnings.Removed) > 0:
		return ChangeWarned
	}
	return ""
}

// judgementOf returns the verdict on an object and its pods.
func judgementOf(r *Result) Judgement {
	j := Judgement{Verdict: v1alpha1.Verdict(r.word()), NotServed: r.NotServed, Message: r.problemText()}
	for _, d := range append([]*v1alpha1.Decision{r.Decision}, decisions(r.Pods)...) {
		if d != nil && d.Verdict != v1alpha1.Admitted && j.By == "" {
			j.By = d.By
		}
	}
	return j
}

// refusalChanges reports whether an object, or its pods, are refused for another reason. Messages
// about pods have names that differ each time.
func refusalChanges(before, after *Result) bool {
	if judgementOf(before).By != judgementOf(after).By || len(before.Pods) != len(after.Pods) {
		return true
	}
	for i, pods := range before.Pods {
		if pods.Wanted != after.Pods[i].Wanted || pods.Admitted != after.Pods[i].Admitted {
			return true
		}
	}
	return before.Message != after.Message && !strings.HasSuffix(before.Object.Name, "-") // a generateName
}

// difference returns the texts that are in one of two lists only.
func difference(from, to []string) Difference {
	var d Difference
	for _, text := range from {
		if !slices.Contains(to, text) {
			d.Removed = append(d.Removed, text)
		}
	}
	for _, text := range to {
		if !slices.Contains(from, text) {
			d.Added = append(d.Added, text)
		}
	}
	return d
}
