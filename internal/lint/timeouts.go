// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/internal/count"
	"gatehouse.dev/internal/inventory"
)

const (
	// longTimeout is the longest timeout that is no finding, in seconds: the API's default.
	longTimeout = 10
	// requestSeconds is the time that an API server takes for a write, admission included.
	//
	// Source: k8s.io/apiserver/pkg/endpoints/handlers/rest.go#requestTimeoutUpperBound 32d19680
	requestSeconds = 34
)

var timeoutRules = []Rule{
	{"timeout-long", Warning, "a webhook's timeout is long", (*linting).timeoutLong},
	{"timeout-unset", Warning, "a webhook has the default timeout", (*linting).timeoutUnset},
	{"timeouts-add-up", Error, "webhooks' timeouts add up to more than a request's time", (*linting).timeoutsAddUp},
}

func (l *linting) timeoutLong() {
	for _, w := range l.Webhooks {
		if *w.TimeoutSeconds > longTimeout {
			l.add(at(w, "timeoutSeconds"), Warning, patched(false, "replace", w.Path("/timeoutSeconds"), 5),
				fmt.Sprintf("while it doesn't answer, each write that it is asked about takes up to %s",
					count.Of(int(*w.TimeoutSeconds), "second")), "set timeoutSeconds to little more than what the slowest answer takes")
		}
	}
}

func (l *linting) timeoutUnset() {
	for _, w := range l.Webhooks {
		if w.Stated.TimeoutSeconds == nil {
			l.add(at(w, "timeoutSeconds"), Warning, patched(false, "add", w.Path("/timeoutSeconds"), 5),
				"timeoutSeconds isn't set: while it doesn't answer, each write that it is asked about takes up to 10 seconds, "+
					"the API's default", "set timeoutSeconds to little more than what the slowest answer takes")
		}
	}
}

// A slowest is the longest that writes of one kind take.
type slowest struct {
	webhooks []*inventory.Webhook
	seconds  int
	what     string
}

// timeoutsAddUp looks for the write with the longest wait: mutating webhooks are asked one after the other, and
// some of them twice; then validating webhooks are asked all at once.
func (l *linting) timeoutsAddUp() {
	writes := append(inventory.Healing(inventory.AnyNamespace), inventory.Anything()...)
	writes = append(writes, inventory.NodeLeases()...)
	writes = append(writes, l.ruleWrites()...)
	all, ignoring := slowest{}, slowest{}
	for _, write := range writes {
		l.slowest(&all, write, func(*inventory.Webhook) bool { return true })
		l.slowest(&ignoring, write, func(w *inventory.Webhook) bool { return !w.Fails() })
	}
	switch {
	case ignoring.seconds >= requestSeconds:
		l.addUp(&ignoring, Error, "though failurePolicy is Ignore, "+
			"API servers refuse the request then with a timeout")
	case all.seconds > requestSeconds:
		l.addUp(&all, Warning, "the request ends with a timeout then, even if each of them answers in its time")
	}
}

// slowest replaces the longest wait by that of a write if it takes longer.
func (l *linting) slowest(s *slowest, write *inventory.Write, counts func(*inventory.Webhook) bool) {
	var mutating, again, validating int
	var webhooks []*inventory.Webhook
	for _, w := range l.Webhooks {
		if !counts(w) || len(l.asked(w, write)) == 0 {
			continue
		}
		webhooks = append(webhooks, w)
		seconds := int(*w.TimeoutSeconds)
		if !w.Mutating {
			validating = max(validating, seconds)
			continue
		}
		mutating += seconds
		if *w.ReinvocationPolicy == admissionregistrationv1.IfNeededReinvocationPolicy && w.Fails() {
			again += seconds // one under Ignore that hangs changes nothing, so that nobody is asked again
		}
	}
	if total := mutating + again + validating; total > s.seconds && len(webhooks) > 1 {
		*s = slowest{webhooks, total, write.What}
	}
}

func (l *linting) addUp(s *slowest, severity Severity, end string) {
	longest := slices.MaxFunc(s.webhooks, func(a, b *inventory.Webhook) int {
		return int(*a.TimeoutSeconds - *b.TimeoutSeconds)
	})
	var words []string
	for _, w := range s.webhooks {
		words = append(words, fmt.Sprintf("%s (%d s)", w.Name, *w.TimeoutSeconds))
	}
	l.add(at(longest, "timeoutSeconds"), severity, change{}, fmt.Sprintf("%d webhooks are asked about %s, and together "+
		"take up to %d seconds if they hang, which is more than the %d seconds of a request: %s. %s", len(words), s.what,
		s.seconds, requestSeconds, sentence(words), upperFirst(end)),
		"shorten the timeouts, those of mutating webhooks first: they add up, while validating ones run at the same time")
}

func upperFirst(text string) string {
	if text == "" {
		return ""
	}
	return string(text[0]-'a'+'A') + text[1:]
}

// ruleWrites returns a write for each resource that a webhook's rules name.
func (l *linting) ruleWrites() (writes []*inventory.Write) {
	seen := map[string]bool{}
	for _, w := range l.Webhooks {
		for _, r := range w.Rules {
			for _, write := range inventory.OfRule(&r) {
				if key := fmt.Sprint(write.Operation, write.Resource); !seen[key] {
					seen[key] = true
					writes = append(writes, write)
				}
			}
		}
	}
	return writes
}
