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

// An Index has the candidates of one snapshot by target. It is read by every write and changes
// seldom: who adds to it puts a new map in its place. It is safe for concurrent use.
type Index[C any] struct {
	build   func(*Resolver) []C
	entries atomic.Pointer[map[Target]*entry[C]]
	grow    sync.Mutex
}

// maxTargets bounds an index. There are as many targets as the API has resources and operations, a
// few hundred; custom resources that come and go could make it many.
const maxTargets = 4096

// entry is what is known of the requests with one target.
type entry[C any] struct {
	candidates []C
	// equivalents are what the mapper said when the entry was made. Where it says something else,
	// as custom resources get versions, the entry is made anew. Nil says that nobody asked.
	equivalents *equivalents
}

// NewIndex returns an index that has build find the candidates for each target, in order. It is
// called when there is a request for the target, and must be as good for the next: what it looks
// at, besides the Resolver, must never change. It may be called concurrently.
func NewIndex[C any](build func(*Resolver) []C) *Index[C] {
	x := &Index[C]{build: build}
	x.entries.Store(&map[Target]*entry[C]{})
	return x
}

// Candidates are what build found for requests with this target. They must not be changed. mapper
// may be nil, and then knows no equivalent resources.
func (x *Index[C]) Candidates(t Target, mapper runtime.EquivalentResourceMapper) []C {
	if e := (*x.entries.Load())[t]; e != nil && e.equivalents.hold(t, mapper) {
		return e.candidates
	}
	r := &Resolver{Target: t, mapper: mapper}
	e := &entry[C]{candidates: x.build(r), equivalents: r.equivalents}
	x.add(t, e)
	return e.candidates
}

func (x *Index[C]) add(t Target, e *entry[C]) {
	x.grow.Lock()
	defer x.grow.Unlock()
	entries := map[Target]*entry[C]{}
	if old := *x.entries.Load(); len(old) < maxTargets {
		entries = maps.Clone(old)
	}
	entries[t] = e
	x.entries.Store(&entries)
}

// equivalents are a target's resource and those equivalent to it, with their kinds.
type equivalents struct {
	resources []schema.GroupVersionResource
	kinds     []schema.GroupVersionKind
}

// hold tells whether the mapper says the same now.
func (e *equivalents) hold(t Target, mapper runtime.EquivalentResourceMapper) bool {
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
		return true // that is the resource itself
	}
	for i, resource := range resources {
		if mapper.KindFor(resource, t.Subresource) != e.kinds[i] {
			return false
		}
	}
	return true
}

// A Resolver tells which Criteria have a rule for requests with one target. It is for one
// goroutine.
type Resolver struct {
	Target Target

	mapper      runtime.EquivalentResourceMapper
	equivalents *equivalents // nil until Criteria want to know
}

// Resolve returns the Criteria as they are for requests with the target, nil where they have no
// rule for these.
func (r *Resolver) Resolve(c *Criteria) *Candidate {
	if c.equivalent && r.equivalents == nil {
		r.equivalents = &equivalents{}
		if r.mapper != nil {
			r.equivalents.resources = r.mapper.EquivalentResourcesFor(r.Target.Resource, r.Target.Subresource)
		}
		for _, resource := range r.equivalents.resources {
			r.equivalents.kinds = append(r.equivalents.kinds, r.mapper.KindFor(resource, r.Target.Subresource))
		}
	}
	return c.candidate(r.Target, r.equivalents)
}

// MaxMissed is how many near misses of a target are told, so that a request costs no more for many.
const MaxMissed = 100

// Nearest is Resolve, but if the Criteria nearly have a rule for the target it returns a Candidate
// that never matches, and says why: they have one for the resource of which that is a subresource,
// or one, and another that excludes it.
func (r *Resolver) Nearest(c *Criteria) *Candidate {
	if found := r.Resolve(c); found != nil {
		return found
	}
	t := r.Target
	if len(c.optionsOf(c.exclusions, t, r.equivalents)) > 0 &&
		(c.all || len(c.optionsOf(c.rules, t, r.equivalents)) > 0) {
		return &Candidate{missed: Excluded}
	}
	// Most writes of a status are nobody's concern, and there are many.
	if t.Subresource == "" || t.Subresource == "status" || c.all {
		return nil
	}
	whole := t
	whole.Subresource = ""
	for _, rule := range c.rules {
		if matches(rule.RuleWithOperations, whole) ||
			c.equivalent && RuleMatches(rule.RuleWithOperations, whole) {
			return &Candidate{missed: Mismatch(fmt.Sprintf("its rules are for %s, and not for %[1]s/%[2]s",
				t.Resource.Resource, t.Subresource))}
		}
	}
	return nil
}

// Exempt is a Candidate that never matches, since nobody is asked about the target; nil if the
// Criteria have no rule for it anyway.
func (r *Resolver) Exempt(c *Criteria) *Candidate {
	if r.Resolve(c) == nil {
		return nil
	}
	return &Candidate{missed: Mismatch(fmt.Sprintf("%s are exempt, whatever its rules say",
		r.Target.Resource.Resource))}
}
