// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quantity

import "bytes"

// protobufPrefix is the prefix of protobuf documents that Kubernetes writes.
//
// Source: k8s.io/apimachinery/pkg/runtime/serializer/protobuf 2754836b
var protobufPrefix = []byte("k8s\x00")

// IsProtobuf reports whether a document is one that Kubernetes wrote in protobuf.
func IsProtobuf(document []byte) bool { return bytes.HasPrefix(document, protobufPrefix) }

// maxDepth bounds how many messages deep markMessage looks for a quantity's text. Kubernetes' kinds
// have none deeper than 16.
const maxDepth = 24

// markProtobuf returns a copy of a message with marks, nil if there is nothing to mark. The kind of
// the message isn't known, so markProtobuf takes everything that can be a text or a message for
// both. A mark in a text that only looks like a message makes no difference.
func markProtobuf(message []byte) []byte {
	var copied []byte
	markMessage(message, min(len(protobufPrefix), len(message)), len(message), 0, func(i int) {
		if copied == nil {
			copied = bytes.Clone(message)
		}
		copied[i] = marked
	})
	return copied
}

// markMessage calls mark for the first character of each text that is TooLong in the message at
// data[i:end]. It reads numbers as Kubernetes' generated code does, and groups as the fields that
// are in them.
func markMessage(data []byte, i, end, depth int, mark func(i int)) {
	for i < end {
		tag, next := varint(data, i, end)
		i = next
		switch tag & 7 {
		case 0:
			_, i = varint(data, i, end)
		case 1:
			i += 8
		case 5:
			i += 4
		case 2:
			n, begin := varint(data, i, end)
			if n > uint64(end-begin) {
				return
			}
			i = begin + int(n)
			// A message begins with a tag, which may be a space; a quantity does not.
			if n >= minLength && data[begin] > ' ' && canBegin(data[begin]) && TooLong(string(data[begin:i])) {
				mark(begin)
			}
			if depth < maxDepth {
				markMessage(data, begin, i, depth+1, mark)
			}
		case 6, 7:
			return // it isn't a message
		}
	}
}

// varint returns the number at data[i:end] and the index after it. A number that is missing or too
// long ends the message.
func varint(data []byte, i, end int) (n uint64, next int) {
	for shift := 0; shift < 64 && i < end; shift += 7 {
		b := data[i]
		i++
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n, i
		}
	}
	return 0, end
}
