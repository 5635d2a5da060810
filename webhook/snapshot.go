package webhook

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// snapshot is all webhooks at one time. But for its index, which is filled as requests come, it
// never changes.
type snapshot struct {
	// hooks are in the order in which they are called: those of manifests first, then by name of
	// their configuration.
	hooks []*hook
	// static is how many of them are of manifests.
	static int
	// equivalent says that one of them wants equivalent resources.
	equivalent bool

	// index has the candidates by target. It is read by every write and changes seldom: who adds to
	// it puts a new map in its place.
	index atomic.Pointer[map[target]*entry]
	grow  sync.Mutex
}

// maxTargets bounds the index. There are as many targets as the API has resources and operations, a
// few hundred; custom resources that come and go could make it many.
const maxTargets = 4096

// entry is what is known of the requests with one target.
type entry struct {
	candidates []candidate
	// equivalents and their kinds are what the mapper said when the entry was made. Where it says
	// something else, as custom resources get versions, the entry is made anew.
	equivalents []schema.GroupVersionResource
	kinds       []schema.GroupVersionKind
}

// candidate is a webhook that has a rule for a request.
type candidate struct {
	*hook
	// index is the webhook's position in the snapshot.
	index int
	// resource is what it wants the request to be about: the request's own resource, or one
	// equivalent to that.
	resource schema.GroupVersionResource
	// kind is that of an equivalent resource; empty where the mapper knows none. It is not set for
	// the request's own resource, since there may be several for that (an Eviction of either
	// version is sent to pods/eviction).
	kind schema.GroupVersionKind
	// converted says that resource isn't the request's own.
	converted bool
}

func newSnapshot(hooks []*hook) *snapshot {
	s := &snapshot{hooks: hooks}
	for _, h := range hooks {
		if h.static {
			s.static++
		}
		s.equivalent = s.equivalent || h.equivalent
	}
	s.index.Store(&map[target]*entry{})
	return s
}

// candidates are the webhooks with a rule for a request, in order.
func (s *snapshot) candidates(request target, mapper runtime.EquivalentResourceMapper) []candidate {
	if len(s.hooks) == 0 || request.configuration && s.static == 0 {
		return nil
	}
	var equivalents []schema.GroupVersionResource
	if s.equivalent && mapper != nil {
		equivalents = mapper.EquivalentResourcesFor(request.resource, request.subresource)
	}
	if e := (*s.index.Load())[request]; e != nil && e.holds(equivalents, request.subresource, mapper) {
		return e.candidates
	}
	e := &entry{equivalents: equivalents}
	for _, resource := range equivalents {
		e.kinds = append(e.kinds, mapper.KindFor(resource, request.subresource))
	}
	for i, h := range s.hooks {
		if request.configuration && !h.static {
			break
		}
		if c, ok := h.candidate(request, e); ok {
			c.index = i
			e.candidates = append(e.candidates, c)
		}
	}
	s.add(request, e)
	return e.candidates
}

// holds tells whether the entry was made with what the mapper says now.
func (e *entry) holds(equivalents []schema.GroupVersionResource, subresource string,
	mapper runtime.EquivalentResourceMapper) bool {
	if !slices.Equal(e.equivalents, equivalents) {
		return false
	}
	if len(equivalents) <= 1 {
		return true // that is the resource itself
	}
	for i, resource := range equivalents {
		if mapper.KindFor(resource, subresource) != e.kinds[i] {
			return false
		}
	}
	return true
}

// candidate tells whether the webhook has a rule for the request as it came or, if it wants that,
// as one for an equivalent resource. The first rule that does decides for which.
func (h *hook) candidate(request target, e *entry) (candidate, bool) {
	if anyMatches(h.spec.Rules, request) {
		return candidate{hook: h, resource: request.resource}, true
	}
	if !h.equivalent {
		return candidate{}, false
	}
	for i := range h.spec.Rules {
		for n, equivalent := range e.equivalents {
			if equivalent == request.resource {
				continue
			}
			converted := request
			converted.resource = equivalent
			if matches(&h.spec.Rules[i], converted) {
				return candidate{hook: h, resource: equivalent, kind: e.kinds[n], converted: true}, true
			}
		}
	}
	return candidate{}, false
}

func (s *snapshot) add(request target, e *entry) {
	s.grow.Lock()
	defer s.grow.Unlock()
	index := map[target]*entry{}
	if old := *s.index.Load(); len(old) < maxTargets {
		index = maps.Clone(old)
	}
	index[request] = e
	s.index.Store(&index)
}
