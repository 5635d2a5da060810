// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"maps"
	"slices"
	"strings"
)

// shrink returns the fewest and smallest requests for which fails is still true, as far as tries
// calls of it show. The last request is the one that is answered differently, and stays the last.
func shrink(requests []Request, tries int, fails func([]Request) bool) []Request {
	s := &shrinker{tries: tries, fails: fails, best: requests}
	s.dropRequests()
	for i := len(s.best) - 1; i >= 0; i-- {
		s.dropParts(i)
	}
	return s.best
}

// kept are fields that stay: without them a webhook or a policy would decide about other runs, too.
var kept = []string{"namespaceSelector", "objectSelector", "scope"}

type shrinker struct {
	tries int
	fails func([]Request) bool
	best  []Request
}

// try keeps the requests if they still fail.
func (s *shrinker) try(requests []Request) bool {
	if s.tries == 0 {
		return false
	}
	s.tries--
	if !s.fails(requests) {
		return false
	}
	s.best = requests
	return true
}

// dropRequests leaves out runs of requests before the last: first half of them, then a quarter, and so
// on to single ones.
func (s *shrinker) dropRequests() {
	for size := max(1, len(s.best)-1); ; size = (size + 1) / 2 {
		for end := len(s.best) - 1; end > 0; {
			start := max(0, end-size)
			s.try(slices.Concat(s.best[:start], s.best[end:]))
			end = start
		}
		if size == 1 {
			return
		}
	}
}

// dropParts leaves out the user, the options, and the parts of the body of a request, outer ones first.
func (s *shrinker) dropParts(i int) {
	with := func(change func(*Request)) bool {
		all := slices.Clone(s.best)
		change(&all[i])
		return s.try(all)
	}
	if s.best[i].As != "" {
		with(func(r *Request) { r.As = "" })
	}
	if path, query, ok := strings.Cut(s.best[i].Path, "?"); ok {
		options := strings.Split(query, "&")
		for j := len(options) - 1; j >= 0; j-- {
			fewer := slices.Delete(slices.Clone(options), j, j+1)
			if with(func(r *Request) {
				if r.Path = path; len(fewer) > 0 {
					r.Path += "?" + strings.Join(fewer, "&")
				}
			}) {
				options = fewer
			}
		}
	}
	s.dropWithin(func() any { return s.best[i].Body }, func(body any) bool {
		return with(func(r *Request) { r.Body = body })
	})
}

// dropWithin leaves out the elements of the value that current returns, and parts of those that must
// stay. replace tries another value in its place.
func (s *shrinker) dropWithin(current func() any, replace func(any) bool) {
	switch value := current().(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if slices.Contains(kept, key) {
				continue
			}
			fewer := maps.Clone(current().(map[string]any))
			delete(fewer, key)
			if replace(fewer) {
				continue
			}
			s.dropWithin(func() any { return current().(map[string]any)[key] }, func(below any) bool {
				other := maps.Clone(current().(map[string]any))
				other[key] = below
				return replace(other)
			})
		}
	case []any:
		for i := len(value) - 1; i >= 0; i-- {
			if replace(slices.Delete(slices.Clone(current().([]any)), i, i+1)) {
				continue
			}
			s.dropWithin(func() any { return current().([]any)[i] }, func(below any) bool {
				other := slices.Clone(current().([]any))
				other[i] = below
				return replace(other)
			})
		}
	}
}
