// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"strings"
	"time"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// An Entry is a decision, or several alike in a row.
type Entry struct {
	*Explanation
	// Times is the number of decisions, First the time of the first one.
	Times int
	First time.Time
}

// Entries returns the decisions about an object as entries, the newest first. It returns the newest
// limit entries, all if limit is 0, and in any case the newest refusal and the creation. omitted is
// the number of other decisions.
func Entries(decisions []v1alpha1.Decision, limit int, remedies map[string]string) (entries []Entry, omitted int) {
	var all []Entry
	for i := range decisions {
		d := &decisions[i]
		if n := len(all); n > 0 && summaryKey(all[n-1].Decision) == summaryKey(d) {
			all[n-1].Times++
			all[n-1].First = d.Time.Time
			continue
		}
		entry := Entry{Explain(d, remedies), 1, d.Time.Time}
		entry.findEarlier(decisions[i+1:])
		all = append(all, entry)
	}
	refused, created := false, false
	for i, e := range all {
		refusal := e.Decision.Verdict != v1alpha1.Admitted && !v1alpha1.Everyday(e.Decision)
		if limit == 0 || i < limit || refusal && !refused || isCreation(e.Decision) && !created {
			entries = append(entries, e)
			refused, created = refused || refusal, created || isCreation(e.Decision)
			continue
		}
		omitted += e.Times
	}
	return entries, omitted
}

// isCreation reports whether the request created an object.
func isCreation(d *v1alpha1.Decision) bool {
	r := &d.Request
	return d.Verdict == v1alpha1.Admitted && r.Operation == "CREATE" && r.Subresource == "" && !r.DryRun
}

// isRefusedCreation reports whether the newest decision about an object, the first one, refused its creation.
func isRefusedCreation(decisions []v1alpha1.Decision) bool {
	return len(decisions) > 0 && decisions[0].Verdict != v1alpha1.Admitted && decisions[0].Request.Operation == "CREATE" &&
		decisions[0].Request.Subresource == ""
}

// summaryKey returns a key that decisions share if one of them is enough to show: the same user
// asked for the same, with the same result.
func summaryKey(d *v1alpha1.Decision) string {
	r := &d.Request
	words := []string{r.Operation, r.Resource, r.Subresource, r.User.Username, r.UserAgent, string(d.Verdict),
		string(d.Reason), d.By, strings.Join(d.ChangedBy, ",")}
	if r.DryRun {
		words = append(words, "dry run")
	}
	for i := range d.Steps {
		for j := range d.Steps[i].Calls {
			c := &d.Steps[i].Calls[j]
			words = append(words, c.Kind, c.Configuration, c.Name, c.Binding, string(c.Verdict))
		}
	}
	if r.GenerateName == "" {
		words = append(words, d.Message) // the message has the generated name
	}
	return strings.Join(words, "\x00")
}

// Attempts are alike requests that an object's controllers made for it.
type Attempts struct {
	Entry
	// Owner is the object that they were made for.
	Owner v1alpha1.Owner
}

// Dependents returns the requests that an object's controllers made for it: the refused ones, the
// newest first and alike ones as one, and the number of admitted ones by resource.
func Dependents(decisions []v1alpha1.Decision, remedies map[string]string) (refused []Attempts, made map[string]int) {
	made = map[string]int{}
	at := map[string]int{}
	for i := range decisions {
		d := &decisions[i]
		if d.Request.Operation != "CREATE" || d.Request.Subresource != "" || d.Request.DryRun {
			continue
		}
		if d.Verdict == v1alpha1.Admitted {
			made[d.Request.Resource]++
			continue
		}
		if v1alpha1.Everyday(d) {
			continue
		}
		key := summaryKey(d) + "\x00" + d.Request.Owner.Name
		if j, ok := at[key]; ok {
			refused[j].Times++
			refused[j].First = d.Time.Time
			continue
		}
		at[key] = len(refused)
		refused = append(refused, Attempts{Entry{Explain(d, remedies), 1, d.Time.Time}, *d.Request.Owner})
	}
	return refused, made
}
