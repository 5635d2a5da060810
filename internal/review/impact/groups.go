// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
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
	maxToldApart  = 50_000 // names of all rows that are told apart
)

// groups holds differences by effect and policy. Those for which there is no room are counted.
type groups struct {
	kind     string
	remedies map[string]string
	byKey    map[groupKey]*group
	rows     int
	// toldApart is the number of names that the rows tell apart.
	toldApart int
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
	// alike is the message without names.
	alike string
	rows  map[rowKey]*row
	// others is the number of differences that have no row.
	others int
}

// A rowKey says who and what the differences of a row are about. In a replay they have a user, a namespace and a
// user agent; in an audit a namespace, a kind and the refused operations. What an object owns is in the row of that
// object. message is the message of all, without the names in it.
type rowKey struct {
	user, userAgent  string
	namespace        string
	kind, operations string
	message          string
}

// A row holds the differences of a group that are alike.
type row struct {
	rowKey
	count       int
	first, last *metav1.Time
	// owned counts those of objects that others own. names are those of the first objects, or of their owners, and named
	// is the number of all. has has those that are told apart.
	owned, named int
	names        []string
	has          map[string]bool
	// example is the first request, and message why it is refused.
	example string
	message string
}

func newGroups(kind string, remedies map[string]string) *groups {
	return &groups{kind: kind, remedies: remedies, byKey: map[groupKey]*group{}}
}

// add counts a result that differs because of a policy.
func (g *groups) add(r *Result, p Policy) {
	key := groupKey{r.effect(), p}
	message := r.reason(key.effect, &p)
	of := g.byKey[key]
	if of == nil {
		if len(g.byKey) == maxGroups {
			g.others[key.effect]++
			return
		}
		of = &group{groupKey: key, message: message, alike: r.withoutNames(message), rows: map[rowKey]*row{}}
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
	rowKey.message = r.withoutNames(message)
	like := of.rows[rowKey]
	if like == nil {
		if g.rows == maxRows {
			of.others++
			return
		}
		g.rows++
		like = &row{rowKey: rowKey, example: cut(r.request(), maxTextLength), message: message,
			has: map[string]bool{}}
		of.rows[rowKey] = like
	}
	like.count++
	g.addName(like, r)
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
		k.kind, k.operations = cut(r.Owner.Kind, maxNameLength), "its "+k.kind
	}
	return k
}

// addName adds the name of a result's object, or of its owner, to a row.
func (g *groups) addName(to *row, r *Result) {
	name := r.Object.Name
	if r.Owner != nil {
		to.owned++
		name = r.Owner.Name
	}
	name = cut(name, maxNameLength)
	if to.has[name] {
		return
	}
	if g.toldApart < maxToldApart {
		g.toldApart++
		to.has[name] = true
	}
	if to.named++; len(to.names) < maxNames {
		to.names = append(to.names, name)
	}
}

// partNames matches the names of containers, volumes and pods in messages of Pod Security Standards, and those of
// containers in messages of quotas.
var partNames = regexp.MustCompile(`\b(container|volume|pod)s? "[^"]*"(?:, "[^"]*")*|\b((?:cpu|memory|(?:requests|limits)\.\S+) for: )[^; ]*`)

// withoutNames returns a message without the names that differ among objects that are alike: those of the object, of its
// owner, of its pods and of their parts.
func (r *Result) withoutNames(message string) string {
	names := []string{r.Object.Name}
	if r.Owner != nil {
		names = append(names, r.Owner.Name)
	}
	if r.Pods != nil {
		names = append(names, r.Pods.Object.Name)
	}
	for _, name := range names {
		message = strings.ReplaceAll(message, strconv.Quote(name), `""`)
	}
	for _, hint := range []string{`container`, `volume`, `pod`, ` for: `} { // which cost less to find
		if strings.Contains(message, hint) {
			return partNames.ReplaceAllString(message, `$1$2""`)
		}
	}
	return message
}

// refusedOperations returns which requests of an audited object are refused by the candidate, and only by it, and which
// object of its controller differs.
func (r *Result) refusedOperations() string {
	var all []string
	if o := r.Operations; o != nil {
		before := cmp.Or(r.OperationsBefore, &Operations{})
		if isRefusal(o.Create) && !isRefusal(before.Create) {
			all = append(all, "create")
		}
		if r.refusesUpdate() {
			all = append(all, "update")
		}
	}
	if r.Pods != nil {
		all = append(all, "its "+r.Pods.Object.Kind)
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

// sortedRows returns the rows, those with the most differences first. Rows with the same message follow each other, first
// those with the group's.
func (g *group) sortedRows() []*row {
	var all []*row
	counts := map[string]int{}
	for _, r := range g.rows {
		all = append(all, r)
		counts[r.rowKey.message] += r.count
	}
	counts[g.alike] = math.MaxInt
	slices.SortFunc(all, func(a, b *row) int {
		return cmp.Or(counts[b.rowKey.message]-counts[a.rowKey.message], cmp.Compare(a.rowKey.message, b.rowKey.message),
			b.count-a.count, cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.user, b.user), cmp.Compare(a.kind, b.kind),
			cmp.Compare(a.operations, b.operations), cmp.Compare(a.userAgent, b.userAgent))
	})
	return all
}
