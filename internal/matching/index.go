// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Index holds the candidates of one snapshot by target. Every write reads it. It changes seldom,
// so that a new entry replaces the whole map. It is safe for concurrent use.
type Index[C any] struct {
	build   func(*Resolver) []C
	entries atomic.Pointer[map[Target]*entry[C]]
	growing sync.Mutex
}

// maxTargets bounds an index. An API has a few hundred targets, but custom resources that come and
// go could make them many.
const maxTargets = 4096

// entry holds the candidates of one target.
type entry[C any] struct {
	candidates []C
	// equivalents is what the mapper said when the entry was made, nil if it wasn't asked. If the
	// mapper says something else later, the entry is made again.
	equivalents *equivalents
}

// NewIndex returns an index that calls build for the candidates of each target, in order. build is
// called at the first request with a target, and its result is used for all later ones. So it may
// depend only on the Resolver and on things that never change. It may be called concurrently.
func NewIndex[C any](build func(*Resolver) []C) *Index[C] {
	x := &Index[C]{build: build}
	x.entries.Store(&map[Target]*entry[C]{})
	return x
}

// Candidates returns what build returned for the target. The result must not be changed. A nil
// mapper knows no equivalent resources.
func (x *Index[C]) Candidates(t Target, mapper runtime.EquivalentResourceMapper) []C {
	if e := (*x.entries.Load())[t]; e != nil && e.equivalents.isCurrent(t, mapper) {
		return e.candidates
	}
	r := &Resolver{Target: t, mapper: mapper}
	e := &entry[C]{candidates: x.build(r), equivalents: r.equivalents}
	x.add(t, e)
	return e.candidates
}

func (x *Index[C]) add(t Target, e *entry[C]) {
	x.growing.Lock()
	defer x.growing.Unlock()
	entries := map[Target]*entry[C]{}
	if old := *x.entries.Load(); len(old) < maxTargets {
		entries = maps.Clone(old)
	}
	entries[t] = e
	x.entries.Store(&entries)
}

// equivalents holds a target's resource and the resources equivalent to it, with their kinds.
type equivalents struct {
	resources []schema.GroupVersionResource
	kinds     []schema.GroupVersionKind
}

// isCurrent reports whether the mapper still says the same. It is true if the mapper wasn't asked.
func (e *equivalents) isCurrent(t Target, mapper runtime.EquivalentResourceMapper) bool {
	if e == nil {
		return true
	}
	var resources []schema.GroupVersionResource
	if mapper != nil {
		resources = mapper.EquivalentResourcesFor(t.Resource, t.Subresource)
	}
	if !slices.Equal(e.resources, resources) {
		return false
	}
	if len(resources) <= 1 {
		return true // the resource itself, which is all there is
	}
	for i, resource := range resources {
		if mapper.KindFor(resource, t.Subresource) != e.kinds[i] {
			return false
		}
	}
	return true
}

// A Resolver returns the Candidate of each Criteria for one target. It is for one goroutine.
type Resolver struct {
	Target Target

	mapper      runtime.EquivalentResourceMapper
	equivalents *equivalents // nil until a Criteria needs them
}

// Resolve returns the Criteria's Candidate for the target, nil if no rule matches the target.
func (r *Resolver) Resolve(c *Criteria) *Candidate {
	if c.matchesEquivalent && r.equivalents == nil {
		r.equivalents = &equivalents{}
		if r.mapper != nil {
			r.equivalents.resources = r.mapper.EquivalentResourcesFor(r.Target.Resource, r.Target.Subresource)
		}
		for _, resource := range r.equivalents.resources {
			r.equivalents.kinds = append(r.equivalents.kinds, r.mapper.KindFor(resource, r.Target.Subresource))
		}
	}
	return c.newCandidate(r.Target, r.equivalents)
}

// MaxNearMisses bounds the near misses of a target that are reported, so that a request costs no
// more if there are many.
const MaxNearMisses = 100

// ResolveNearest is like Resolve, but also returns a Candidate if the Criteria nearly have a rule
// for the target. That Candidate never matches and says why. The Criteria nearly have a rule if
// they have one for the resource whose subresource the target is, or if they have one and another
// excludes it.
func (r *Resolver) ResolveNearest(c *Criteria) *Candidate {
	if found := r.Resolve(c); found != nil {
		return found
	}
	t := r.Target
	if len(c.findOptions(c.exclusions, t, r.equivalents)) > 0 &&
		(c.matchesAll || len(c.findOptions(c.rules, t, r.equivalents)) > 0) {
		return &Candidate{mismatch: Excluded}
	}
	// Writes of a status are many, and most configurations leave them out on purpose.
	if t.Subresource == "" || t.Subresource == "status" || c.matchesAll {
		return nil
	}
	whole := t
	whole.Subresource = ""
	for _, rule := range c.rules {
		if ruleMatches(rule.RuleWithOperations, whole) ||
			c.matchesEquivalent && RuleMatchesAnyVersion(rule.RuleWithOperations, whole) {
			return &Candidate{mismatch: Mismatch(fmt.Sprintf("its rules are for %s, and not for %[1]s/%[2]s",
				t.Resource.Resource, t.Subresource))}
		}
	}
	return nil
}

// ResolveExempt returns a Candidate that never matches, because the target is exempt. It returns
// nil if the Criteria have no rule for the target anyway.
func (r *Resolver) ResolveExempt(c *Criteria) *Candidate {
	if r.Resolve(c) == nil {
		return nil
	}
	return &Candidate{mismatch: Mismatch(fmt.Sprintf("%s are exempt, whatever its rules say",
		r.Target.Resource.Resource))}
}
