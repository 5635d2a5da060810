package decision

import "hash/maphash"

// A queue has the records of a class, the oldest first. What is in them lies in blocks, one record
// behind the other, and neither blocks nor entries have pointers: the collector has nothing to look
// at in ten thousand records, however often it comes by. A block is written to its end and then
// left to who still reads it.
type queue struct {
	class   class
	entries []entry
	first   int    // of the entries that are still there
	popped  uint64 // how many aren't any more
	bytes   int64

	blockSize int
	blocks    [][]byte
	block     uint32 // the number of the first one
}

// entry is where a record is that is kept.
type entry struct {
	revision         uint64
	name             nameHash
	block, from, end uint32
}

// place is where the record of a name is: the one that came to its queue after so many others.
type place struct {
	number uint64
	class  class
}

// nameHash stands for a namespace and a name. The store has it of 64 bits, and doesn't need more: a
// record whose hash another one has is given a name that nobody has, as one is whose name is taken.
type nameHash uint64

var nameSeed = maphash.MakeSeed()

func hashOf(namespace, name string) nameHash {
	return nameHash(maphash.Comparable(nameSeed, [2]string{namespace, name}))
}

// Blocks are a part of the store, for what is in the last one of a class and not yet used, or in
// the first one and used no more, to be little. No block is larger than largestBlock.
const (
	blocksOfAStore = 256
	smallestBlock  = 4 << 10
	largestBlock   = 256 << 10
)

func blockSizeOf(maxBytes int64) int {
	return int(min(max(maxBytes/blocksOfAStore, smallestBlock), largestBlock))
}

func (q *queue) len() int { return len(q.entries) - q.first }

// push keeps a record, and returns the number by which at finds it.
func (q *queue) push(revision uint64, name nameHash, text []byte) (number uint64) {
	last := len(q.blocks) - 1
	if last < 0 || len(q.blocks[last])+len(text) > cap(q.blocks[last]) {
		q.blocks = append(q.blocks, make([]byte, 0, max(q.blockSize, len(text))))
		last++
	}
	from := len(q.blocks[last])
	q.blocks[last] = append(q.blocks[last], text...)
	q.entries = append(q.entries, entry{revision, name, q.block + uint32(last), uint32(from),
		uint32(from + len(text))})
	q.bytes += sizeOf(text)
	return q.popped + uint64(q.len()) - 1
}

// at is the record of a number.
func (q *queue) at(number uint64) packed { return q.packed(&q.entries[q.first+int(number-q.popped)]) }

func (q *queue) packed(e *entry) packed {
	return packed{revision: e.revision, class: q.class, text: q.blocks[e.block-q.block][e.from:e.end:e.end]}
}

// pop lets go of the oldest record.
func (q *queue) pop() (packed, nameHash) {
	e := q.entries[q.first]
	p := q.packed(&e)
	q.first++
	q.popped++
	q.bytes -= p.size()
	if q.first > 64 && q.first > len(q.entries)/4 {
		q.entries = append(q.entries[:0], q.entries[q.first:]...)
		q.first = 0
	}
	for q.len() > 0 && q.entries[q.first].block > q.block {
		q.blocks[0] = nil
		q.blocks, q.block = q.blocks[1:], q.block+1
	}
	return p, e.name
}
