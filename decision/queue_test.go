package decision

import (
	"bytes"
	"strings"
	"testing"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// What is pushed is found by its number and popped in order, whatever its size, and blocks go with
// the last record in them.
func TestQueue(t *testing.T) {
	const blockSize = 100
	q := queue{blockSize: blockSize}
	text := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 1+i*37%(3*blockSize)) }
	const n, kept = 2000, 20
	var read []packed // as a list has it, while the queue goes on
	for i := range n {
		if number := q.push(uint64(i), nameHash(i), text(i)); number != uint64(i) {
			t.Fatalf("%d has the number %d", i, number)
		}
		read = append(read, q.at(uint64(i)))
		if i < kept {
			continue
		}
		p, name := q.pop()
		if was := i - kept; p.revision != uint64(was) || name != nameHash(was) || !bytes.Equal(p.text, text(was)) {
			t.Fatalf("popped %d, %d, %d bytes, want %d", p.revision, name, len(p.text), was)
		}
		var bytesKept int64
		for number := q.popped; number <= uint64(i); number++ {
			p := q.at(number)
			if p.revision != number || !bytes.Equal(p.text, text(int(number))) {
				t.Fatalf("%d is %d, of %d bytes", number, p.revision, len(p.text))
			}
			bytesKept += p.size()
		}
		if q.len() != kept || q.bytes != bytesKept || len(q.blocks) > kept+1 || len(q.entries) > 2*kept+66 {
			t.Fatalf("%d records, %d bytes of %d, %d blocks, %d entries", q.len(), q.bytes, bytesKept, len(q.blocks),
				len(q.entries))
		}
	}
	for i, p := range read {
		if !bytes.Equal(p.text, text(i)) {
			t.Fatalf("what was read of %d has changed", i)
		}
	}
	for range kept {
		q.pop()
	}
	if q.len() != 0 || q.bytes != 0 || len(q.blocks) != 1 {
		t.Errorf("empty it has %d records, %d bytes, %d blocks", q.len(), q.bytes, len(q.blocks))
	}
	if number := q.push(n, 0, text(7)); number != n || !bytes.Equal(q.at(number).text, text(7)) {
		t.Errorf("then %d", number)
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
		0: 4 << 10, 1 << 20: 4 << 10, 16 << 20: 64 << 10, 64 << 20: 256 << 10, 1 << 40: 256 << 10,
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
	if d := s.Get("shop", "large"); d == nil || d.Message != strings.Repeat("x", 2*largestBlock) {
		t.Error("it isn't there")
	}
}
