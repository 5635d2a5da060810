package decision

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// What is pushed is found by its number and popped in order, whatever its size, whether it can be
// compressed or not, and blocks go with the last record in them.
func TestQueue(t *testing.T) {
	const blockSize = 200
	q := queue{blockSize: blockSize}
	text := func(i int) []byte {
		text := bytes.Repeat([]byte{byte(i)}, 1+i*37%(3*blockSize))
		if i%3 == 0 {
			rand.NewChaCha8([32]byte{byte(i)}).Read(text)
		}
		return text
	}
	var u unpacker
	is := func(p packed, i int) bool {
		return p.revision == uint64(i) && p.namespace == namespaceHash(i%7) && bytes.Equal(u.text(p), text(i))
	}
	const n, kept = 2000, 20
	var read []packed // as a list has it, while the queue goes on
	for i := range n {
		if number := q.push(uint64(i), nameHash(i), namespaceHash(i%7), text(i)); number != uint64(i) {
			t.Fatalf("%d has the number %d", i, number)
		}
		read = append(read, q.at(uint64(i)))
		if i < kept {
			continue
		}
		if p, name := q.pop(); name != nameHash(i-kept) || !is(p, i-kept) {
			t.Fatalf("popped %d, %d, want %d", p.revision, name, i-kept)
		}
		var sizes int64
		for at := range q.len() {
			if number := q.popped + uint64(at); !is(q.at(number), int(number)) {
				t.Fatalf("%d is %d", number, q.at(number).revision)
			}
			sizes += q.size(&q.entries[q.first+at])
		}
		if q.len() != kept || q.bytes != sizes || len(q.blocks) > kept || len(q.entries) > 2*kept+66 ||
			cap(q.last) > 4*blockSize {
			t.Fatalf("%d records, %d bytes of %d, %d blocks, the last of %d bytes, %d entries", q.len(), q.bytes,
				sizes, len(q.blocks), cap(q.last), len(q.entries))
		}
	}
	for i, p := range read {
		if !is(p, i) {
			t.Fatalf("what was read of %d has changed", i)
		}
	}
	for range kept {
		q.pop()
	}
	if q.len() != 0 || q.bytes != 0 || len(q.blocks) != 0 {
		t.Errorf("empty it has %d records, %d bytes, %d blocks", q.len(), q.bytes, len(q.blocks))
	}
	if number := q.push(n, 0, n%7, text(n)); number != n || !is(q.at(number), n) {
		t.Errorf("then %d", number)
	}
}

// Records that are alike take a fraction of what they are, and are counted so.
func TestCompressed(t *testing.T) {
	s := NewStore("server", 10_000, 64<<20)
	var written int64
	for i := range 1000 {
		r := newOne(fmt.Sprintf("7b3f0a3e-0000-4000-8000-%012d", i), changed, 1000)
		written += sizeOf(r.pack(&coder{writes: true}))
		s.add(r)
	}
	if bytes := s.bytes(); bytes > written/3 || bytes < 1000*recordOverhead {
		t.Errorf("%d bytes take %d", written, bytes)
	}
	all, _ := s.List(Filter{})
	for i, d := range all {
		if want := fmt.Sprintf("7b3f0a3e-0000-4000-8000-%012d", i); d.Name != want || len(d.Message) != 1000 {
			t.Fatalf("%s has a message of %d bytes, want %s", d.Name, len(d.Message), want)
		}
	}
}

// A name whose hash another one has is as one that is taken, and is never mistaken for it.
func TestSameHash(t *testing.T) {
	s := newStore()
	s.add(newOne("other", plain, 1))
	s.byName[hashOf("shop", "one")] = s.byName[hashOf("shop", "other")]
	if d := s.Get("shop", "one"); d != nil {
		t.Errorf("got %s", d.Name)
	}
	one := newOne("one", plain, 1)
	s.add(one)
	d := s.Get("shop", one.name)
	if d == nil || one.name == "one" || d.Annotations[v1alpha1.AuditIDAnnotation] != "one" {
		t.Errorf("%q is %v", one.name, d)
	}
}

// Blocks are a small part of a store, and large enough for records to share them.
func TestBlockSize(t *testing.T) {
	for maxBytes, want := range map[int64]int{
		0: 4 << 10, 1 << 20: 4 << 10, 16 << 20: 64 << 10, 64 << 20: 64 << 10, 1 << 40: 64 << 10,
	} {
		if got := blockSizeOf(maxBytes); got != want {
			t.Errorf("%d: %d, want %d", maxBytes, got, want)
		}
	}
}

// A record that was large isn't remembered by what packs the next one.
func TestLargeRecord(t *testing.T) {
	s := newStore()
	s.add(newOne("large", plain, 2*largestBlock))
	s.add(newOne("small", plain, 10))
	if n := cap(s.coder.written); n > largestBlock {
		t.Errorf("%d bytes are held", n)
	}
	if d := s.Get("shop", "large"); d == nil || d.Message != messageOf(2*largestBlock) {
		t.Error("it isn't there")
	}
}
