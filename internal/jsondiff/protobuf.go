package jsondiff

import (
	"bytes"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
)

// Differing returns the protobuf encodings of two states of an object without the fields that are
// alike in both: what is left has the same differences, and takes less time to decode and compare.
// A list or a map is kept whole if there is a difference in it.
//
// t is the object's type, a struct. The encodings are those of Kubernetes' types, which write the
// elements of a list one after the other.
func Differing(t reflect.Type, before, after []byte) (was, now []byte, err error) {
	return differing(nil, nil, t, before, after)
}

// differing appends what differs to was and now.
func differing(was, now []byte, t reflect.Type, before, after []byte) ([]byte, []byte, error) {
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
			if message == nil || b.content == nil || a.content == nil {
				was, now = append(was, b.all...), append(now, a.all...)
				break
			}
			inWas, inNow, err := differing(nil, nil, message, b.content, a.content)
			if err != nil {
				return nil, nil, err
			}
			was = protowire.AppendBytes(protowire.AppendTag(was, b.number, protowire.BytesType), inWas)
			now = protowire.AppendBytes(protowire.AppendTag(now, b.number, protowire.BytesType), inNow)
		}
		before, after = before[len(b.all):], after[len(a.all):]
	}
	return was, now, nil
}

// encodedField is a field of a message: all elements if it is a list or a map.
type encodedField struct {
	number protowire.Number
	all    []byte
	// content is the value of a field that is there once and has a length, and else nil.
	content []byte
}

// firstField returns the field at the beginning of a message, and nothing of an empty message.
func firstField(message []byte) (encodedField, error) {
	var f encodedField
	end, count := 0, 0
	for end < len(message) {
		number, kind, tag := protowire.ConsumeTag(message[end:])
		if tag < 0 {
			return f, protowire.ParseError(tag)
		}
		if count > 0 && number != f.number {
			break
		}
		length := protowire.ConsumeFieldValue(number, kind, message[end+tag:])
		if length < 0 {
			return f, protowire.ParseError(length)
		}
		f.number, f.content = number, nil
		if kind == protowire.BytesType && count == 0 {
			f.content, _ = protowire.ConsumeBytes(message[end+tag:])
		}
		end += tag + length
		count++
	}
	f.all = message[:end:end]
	return f, nil
}

var knownMessages sync.Map // map[protowire.Number]reflect.Type by reflect.Type

// messagesOf returns the types of a struct's fields that are structs whose fields are compared one
// by one, by their numbers.
func messagesOf(t reflect.Type) map[protowire.Number]reflect.Type {
	if known, ok := knownMessages.Load(t); ok {
		return known.(map[protowire.Number]reflect.Type)
	}
	messages := map[protowire.Number]reflect.Type{}
	for f := range t.Fields() {
		parts := strings.Split(f.Tag.Get("protobuf"), ",")
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		} else if strings.Contains(f.Tag.Get("json"), "omitzero") {
			continue // whether it is there depends on all its fields
		}
		if len(parts) < 2 || kind.Kind() != reflect.Struct || encodesItself(kind) {
			continue
		}
		if number, err := strconv.ParseInt(parts[1], 10, 32); err == nil {
			messages[protowire.Number(number)] = kind
		}
	}
	knownMessages.Store(t, messages)
	return messages
}
