// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"bytes"
	"container/list"
	"hash/maphash"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Lookup returns an object as it was before the log began, as JSON with apiVersion and kind, or nil
// if there was none or it isn't known. With a subresource, which is scale, it returns the Scale of an object of a custom
// kind. A reader calls it from Next.
type Lookup func(resource schema.GroupResource, namespace, name, subresource string) []byte

// objectKey names an object. A subresource with an object of its own has a key of its own.
type objectKey struct {
	group, resource, namespace, name, subresource string
}

// base is an object as it was last seen.
type base struct {
	key  objectKey
	raw  []byte
	head head
	// before reports whether the caller looked the object up.
	before bool
}

// head has the fields of an object that are read without decoding it.
type head struct {
	apiVersion, kind, namespace, name, uid string
	// resourceVersion and generation are 0 if they are missing or no numbers.
	resourceVersion uint64
	generation      int64
	deleting        bool
}

// readHead reads an object's head. If data isn't an object it returns an empty head.
func readHead(object []byte) (h head) {
	if len(object) == 0 || object[0] != '{' {
		return h
	}
	_ = eachMember(object, func(name, value []byte) error {
		switch string(name) {
		case "apiVersion":
			h.apiVersion = text(value)
		case "kind":
			h.kind = text(value)
		case "metadata":
			if value[0] == '{' {
				return eachMember(value, h.readMetadata)
			}
		}
		return nil
	})
	return h
}

func (h *head) readMetadata(name, value []byte) error {
	switch string(name) {
	case "name":
		h.name = text(value)
	case "namespace":
		h.namespace = text(value)
	case "uid":
		h.uid = text(value)
	case "resourceVersion":
		h.resourceVersion, _ = strconv.ParseUint(text(value), 10, 64)
	case "generation":
		h.generation, _ = strconv.ParseInt(string(value), 10, 64)
	case "deletionTimestamp":
		h.deleting = !isNull(value)
	}
	return nil
}

// entryOverhead is about what an entry takes besides its object.
const entryOverhead = 400

// states keeps the last known objects, those seen least recently first to go.
type states struct {
	limit, size int64
	entries     map[objectKey]*list.Element
	recent      *list.List // of *base, the most recent first
	lookup      Lookup
	// written has the objects that events changed: what lookup knows of them is outdated.
	written *bloom
	// emptied has the collections that were deleted without their items being seen.
	emptied map[objectKey]bool
	evicted int
}

func newStates(limit int64, lookup Lookup) *states {
	s := &states{limit: limit, entries: map[objectKey]*list.Element{}, recent: list.New(), lookup: lookup,
		emptied: map[objectKey]bool{}}
	if lookup != nil {
		s.written = newBloom()
	}
	return s
}

// get returns the last known object, or nil if it isn't known.
func (s *states) get(key objectKey) *base {
	if e := s.entries[key]; e != nil {
		s.recent.MoveToFront(e)
		return e.Value.(*base)
	}
	whole := key
	whole.subresource = ""
	if s.lookup == nil || s.written.has(whole) || s.isEmptied(key) {
		return nil
	}
	raw := s.lookup(schema.GroupResource{Group: key.group, Resource: key.resource}, key.namespace, key.name, key.subresource)
	if isNull(raw) {
		return nil
	}
	if b := (&base{key: key, raw: raw, head: readHead(raw), before: true}); b.head.kind != "" {
		return b
	}
	return nil
}

// put remembers an object that was seen.
func (s *states) put(key objectKey, raw []byte, h head) {
	s.remove(key)
	s.removeScale(key)
	if s.written != nil {
		s.written.add(key)
	}
	b := &base{key: key, raw: bytes.Clone(raw), head: h}
	s.entries[key] = s.recent.PushFront(b)
	s.size += int64(len(b.raw)) + entryOverhead
	for s.size > s.limit && s.recent.Len() > 0 {
		s.remove(s.recent.Back().Value.(*base).key)
		s.evicted++
	}
}

// forget records that an object was changed or removed, and that it isn't known how it is now.
func (s *states) forget(key objectKey) {
	s.remove(key)
	s.removeScale(key)
	if s.written != nil {
		s.written.add(key)
	}
}

// forgetAll forgets all objects of a resource in the namespace of a key, or in all namespaces if the
// key has none.
func (s *states) forgetAll(in objectKey) {
	for key := range s.entries {
		if key.group == in.group && key.resource == in.resource && (in.namespace == "" || in.namespace == key.namespace) {
			s.remove(key)
		}
	}
	if s.lookup != nil {
		s.emptied[objectKey{group: in.group, resource: in.resource, namespace: in.namespace}] = true
	}
}

func (s *states) isEmptied(key objectKey) bool {
	in := objectKey{group: key.group, resource: key.resource, namespace: key.namespace}
	if s.emptied[in] {
		return true
	}
	in.namespace = ""
	return s.emptied[in]
}

// removeScale removes the Scale of an object that changed.
func (s *states) removeScale(key objectKey) {
	if key.subresource == "" {
		key.subresource = "scale"
		s.remove(key)
	}
}

func (s *states) remove(key objectKey) {
	e := s.entries[key]
	if e == nil {
		return
	}
	s.size -= int64(len(e.Value.(*base).raw)) + entryOverhead
	s.recent.Remove(e)
	delete(s.entries, key)
}

// bloom is a set of object keys in 8 MiB. It may take a key for one of its own that isn't: with five
// million keys that happens once in 200. An object that was wrongly taken for written has an
// unknown base, so nothing is guessed.
type bloom struct {
	seed maphash.Seed
	bits []uint64
}

const bloomBits = 1 << 26

func newBloom() *bloom { return &bloom{maphash.MakeSeed(), make([]uint64, bloomBits/64)} }

// each calls f with the indexes of a key's bits.
func (b *bloom) each(key objectKey, f func(word *uint64, bit uint64) bool) bool {
	h := maphash.Comparable(b.seed, key)
	step := h>>32 | 1
	for range 4 {
		at := h % bloomBits
		if !f(&b.bits[at/64], 1<<(at%64)) {
			return false
		}
		h += step
	}
	return true
}

func (b *bloom) add(key objectKey) {
	b.each(key, func(word *uint64, bit uint64) bool { *word |= bit; return true })
}

func (b *bloom) has(key objectKey) bool {
	return b.each(key, func(word *uint64, bit uint64) bool { return *word&bit != 0 })
}

// seen is a set of the audit IDs that came last. IDs are compared by 64 bits of a hash, so that a
// request of two million is wrongly taken for another with a probability below 1 in 10^7.
type seen struct {
	seed maphash.Seed
	has  map[uint64]struct{}
	last []uint64
	next int
}

// seenIDs is how many IDs are kept: an event that comes twice with more events between the two is
// counted twice.
const seenIDs = 1 << 17

func newSeen() *seen { return &seen{seed: maphash.MakeSeed(), has: map[uint64]struct{}{}} }

// add adds an ID and reports whether it was there already.
func (s *seen) add(id []byte) bool {
	h := maphash.Bytes(s.seed, id)
	if _, ok := s.has[h]; ok {
		return true
	}
	s.has[h] = struct{}{}
	if len(s.last) < seenIDs {
		s.last = append(s.last, h)
		return false
	}
	delete(s.has, s.last[s.next])
	s.last[s.next] = h
	s.next = (s.next + 1) % seenIDs
	return false
}
