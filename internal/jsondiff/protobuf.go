// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package jsondiff

import (
	"bytes"
	"iter"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// Differing returns the protobuf encodings of two states of an object without the fields that are
// equal in both. The rest has the same differences, and takes less time to decode and compare.
// Elements of lists keep their places. A list stays whole if its elements changed places, and a map
// if anything in it differs.
//
// t is the object's type, a struct. The encodings must be those of Kubernetes' types, which write
// the elements of a list one after the other.
func Differing(t reflect.Type, before, after []byte) (was, now []byte, err error) {
	for len(before) > 0 || len(after) > 0 {
		b, err := firstField(before)
		if err != nil {
			return nil, nil, err
		}
		a, err := firstField(after)
		if err != nil {
			return nil, nil, err
		}
		switch {
		case len(after) == 0 || len(before) > 0 && b.number < a.number:
			was, a.all = append(was, b.all...), nil
		case len(before) == 0 || a.number < b.number:
			now, b.all = append(now, a.all...), nil
		case bytes.Equal(b.all, a.all):
		default:
			message := messagesOf(t)[b.number]
			if message.kind == nil || b.count != a.count || !message.inPlace(b.all, a.all) {
				was, now = append(was, b.all...), append(now, a.all...)
				break
			}
			for inBefore, inAfter := range pairs(b.all, a.all) {
				inWas, inNow, err := Differing(message.kind, inBefore, inAfter)
				if err != nil {
					return nil, nil, err
				}
				was = protowire.AppendBytes(protowire.AppendTag(was, b.number, protowire.BytesType), inWas)
				now = protowire.AppendBytes(protowire.AppendTag(now, a.number, protowire.BytesType), inNow)
			}
		}
		before, after = before[len(b.all):], after[len(a.all):]
	}
	return was, now, nil
}

// encodedField is a field of a message: all elements if it is a list or a map.
type encodedField struct {
	number protowire.Number
	all    []byte
	count  int
}

// firstField returns the field at the beginning of a message, and nothing of an empty message.
func firstField(message []byte) (f encodedField, err error) {
	end := 0
	for end < len(message) {
		number, _, length := protowire.ConsumeField(message[end:])
		if length < 0 {
			return f, protowire.ParseError(length)
		}
		if f.count > 0 && number != f.number {
			break
		}
		f.number = number
		end += length
		f.count++
	}
	f.all = message[:end]
	return f, nil
}

// pairs returns the contents of the elements of two fields that have the same number of them. An
// element that isn't a message is nil.
func pairs(before, after []byte) iter.Seq2[[]byte, []byte] {
	first := func(field []byte) (content, rest []byte) {
		_, kind, tag := protowire.ConsumeTag(field)
		if kind == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(field[tag:])
		}
		_, _, length := protowire.ConsumeField(field)
		return content, field[length:]
	}
	return func(yield func(was, now []byte) bool) {
		for len(before) > 0 && len(after) > 0 {
			var was, now []byte
			was, before = first(before)
			now, after = first(after)
			if !yield(was, now) {
				return
			}
		}
	}
}

// message describes a field that has a message, or a list of messages, whose fields are compared
// one by one.
type message struct {
	kind reflect.Type
	// key is the number of the field that tells the elements of a list apart, 0 if none does.
	key protowire.Number
}

// inPlace reports whether each element of a list is compared with the one in its place.
func (m message) inPlace(before, after []byte) bool {
	for was, now := range pairs(before, after) {
		if was == nil || now == nil {
			return false
		}
		if m.key != 0 && !bytes.Equal(findField(was, m.key), findField(now, m.key)) {
			return false
		}
	}
	return true
}

// findField returns the encoding of a message's field, nil if there is none.
func findField(message []byte, number protowire.Number) []byte {
	for len(message) > 0 {
		f, err := firstField(message)
		if err != nil || f.number == number {
			return f.all
		}
		message = message[len(f.all):]
	}
	return nil
}

var knownMessages sync.Map // map[protowire.Number]message by reflect.Type

// messagesOf returns the fields of a struct that are messages, by their numbers.
func messagesOf(t reflect.Type) map[protowire.Number]message {
	if known, ok := knownMessages.Load(t); ok {
		return known.(map[protowire.Number]message)
	}
	messages := map[protowire.Number]message{}
	for f := range t.Fields() {
		m := message{kind: f.Type}
		switch {
		case f.Type.Kind() == reflect.Slice:
			m.kind = f.Type.Elem()
			if key := f.Tag.Get("patchMergeKey"); key != "" {
				m.key = keyOf(m.kind, key)
			}
		case f.Type.Kind() == reflect.Pointer:
			m.kind = f.Type.Elem()
		case strings.Contains(f.Tag.Get("json"), "omitzero"):
			continue // whether it is there depends on all its fields
		}
		if number := numberOf(f); number != 0 && m.kind.Kind() == reflect.Struct && !encodesItself(m.kind) &&
			!encodesItself(f.Type) {
			messages[number] = m
		}
	}
	known, _ := knownMessages.LoadOrStore(t, messages)
	return known.(map[protowire.Number]message)
}

// keyOf returns the number of the struct's field that has the name in JSON, 0 if there is none.
func keyOf(t reflect.Type, name string) protowire.Number {
	if t.Kind() != reflect.Struct {
		return 0
	}
	for _, f := range fieldsOf(t) {
		if f.name == name {
			return numberOf(t.Field(f.index))
		}
	}
	return 0
}

// numberOf returns a field's number in protobuf, 0 if it has none.
func numberOf(f reflect.StructField) protowire.Number {
	parts := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return 0
	}
	number, err := strconv.ParseInt(parts[1], 10, 32)
	if err != nil {
		return 0
	}
	return protowire.Number(number)
}
