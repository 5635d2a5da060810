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

// snapshot is all policies in force at one time. But for its index, which is filled as requests
// come, it never changes.
type snapshot[E action] struct {
	policies []inForce[E]
	index    *matching.Index[candidate[E]]
}

// inForce is a policy with its bindings and its kind of params.
type inForce[E action] struct {
	*definition[E]
	bindings []*binding
	// params are the objects of paramKind, or why there are none.
	params    *paramKind
	paramsErr error
}

// candidate is a policy that has a rule for a request, with the bindings that have one, too; or one
// that nearly has a rule.
type candidate[E action] struct {
	*inForce[E]
	match *matching.Candidate
	bound []bound
	// missed are bindings that only nearly have a rule for the request.
	missed []bound
}

type bound struct {
	*binding
	match *matching.Candidate
}

func newSnapshot[E action](policies []inForce[E]) *snapshot[E] {
	s := &snapshot[E]{policies: policies}
	s.index = matching.NewIndex(s.resolve)
	return s
}

// resolve finds the candidates for a target.
func (s *snapshot[E]) resolve(r *matching.Resolver) (candidates []candidate[E]) {
	if r.Target.IsReview() {
		return nil
	}
	missed := 0
	for i := range s.policies {
		p := &s.policies[i]
		var match *matching.Candidate
		if r.Target.IsPolicy() && !p.static { // lest a policy make itself irremovable
			match = r.Exempt(p.criteria)
		} else {
			match = r.Nearest(p.criteria)
		}
		switch {
		case match == nil:
			continue
		case match.Missed():
			if missed++; len(p.bindings) > 0 && missed <= matching.MaxMissed {
				candidates = append(candidates, candidate[E]{inForce: p, match: match})
			}
			continue
		}
		c := candidate[E]{inForce: p, match: match}
		for _, b := range p.bindings {
			switch match := r.Nearest(b.criteria); {
			case match == nil:
			case !match.Missed():
				c.bound = append(c.bound, bound{b, match})
			default:
				if missed++; missed <= matching.MaxMissed {
					c.missed = append(c.missed, bound{b, match})
				}
			}
		}
		if len(c.bound)+len(c.missed) > 0 || p.paramsErr != nil {
			candidates = append(candidates, c)
		}
	}
	return candidates
}

// lister returns the objects that the API has of one kind.
type lister[T any] func(labels.Selector) ([]T, error)

// source makes the snapshots of policies of type P and bindings of type B.
type source[P, B object, E action] struct {
	policies     *matching.Collection[P, *definition[E]]
	bindings     *matching.Collection[B, *binding]
	listPolicies lister[P]
	listBindings lister[B]
	// files are those that the API doesn't have; nil without staticManifestsDir.
	files  *manifest.Set
	params *paramKinds

	// last is the snapshot that was made last, nil before the first.
	last *snapshot[E]
	// unprepared has an element where a snapshot may have expressions that aren't compiled yet.
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

// snapshot returns the policies as they are now: the same snapshot as before, with its index, where
// they are the same.
func (s *source[P, B, E]) snapshot() *snapshot[E] {
	var filePolicies []P
	var fileBindings []B
	if s.files != nil {
		filePolicies, fileBindings = manifest.Current[P](s.files), manifest.Current[B](s.files)
	}
	policies, err := s.listPolicies(labels.Everything())
	if err != nil {
		// It is a list of the cache, which doesn't fail.
		utilruntime.HandleError(fmt.Errorf("listing policies: %w", err))
		return s.last
	}
	bindings, err := s.listBindings(labels.Everything())
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("listing policy bindings: %w", err))
		return s.last
	}
	all := s.join(s.policies.Refresh(filePolicies, policies), s.bindings.Refresh(fileBindings, bindings))
	if s.last == nil || !slices.EqualFunc(all, s.last.policies, func(a, b inForce[E]) bool {
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

// prepare compiles the expressions of what comes into force, one after the other until done is
// closed: requests that come later needn't.
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

// join returns the policies that have bindings. Those of files are bound by files.
func (s *source[P, B, E]) join(policies []*definition[E], bindings []*binding) []inForce[E] {
	type key struct {
		policy string
		static bool
	}
	of := map[key][]*binding{}
	for _, b := range bindings {
		k := key{b.policy, b.static}
		of[k] = append(of[k], b)
	}
	var all []inForce[E]
	kinds := map[schema.GroupVersionKind]bool{}
	for _, d := range policies {
		if bindings := of[key{d.name, d.static}]; len(bindings) > 0 {
			all = append(all, inForce[E]{definition: d, bindings: bindings})
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
