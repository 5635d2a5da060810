package jsondiff

import (
	"encoding/binary"
	"encoding/json"
	"unsafe"
)

// A Patch is a JSON patch in one piece of memory, which is never to be changed: how many operations
// there are, and of each one its kind and, each behind its length, path and value. nil has none.
type Patch []byte

// kinds are those of operations.
var kinds = [...]string{add, remove, replace}

// PatchOf is the patch of the operations.
func PatchOf(operations []Operation) Patch {
	if len(operations) == 0 {
		return nil
	}
	p := binary.AppendUvarint(nil, uint64(len(operations)))
	for i := range operations {
		o := &operations[i]
		p = appendOperation(p, o.Op, o.Path, o.Value)
	}
	return p
}

// appendOperation appends an operation. An empty value is none, as no JSON is.
func appendOperation[P, V ~string | ~[]byte](b []byte, op string, path P, value V) []byte {
	for kind, name := range kinds {
		if name == op {
			b = append(b, byte(kind))
		}
	}
	b = append(binary.AppendUvarint(b, uint64(len(path))), path...)
	return append(binary.AppendUvarint(b, uint64(len(value))), value...)
}

// Len is how many operations there are.
func (p Patch) Len() int {
	n, _ := binary.Uvarint(p)
	return int(n)
}

// All yields the operations. Their values are memory of the patch.
func (p Patch) All(yield func(Operation) bool) {
	_, size := binary.Uvarint(p)
	for rest := []byte(p[size:]); len(rest) > 0; {
		o := Operation{Op: kinds[rest[0]]}
		rest = rest[1:]
		var path, value []byte
		path, rest = next(rest)
		value, rest = next(rest)
		o.Path = unsafe.String(unsafe.SliceData(path), len(path))
		if len(value) > 0 {
			o.Value = json.RawMessage(value)
		}
		if !yield(o) {
			return
		}
	}
}

// next is what stands behind its length, and what follows.
func next(b []byte) (is, rest []byte) {
	n, size := binary.Uvarint(b)
	end := size + int(n)
	return b[size:end:end], b[end:]
}

// Operations are the operations. Their values are memory of the patch.
func (p Patch) Operations() []Operation {
	if len(p) == 0 {
		return nil
	}
	operations := make([]Operation, 0, p.Len())
	for o := range p.All {
		operations = append(operations, o)
	}
	return operations
}
