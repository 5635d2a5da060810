package eventratelimit

import (
	"container/list"
	"hash/maphash"
	"time"
)

// key says which of a limit's buckets a request is for: the texts that a limit of its scope goes
// by, the rest empty.
type key [7]string

// buckets holds the buckets of one limit, at most size of them. The bucket that has gone unused for
// longest makes room for a new one, which is full. It is not safe for concurrent use.
//
// Buckets are found by a hash of the key, so their memory doesn't depend on keys, which are users'
// texts of any length. Two keys of the same hash would share a bucket. No user can bring that
// about, because the seed is the process's own.
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
