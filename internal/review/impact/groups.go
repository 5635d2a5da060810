// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision/why"
)

// The bounds of what is held of differences, whatever their number is.
const (
	maxGroups     = 200    // policies with an effect
	maxRows       = 10_000 // rows of all groups
	maxNames      = 3      // names of a row
	maxChanges    = 5      // changed fields that are shown of a group
	maxTextLength = 2_000  // bytes of a message
	maxNameLength = 300    // bytes of the name of a user, an object and so on
)

// groups holds differences by effect and policy. Those for which there is no room are counted.
type groups struct {
	kind     string
	remedies map[string]string
	byKey    map[groupKey]*group
	rows     int
	// others counts, by effect, the differences of policies that have no group.
	others [effects]int
}

type groupKey struct {
	effect effect
	policy Policy
}

// A group holds the differences that a policy makes with an effect.
type group struct {
	groupKey
	count int
	// message is why the first one is refused; changes are what is changed in it; remedies say what would have to
	// change for it to pass.
	message  string
	changes  []string
	remedies []string
	rows     map[rowKey]*row
	// others is the number of differences that have no row.
	others int
}

// A rowKey says who and what the differences of a row are about. In a replay they have a user, a namespace and a
// user agent; in an audit a namespace, a kind, an owner and the refused operations.
type rowKey struct {
	user, userAgent         string
	namespace               string
	kind, owner, operations string
}

// A row holds the differences of a group that are alike.
type row struct {
	rowKey
	count       int
	first, last *metav1.Time
	// names are those of the first objects; example is the first request, and message why it is refused.
	names   []string
	example string
	message string
}

func newGroups(kind string, remedies map[string]string) *groups {
	return &groups{kind: kind, remedies: remedies, byKey: map[groupKey]*group{}}
}

// add counts a result that differs because of a policy.
func (g *groups) add(r *Result, p Policy) {
	key := groupKey{r.effect(), p}
	of := g.byKey[key]
	if of == nil {
		if len(g.byKey) == maxGroups {
			g.others[key.effect]++
			return
		}
		of = &group{groupKey: key, message: r.reason(key.effect, &p), rows: map[rowKey]*row{}}
		switch d := r.Judgement(); {
		case key.effect == changes:
			of.changes = shownChanges(r.Changes)
		case key.effect == refuses && d != nil:
			for _, remedy := range why.Explain(d, g.remedies).Remedies {
				of.remedies = append(of.remedies, remedy.Words)
			}
		}
		g.byKey[key] = of
	}
	of.count++
	rowKey := g.rowKey(r)
	like := of.rows[rowKey]
	if like == nil {
		if g.rows == maxRows {
			of.others++
			return
		}
		g.rows++
		like = &row{rowKey: rowKey, example: cut(r.request(), maxTextLength), message: r.reason(key.effect, &p)}
		of.rows[rowKey] = like
	}
	like.count++
	if len(like.names) < maxNames {
		like.names = append(like.names, cut(r.Object.Name, maxNameLength))
	}
	if r.Time != nil {
		if like.first == nil || r.Time.Before(like.first) {
			like.first = r.Time.DeepCopy()
		}
		if like.last == nil || like.last.Before(r.Time) {
			like.last = r.Time.DeepCopy()
		}
	}
}

// rowKey returns the key of a result's row.
func (g *groups) rowKey(r *Result) rowKey {
	if g.kind == Replay {
		agent, _, _ := strings.Cut(r.Request.UserAgent, " ")
		return rowKey{user: cut(r.Request.User.Username, maxNameLength), namespace: cut(r.Object.Namespace, maxNameLength),
			userAgent: cut(agent, maxNameLength)}
	}
	k := rowKey{namespace: cut(r.Object.Namespace, maxNameLength), kind: cut(r.Object.Kind, maxNameLength),
		operations: r.refusedOperations()}
	if r.Owner != nil {
		k.owner = cut(r.Owner.Kind+" "+r.Owner.Name, maxNameLength)
	}
	return k
}

// refusedOperations returns which requests of an audited object are refused by the candidate, and only by it.
func (r *Result) refusedOperations() string {
	var all []string
	if o := r.Operations; o != nil {
		before := cmp.Or(r.OperationsBefore, &Operations{})
		if isRefusal(o.Create) && !isRefusal(before.Create) {
			all = append(all, "create")
		}
		if isRefusal(o.Update) && !isRefusal(before.Update) {
			all = append(all, "update")
		}
	}
	if r.Pods != nil {
		all = append(all, "its "+r.Pods.Refused.Kind)
	}
	return strings.Join(all, ", ")
}

// reason returns why a policy makes a difference, in its own words as far as the decision has them.
func (r *Result) reason(e effect, p *Policy) string {
	message := r.Message
	switch d := r.Judgement(); {
	case e == changes:
		return ""
	case e == warns:
		message = strings.Join(r.Warnings, "\n")
	case e == refuses && d != nil:
		if r.Pods != nil && d == r.Pods.Decision {
			message = r.Pods.Message
		}
		for i := range d.Steps {
			for j := range d.Steps[i].Calls {
				c := &d.Steps[i].Calls[j]
				if d.Steps[i].Plugin == p.Plugin && c.Kind == p.Kind && c.Name == p.Name && c.Binding == p.Binding &&
					c.Expression == p.Expression && c.Verdict != v1alpha1.Admitted && c.Why != "" {
					message = c.Why
				}
			}
		}
	}
	return cut(message, maxTextLength)
}

// cut shortens a text to about a number of bytes.
func cut(text string, length int) string {
	if len(text) <= length {
		return text
	}
	return strings.ToValidUTF8(text[:length], "") + "…"
}

// shownChanges returns the first fields that a patch changes, in the form of a diff.
func shownChanges(patch []v1alpha1.PatchOperation) []string {
	all := why.ChangesIn(patch)
	var lines []string
	for _, c := range all[:min(len(all), maxChanges)] {
		line := "- " + c.Field
		if !c.Removed {
			line = "+ " + c.Field + ": " + c.Value
		}
		lines = append(lines, cut(line, maxTextLength))
	}
	if n := len(all) - maxChanges; n > 0 {
		lines = append(lines, count(n, "more field"))
	}
	return lines
}

// sorted returns the groups by effect, those with the most differences first.
func (g *groups) sorted() []*group {
	var all []*group
	for _, of := range g.byKey {
		all = append(all, of)
	}
	slices.SortFunc(all, func(a, b *group) int {
		return cmp.Or(cmp.Compare(a.effect, b.effect), b.count-a.count, cmp.Compare(a.policy.Plugin, b.policy.Plugin),
			cmp.Compare(a.policy.Name, b.policy.Name), cmp.Compare(a.policy.Binding, b.policy.Binding),
			cmp.Compare(a.policy.Expression, b.policy.Expression), cmp.Compare(a.policy.Kind, b.policy.Kind))
	})
	return all
}

// sortedRows returns the rows, those with the most differences first.
func (g *group) sortedRows() []*row {
	var all []*row
	for _, r := range g.rows {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *row) int {
		return cmp.Or(b.count-a.count, cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.user, b.user),
			cmp.Compare(a.owner, b.owner), cmp.Compare(a.kind, b.kind), cmp.Compare(a.operations, b.operations),
			cmp.Compare(a.userAgent, b.userAgent))
	})
	return all
}
