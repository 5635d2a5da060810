// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package negotiation chooses the encodings of our kinds.
package negotiation

import "k8s.io/apimachinery/pkg/runtime"

// WithoutProtobuf returns a serializer that offers only JSON and YAML, for kinds without a protobuf
// form.
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
