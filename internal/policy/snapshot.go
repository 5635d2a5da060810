// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/matching"
	"gatehouse.dev/internal/matching/manifest"
)

// snapshot holds all policies in force at one time. It never changes, except that its index is
// filled as requests arrive.
type snapshot[E action] struct {
	policies []boundPolicy[E]
	index    *matching.Index[candidate[E]]
}

// boundPolicy is a policy with its bindings and the kind of its params.
type boundPolicy[E action] struct {
	*definition[E]
	bindings []*binding
	// params holds the objects of paramKind. If it is nil, paramsErr says why.
	params    *paramKind
	paramsErr error
}

// candidate is a policy that has a rule for a request, with the bindings that have one too. It can
// also be a policy that nearly has a rule; then match says why it doesn't match.
type candidate[E action] struct {
	*boundPolicy[E]
	match     *matching.Candidate
	matchable []bindingCandidate
	// nearMisses are bindings that nearly have a rule for the request.
	nearMisses []bindingCandidate
}

type bindingCandidate struct {
	*binding
	match *matching.Candidate
}

func newSnapshot[E action](policies []boundPolicy[E]) *snapshot[E] {
	s := &snapshot[E]{policies: policies}
	s.index = matching.NewIndex(s.resolve)
	return s
}

// resolve returns the candidates for a target.
func (s *snapshot[E]) resolve(r *matching.Resolver) (candidates []candidate[E]) {
	if r.Target.IsReview() {
		return nil
	}
	missed := 0
	for i := range s.policies {
		p := &s.policies[i]
		var match *matching.Candidate
		if r.Target.IsPolicy() && !p.static { // so that no policy can prevent its own removal
			match = r.ResolveExempt(p.criteria)
		} else {
			match = r.ResolveNearest(p.criteria)
		}
		switch {
		case match == nil:
			continue
		case match.NeverMatches():
			if missed++; len(p.bindings) > 0 && missed <= matching.MaxNearMisses {
				candidates = append(candidates, candidate[E]{boundPolicy: p, match: match})
			}
			continue
		}
		c := candidate[E]{boundPolicy: p, match: match}
		for _, b := range p.bindings {
			switch match := r.ResolveNearest(b.criteria); {
			case match == nil:
			case !match.NeverMatches():
				c.matchable = append(c.matchable, bindingCandidate{b, match})
			default:
				if missed++; missed <= matching.MaxNearMisses {
					c.nearMisses = append(c.nearMisses, bindingCandidate{b, match})
				}
			}
		}
		if len(c.matchable)+len(c.nearMisses) > 0 || p.paramsErr != nil {
			candidates = append(candidates, c)
		}
	}
	return candidates
}

// lister returns the objects of one kind from an informer's cache.
type lister[T any] func(labels.Selector) ([]T, error)

// source makes snapshots of policies of type P and bindings of type B.
type source[P, B object, E action] struct {
	policies     *matching.Collection[P, *definition[E]]
	bindings     *matching.Collection[B, *binding]
	listPolicies lister[P]
	listBindings lister[B]
	// files holds the policies and bindings from files. It is nil without staticManifestsDir.
	files  *manifest.Set
	params *paramKinds

	// last is the most recent snapshot, nil before the first.
	last *snapshot[E]
	// unprepared receives an element when a new snapshot may have expressions that aren't compiled
	// yet.
	unprepared chan struct{}
}

// newSource returns a source without files and params.
func newSource[P, B object, E action](k kind[P, B, E]) *source[P, B, E] {
	compiler := expression.NewCompiler()
	return &source[P, B, E]{
		listPolicies: k.policies, listBindings: k.bindings,
		policies: matching.NewCollection(func(p P, static bool, _ *definition[E]) *definition[E] {
			return k.define(compiler, p, static)
		}),
		bindings:   matching.NewCollection(func(b B, static bool, _ *binding) *binding { return k.bind(b, static) }),
		unprepared: make(chan struct{}, 1),
	}
}

// snapshot returns a snapshot of the policies as they are now. If nothing has changed it is the
// previous one, with its index.
func (s *source[P, B, E]) snapshot() *snapshot[E] {
	var filePolicies []P
	var fileBindings []B
	if s.files != nil {
		filePolicies, fileBindings = manifest.CurrentObjects[P](s.files), manifest.CurrentObjects[B](s.files)
	}
	policies, err := s.listPolicies(labels.Everything())
	if err != nil {
		// Listing from the cache doesn't fail.
		utilruntime.HandleError(fmt.Errorf("listing policies: %w", err))
		return s.last
	}
	bindings, err := s.listBindings(labels.Everything())
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("listing policy bindings: %w", err))
		return s.last
	}
	all := s.join(s.policies.Refresh(filePolicies, policies), s.bindings.Refresh(fileBindings, bindings))
	if s.last == nil || !slices.EqualFunc(all, s.last.policies, func(a, b boundPolicy[E]) bool {
		return a.definition == b.definition && slices.Equal(a.bindings, b.bindings) && a.params == b.params &&
			(a.paramsErr == nil) == (b.paramsErr == nil)
	}) {
		s.last = newSnapshot(all)
		select {
		case s.unprepared <- struct{}{}:
		default:
		}
	}
	return s.last
}

// prepare compiles the expressions of new policies, one after the other, so that requests needn't.
// It returns when done is closed.
func (s *source[P, B, E]) prepare(current func() *snapshot[E], done <-chan struct{}) {
	for {
		select {
		case <-s.unprepared:
		case <-done:
			return
		}
		for _, p := range current().policies {
			select {
			case <-done:
				return
			default:
				p.prepare()
			}
		}
	}
}

// join returns the policies that have bindings. Bindings from files bind policies from files, and
// bindings of the API those of the API.
func (s *source[P, B, E]) join(policies []*definition[E], bindings []*binding) []boundPolicy[E] {
	type key struct {
		policy string
		static bool
	}
	bound := map[key][]*binding{}
	for _, b := range bindings {
		k := key{b.policy, b.static}
		bound[k] = append(bound[k], b)
	}
	var all []boundPolicy[E]
	kinds := map[schema.GroupVersionKind]bool{}
	for _, d := range policies {
		if bindings := bound[key{d.name, d.static}]; len(bindings) > 0 {
			all = append(all, boundPolicy[E]{definition: d, bindings: bindings})
			if d.paramKind != nil {
				kinds[d.paramGVK] = true
			}
		}
	}
	s.params.retain(slices.Collect(maps.Keys(kinds)))
	for i := range all {
		if p := &all[i]; p.paramKind != nil {
			p.params, p.paramsErr = s.params.get(p.paramGVK)
		}
	}
	return all
}
