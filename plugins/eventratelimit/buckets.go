// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package eventratelimit

import (
	"container/list"
	"hash/maphash"
	"time"
)

// key identifies the bucket of a limit that a request takes a token from. It has the texts that
// tell buckets of the limit's scope apart; the rest is empty.
type key [7]string

// buckets holds the buckets of one limit, at most size of them. A new bucket is full, and replaces
// the bucket that has gone unused for longest. buckets is not safe for concurrent use.
//
// Buckets are found by a hash of the key, so their memory doesn't depend on the length of keys,
// which have users' texts. Two keys with the same hash would share a bucket. No user can bring that
// about, because each process has its own seed.
type buckets struct {
	qps, burst float64
	size       int

	seed   maphash.Seed
	byHash map[uint64]*list.Element
	used   *list.List // get *bucket, the last one used first
}

type bucket struct {
	hash   uint64
	tokens float64
	filled time.Time // when there were as many
}

func newBuckets(qps, burst, size int32) *buckets {
	return &buckets{
		qps: float64(qps), burst: float64(burst), size: int(size),
		seed: maphash.MakeSeed(), byHash: map[uint64]*list.Element{}, used: list.New(),
	}
}

// get returns the bucket of a key, filled up until now. now must not go back.
func (b *buckets) get(k key, now time.Time) *bucket {
	hash := b.hash(k)
	if element, ok := b.byHash[hash]; ok {
		b.used.MoveToFront(element)
		found := element.Value.(*bucket)
		found.tokens = min(b.burst, found.tokens+b.qps*now.Sub(found.filled).Seconds())
		found.filled = now
		return found
	}
	var element *list.Element
	if len(b.byHash) < b.size {
		element = b.used.PushFront(&bucket{})
	} else {
		element = b.used.Back()
		b.used.MoveToFront(element)
		delete(b.byHash, element.Value.(*bucket).hash)
	}
	b.byHash[hash] = element
	added := element.Value.(*bucket)
	*added = bucket{hash, b.burst, now}
	return added
}

func (b *buckets) hash(k key) uint64 { return maphash.Comparable(b.seed, k) }
