package decision

import (
	"bytes"
	"hash/maphash"

	"github.com/klauspost/compress/s2"
)

// A queue has the records of a class, the oldest first. What is in them lies in blocks, one record
// behind the other, and neither blocks nor entries have pointers: the collector has nothing to look
// at in ten thousand records, however often it comes by.
//
// The last block is the one that is written to, always in the same memory. When it is full it is
// compressed: records of a class are much alike, and for all that is kept a process has as much
// memory again to collect in, or more.
type queue struct {
	class   class
	entries []entry
	first   int    // of the entries that are still there
	popped  uint64 // how many aren't any more
	bytes   int64

	blockSize int
	blocks    []block // without the last one
	block     uint32  // the number of the first one
	last      []byte
	room      []byte // to compress in
}

// entry is where a record is that is kept.
type entry struct {
	revision         uint64
	name             nameHash
	namespace        namespaceHash
	block, from, end uint32
}

// block is a full one, which never changes.
type block struct {
	data []byte // compressed, where that is less
	size uint32 // of what is in it
}

func (b block) compressed() bool { return len(b.data) < int(b.size) }

// place is where the record of a name is: the one that came to its queue after so many others.
type place struct {
	number uint64
	class  class
}

// nameHash stands for a namespace and a name. The store has it of 64 bits, and doesn't need more: a
// record whose hash another one has is given a name that nobody has, as one is whose name is taken.
type nameHash uint64

// namespaceHash stands for a namespace: records with another one are of another.
type namespaceHash uint32

var nameSeed = maphash.MakeSeed()

func hashOf(namespace, name string) nameHash {
	return nameHash(maphash.Comparable(nameSeed, [2]string{namespace, name}))
}

func hashOfNamespace(namespace string) namespaceHash {
	return namespaceHash(maphash.String(nameSeed, namespace))
}

// Blocks are a part of the store, for what is in the last one of a class and not yet compressed, or
// in the first one and used no more, to be little. No block is larger than largestBlock, but one of
// a single record.
const (
	blocksOfAStore = 256
	smallestBlock  = 4 << 10
	largestBlock   = 64 << 10
)

func blockSizeOf(maxBytes int64) int {
	return int(min(max(maxBytes/blocksOfAStore, smallestBlock), largestBlock))
}

func (q *queue) len() int { return len(q.entries) - q.first }

// push keeps a record, and returns the number by which at finds it.
func (q *queue) push(revision uint64, name nameHash, namespace namespaceHash, text []byte) (number uint64) {
	if len(q.last) > 0 && len(q.last)+len(text) > q.blockSize {
		q.compress()
	}
	from := len(q.last)
	q.last = append(q.last, text...)
	e := entry{revision, name, namespace, q.block + uint32(len(q.blocks)), uint32(from), uint32(len(q.last))}
	q.entries = append(q.entries, e)
	q.bytes += q.size(&e)
	return q.popped + uint64(q.len()) - 1
}

// compress begins another block.
func (q *queue) compress() {
	if q.room == nil {
		q.room = make([]byte, s2.MaxEncodedLen(q.blockSize))
	}
	number, from := q.block+uint32(len(q.blocks)), len(q.entries)
	for from > q.first && q.entries[from-1].block == number {
		from--
		q.bytes -= q.size(&q.entries[from])
	}
	full := block{data: s2.Encode(q.room, q.last), size: uint32(len(q.last))}
	if !full.compressed() {
		full.data = q.last
	}
	full.data = bytes.Clone(full.data)
	q.blocks = append(q.blocks, full)
	for i := from; i < len(q.entries); i++ {
		q.bytes += q.size(&q.entries[i])
	}
	if q.last = q.last[:0]; cap(q.last) > 2*q.blockSize {
		q.last = nil // there was a record larger than a block
	}
}

// size is how much memory a record takes, roughly: of a compressed block its part.
func (q *queue) size(e *entry) int64 {
	size := int64(e.end - e.from)
	if i := int(e.block - q.block); i < len(q.blocks) {
		size = size * int64(len(q.blocks[i].data)) / int64(q.blocks[i].size)
	}
	return size + recordOverhead
}

// at is the record of a number.
func (q *queue) at(number uint64) packed { return q.packed(&q.entries[q.first+int(number-q.popped)]) }

func (q *queue) packed(e *entry) packed {
	p := packed{revision: e.revision, class: q.class, namespace: e.namespace, from: e.from, end: e.end}
	if i := int(e.block - q.block); i < len(q.blocks) {
		p.block = q.blocks[i]
		return p
	}
	// The memory is used again.
	text := bytes.Clone(q.last[e.from:e.end])
	p.block, p.from, p.end = block{text, uint32(len(text))}, 0, uint32(len(text))
	return p
}

// pop lets go of the oldest record.
func (q *queue) pop() (packed, nameHash) {
	e := q.entries[q.first]
	p := q.packed(&e)
	q.bytes -= q.size(&e)
	q.first++
	q.popped++
	if q.first > 64 && q.first > len(q.entries)/4 {
		q.entries = append(q.entries[:0], q.entries[q.first:]...)
		q.first = 0
	}
	for len(q.blocks) > 0 && (q.len() == 0 || q.entries[q.first].block > q.block) {
		q.blocks[0] = block{}
		q.blocks, q.block = q.blocks[1:], q.block+1
	}
	return p, e.name
}
