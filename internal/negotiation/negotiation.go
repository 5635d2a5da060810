// Package negotiation is what our kinds are sent as.
package negotiation

import "k8s.io/apimachinery/pkg/runtime"

// WithoutProtobuf offers JSON and YAML of what a serializer offers. Kinds that have no protobuf
// form, as custom resources haven't, are sent so.
func WithoutProtobuf(s runtime.NegotiatedSerializer) runtime.NegotiatedSerializer {
	return withoutProtobuf{s}
}

type withoutProtobuf struct{ runtime.NegotiatedSerializer }

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (s withoutProtobuf) SupportedMediaTypes() []runtime.SerializerInfo {
	var supported []runtime.SerializerInfo
	for _, info := range s.NegotiatedSerializer.SupportedMediaTypes() {
		if info.MediaType != runtime.ContentTypeProtobuf {
			supported = append(supported, info)
		}
	}
	return supported
}
