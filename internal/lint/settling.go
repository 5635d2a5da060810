// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"gatehouse.dev/internal/inventory"
	"gatehouse.dev/internal/jsondiff"
)

var settlingRules = []Rule{
	{"mutating-fight", Error, "two mutating webhooks undo each other's changes", (*linting).mutatingFight},
	{"reinvocation-unsettled", Warning, "a mutating webhook changes its own result", (*linting).reinvocationUnsettled},
}

const (
	// rounds is how often webhooks are asked about their results before these count as unsettled. API servers ask
	// a webhook twice at most.
	rounds = 4
	// alike is how many of the writes of one resource are tried about which the same webhooks are asked.
	alike = 3
)

// A fight is one of two webhooks that change what the other one has changed.
type fight struct {
	first, second *inventory.Webhook
	write         *inventory.Write
	fields        []string
}

// An unsettled webhook changes its own result again and again.
type unsettled struct {
	webhook *inventory.Webhook
	write   *inventory.Write
	fields  []string
}

// settle asks each webhook about some writes, and the mutating ones about their own results and each other's.
func (a *asking) settle(ctx context.Context) {
	webhooks := a.inOrder()
	tried := map[string]int{}
	known := map[*inventory.Webhook]bool{} // those that have been asked about something
	try := func(write *inventory.Write, candidates []*inventory.Webhook) {
		var asked []*inventory.Webhook
		key := fmt.Sprint(write.Operation, write.Resource)
		for _, w := range candidates {
			if question, err := a.Question(ctx, w, write); question != nil && err == nil && (w.Mutating || !known[w]) {
				asked = append(asked, w)
				key += " " + w.Configuration() + "/" + w.Name
			}
		}
		if tried[key]++; len(asked) == 0 || tried[key] > alike {
			return
		}
		for _, w := range asked {
			known[w] = true
		}
		a.tryWrite(ctx, write, asked)
	}
	for _, d := range a.Documents {
		for _, write := range a.WritesOf(d, a.options.Namespace) {
			try(write, webhooks)
		}
	}
	for _, w := range webhooks {
		if !known[w] {
			for _, write := range a.Examples(w) {
				try(write, webhooks)
			}
		}
	}
	for _, w := range webhooks {
		if !known[w] {
			a.notes = append(a.notes, fmt.Sprintf("webhook %s wasn't asked: no object and no example is for it", w.Name))
		}
	}
}

// tryWrite asks webhooks about a write.
func (a *asking) tryWrite(ctx context.Context, write *inventory.Write, webhooks []*inventory.Webhook) {
	var settled []*inventory.Webhook
	changing := map[*inventory.Webhook]bool{}
	for _, w := range webhooks {
		after := a.call(ctx, w, write)
		if after == nil || !w.Mutating {
			continue
		}
		if changing[w] = !equal(after, write.Object); changing[w] {
			if fields := a.unsettledFields(ctx, w, with(write, after)); len(fields) > 0 {
				if !a.isUnsettled(w) {
					a.unsettled = append(a.unsettled, unsettled{w, write, fields})
				}
				continue
			}
		}
		settled = append(settled, w)
	}
	for i, first := range settled {
		for _, second := range settled[i+1:] {
			if a.isFight(first, second) || !changing[first] && !changing[second] {
				continue
			}
			if fields := a.fightsAbout(ctx, first, second, write); len(fields) > 0 {
				a.fights = append(a.fights, fight{first, second, write, fields})
			}
		}
	}
}

// unsettledFields asks a webhook about its own result again and again, and returns what it still changes at the end.
func (a *asking) unsettledFields(ctx context.Context, w *inventory.Webhook, write *inventory.Write) (fields []string) {
	for range rounds - 1 {
		after := a.call(ctx, w, write)
		if after == nil || equal(after, write.Object) {
			return nil
		}
		fields, write = changedFields(write.Object, after), with(write, after)
	}
	return fields
}

// fightsAbout asks two webhooks in turn about the object, and returns what the second one still changes at the end
// if the first one does, too.
func (a *asking) fightsAbout(ctx context.Context, first, second *inventory.Webhook, write *inventory.Write) (
	fields []string) {
	for range rounds {
		one := a.call(ctx, first, write)
		if one == nil {
			return nil
		}
		two := a.call(ctx, second, with(write, one))
		if two == nil || equal(write.Object, one) && equal(one, two) {
			return nil
		}
		if fields = nil; !equal(write.Object, one) {
			fields = changedFields(one, two)
		}
		write = with(write, two)
	}
	return fields
}

// isFight reports whether two webhooks are known to fight.
func (a *asking) isFight(first, second *inventory.Webhook) bool {
	for _, f := range a.fights {
		if f.first == first && f.second == second {
			return true
		}
	}
	return false
}

// isUnsettled reports whether a webhook is known to change its own result.
func (a *asking) isUnsettled(w *inventory.Webhook) bool {
	for _, u := range a.unsettled {
		if u.webhook == w {
			return true
		}
	}
	return false
}

// with returns a write of another object.
func with(write *inventory.Write, object *unstructured.Unstructured) *inventory.Write {
	next := *write
	next.Object = object
	return &next
}

func equal(a, b *unstructured.Unstructured) bool { return reflect.DeepEqual(a.Object, b.Object) }

// changedFields returns the JSON pointers of what differs between two objects.
func changedFields(before, after *unstructured.Unstructured) (fields []string) {
	operations, err := jsondiff.Compare(before.Object, after.Object)
	if err != nil {
		return []string{"/"}
	}
	for _, o := range operations {
		fields = append(fields, o.Path)
	}
	return fields
}

func (l *linting) mutatingFight() {
	for _, f := range l.answers.fights {
		l.add(at(f.second, ""), Error, change{}, fmt.Sprintf("it and webhook %s of %s undo each other's changes of %s, about %s: "+
			"the result depends on the order, and with reinvocationPolicy IfNeeded on how often they are asked", f.first.Name,
			f.first.Configuration(), sentence(f.fields), f.write.What), "have one of them leave the field alone, or exclude the "+
			"object with a selector")
	}
}

func (l *linting) reinvocationUnsettled() {
	for _, u := range l.answers.unsettled {
		again := "a second call, of a user or for reinvocation, makes another object"
		if strings.EqualFold(string(*u.webhook.ReinvocationPolicy), "IfNeeded") {
			again = "with its reinvocationPolicy IfNeeded, it is asked again about its own result, and makes another object"
		}
		l.add(at(u.webhook, "reinvocationPolicy"), Warning, change{}, fmt.Sprintf("asked about its own result of %s, it changes %s "+
			"again and again: %s", u.write.What, sentence(u.fields), again), "have it change nothing that it has changed already")
	}
}
