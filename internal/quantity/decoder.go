// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Decoder returns a decoder of JSON, YAML and protobuf that decodes as d does, and refuses an
// object that has a quantity which is TooLong.
func Decoder(d runtime.Decoder) runtime.Decoder { return &decoder{d, markAny} }

// decoder refuses documents that have a quantity which is TooLong. mark returns a copy of a
// document with marks, nil if there is nothing to mark.
type decoder struct {
	runtime.Decoder
	mark func(document []byte) []byte
}

// Decode implements runtime.Decoder. A quantity that is TooLong gets the same error as a text that
// is no quantity.
func (d *decoder) Decode(data []byte, kind *schema.GroupVersionKind, into runtime.Object) (
	runtime.Object, *schema.GroupVersionKind, error) {
	if marked := d.mark(data); marked != nil {
		var empty runtime.Object
		if into != nil {
			empty = into.DeepCopyObject()
		}
		if _, of, err := d.Decoder.Decode(marked, kind, empty); isWrong(err) {
			return nil, of, resource.ErrFormatWrong
		}
	}
	return d.Decoder.Decode(data, kind, into)
}

// Serializer returns a serializer whose decoders, of any format, refuse an object that has a
// quantity which is TooLong.
func Serializer(s runtime.NegotiatedSerializer) runtime.NegotiatedSerializer {
	marks := map[runtime.Decoder]func([]byte) []byte{}
	for _, info := range s.SupportedMediaTypes() {
		mark := markAny
		switch info.MediaType {
		case runtime.ContentTypeJSON:
			mark = markJSON
		case runtime.ContentTypeYAML:
			mark = markYAML
		case runtime.ContentTypeProtobuf:
			mark = markProtobuf
		case runtime.ContentTypeCBOR:
			mark = markCBOR
		}
		marks[info.Serializer], marks[info.StrictSerializer] = mark, mark
	}
	return boundedSerializer{s, marks}
}

type boundedSerializer struct {
	runtime.NegotiatedSerializer
	// marks holds the mark function for the decoder of each format.
	marks map[runtime.Decoder]func(document []byte) []byte
}

// DecoderToVersion implements runtime.NegotiatedSerializer. It makes each decoder of a request.
func (s boundedSerializer) DecoderToVersion(d runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	mark := s.marks[d]
	if mark == nil {
		mark = markAny
	}
	return s.NegotiatedSerializer.DecoderToVersion(&decoder{d, mark}, version)
}
