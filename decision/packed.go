package decision

import (
	"encoding/binary"
	"fmt"
	"time"
	"unsafe"

	"github.com/klauspost/compress/s2"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// packed is a record that is kept: some of what is in a block. It never changes.
type packed struct {
	revision  uint64
	class     class
	namespace namespaceHash
	block     block
	from, end uint32
}

// recordOverhead is what a record takes besides its text, in the lists and maps.
const recordOverhead = 100

// sizeOf is how much memory a record takes at most, roughly: it isn't compressed yet.
func sizeOf(text []byte) int64 { return int64(len(text)) + recordOverhead }

// An unpacker unpacks records. It has the block that it was at last, for the next record to be in,
// and one of each class, as in order of time they come in turns.
type unpacker [classes]struct {
	data *byte // of the block
	text []byte
}

// text is that of a record, until the next one is asked for.
func (u *unpacker) text(p packed) []byte {
	if !p.block.compressed() {
		return p.block.data[p.from:p.end]
	}
	last := &u[p.class]
	if data := unsafe.SliceData(p.block.data); last.data != data {
		text, err := s2.Decode(last.text[:cap(last.text)], p.block.data)
		if err != nil {
			panic(fmt.Sprintf("decompressing decisions that are kept: %v", err)) // it is memory of ours
		}
		last.data, last.text = data, text
	}
	return last.text[p.from:p.end]
}

// record is what was packed.
func (u *unpacker) record(p packed) *record {
	r := &record{class: p.class, revision: p.revision}
	r.code(&coder{rest: string(u.text(p))}) // a copy, for the record not to hold others
	return r
}

func (u *unpacker) decision(p packed, server string) *v1alpha1.Decision {
	return u.record(p).decision(server)
}

// pack is the text of the record that is kept, in the coder's memory: until it packs another one.
// The memory for one that was large isn't used again.
func (r *record) pack(c *coder) []byte {
	if c.written = c.written[:0]; cap(c.written) > largestBlock {
		c.written = nil
	}
	r.code(c)
	return c.written
}

// A coder packs what it is given the addresses of, or, unless it writes, unpacks it. So one
// function has the order of both.
type coder struct {
	writes  bool
	written []byte
	rest    string // of what is read
}

// code packs the record, or unpacks it.
func (r *record) code(c *coder) {
	texts(c, &r.namespace, &r.name, &r.auditID)
	nanoseconds := r.start.UnixNano()
	number(c, &nanoseconds)
	r.start = time.Unix(0, nanoseconds)
	number(c, &r.duration)
	codeRequest(c, &r.request)
	text(c, &r.verdict)
	number(c, &r.status)
	text(c, &r.reason)
	text(c, &r.message)
	text(c, &r.by)
	list(c, &r.steps, codeStep)
	number(c, &r.omitted)
}

func codeRequest(c *coder, r *v1alpha1.Request) {
	texts(c, &r.Operation, &r.Group, &r.Version, &r.Resource, &r.Subresource, &r.Namespace, &r.Name, &r.GenerateName,
		&r.User.Username, &r.UserAgent)
	list(c, &r.User.Groups, text)
	optional(c, &r.Owner, func(c *coder, o *v1alpha1.Owner) { texts(c, &o.Kind, &o.Name) })
	flag(c, &r.DryRun)
}

func codeStep(c *coder, s *step) {
	text(c, &s.plugin)
	number(c, &s.duration)
	number(c, &s.phase)
	number(c, &s.round)
	optional(c, &s.more, func(c *coder, m *more) {
		text(c, &m.verdict)
		text(c, &m.message)
		text(c, &m.patch)
		flag(c, &m.patchCut)
		list(c, &m.calls, codeCall)
		number(c, &m.omitted)
	})
}

func codeOperation(c *coder, o *v1alpha1.PatchOperation) {
	texts(c, &o.Op, &o.Path, &o.From)
	optional(c, &o.Value, func(c *coder, v *v1alpha1.Value) { text(c, &v.Raw) })
}

func codeCall(c *coder, call *v1alpha1.Call) {
	texts(c, &call.Kind, &call.Name, &call.Configuration, &call.Binding, &call.Param, &call.Expression, &call.Backend,
		&call.Why)
	text(c, &call.Verdict)
	number(c, &call.Code)
	flag(c, &call.FailedOpen)
	number(c, &call.Duration.Duration)
	list(c, &call.Patch, codeOperation)
	flag(c, &call.PatchCut)
	list(c, &call.Warnings, text)
}

func text[T ~string | ~[]byte](c *coder, t *T) {
	n := len(*t)
	number(c, &n)
	if c.writes {
		c.written = append(c.written, *t...)
		return
	}
	if n > 0 {
		*t, c.rest = T(c.rest[:n]), c.rest[n:]
	}
}

func texts(c *coder, all ...*string) {
	for _, t := range all {
		text(c, t)
	}
}

func number[N ~int | ~int32 | ~int64 | ~uint8](c *coder, n *N) {
	if c.writes {
		c.written = binary.AppendVarint(c.written, int64(*n))
		return
	}
	value, size := binary.Varint([]byte(c.rest[:min(len(c.rest), binary.MaxVarintLen64)]))
	*n, c.rest = N(value), c.rest[size:]
}

func flag(c *coder, f *bool) {
	n := 0
	if *f {
		n = 1
	}
	number(c, &n)
	*f = n == 1
}

func list[E any](c *coder, l *[]E, code func(*coder, *E)) {
	n := len(*l)
	number(c, &n)
	if !c.writes && n > 0 {
		*l = make([]E, n)
	}
	for i := range *l {
		code(c, &(*l)[i])
	}
}

func optional[V any](c *coder, v **V, code func(*coder, *V)) {
	there := *v != nil
	flag(c, &there)
	if !there {
		return
	}
	if !c.writes {
		*v = new(V)
	}
	code(c, *v)
}
