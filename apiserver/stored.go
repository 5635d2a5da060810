package apiserver

import (
	"bytes"

	extensionsserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// builtIn returns the codecs of all kinds that need no CustomResourceDefinition.
func (s *Server) builtIn() []serializer.CodecFactory {
	return []serializer.CodecFactory{legacyscheme.Codecs, aggregatorscheme.Codecs, extensionsserver.Codecs,
		s.options.Legacy.Kinds().Codecs}
}

// builtInSchemes returns the schemes of these kinds.
func (s *Server) builtInSchemes() []*runtime.Scheme {
	return []*runtime.Scheme{legacyscheme.Scheme, aggregatorscheme.Scheme, extensionsserver.Scheme,
		s.options.Legacy.Kinds().Scheme}
}

// protobufPrefix begins a value that is stored in protobuf.
// Source: k8s.io/apimachinery/pkg/runtime/serializer/protobuf.
var protobufPrefix = []byte("k8s\x00")

// Storable returns an object of a built-in kind, given as the API writes it in JSON, as etcd has
// it: in the version and the format of the value that is stored of it. Of a custom resource the
// error is one that runtime.IsNotRegisteredError reports.
func (s *Server) Storable(document, stored []byte) ([]byte, error) {
	mediaType := runtime.ContentTypeJSON
	if bytes.HasPrefix(stored, protobufPrefix) {
		mediaType = runtime.ContentTypeProtobuf
	}
	var notFound error
	for _, codecs := range s.builtIn() {
		_, kind, err := codecs.UniversalDeserializer().Decode(stored, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			notFound = err
			continue
		} else if err != nil {
			return nil, err
		}
		object, _, err := codecs.UniversalDecoder().Decode(document, nil, nil)
		if err != nil {
			return nil, err
		}
		info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
		return runtime.Encode(codecs.EncoderForVersion(info.Serializer, kind.GroupVersion()), object)
	}
	return nil, notFound
}

// Converted returns an object of a built-in kind, in JSON, in another version, or in another group
// that has the kind.
func (s *Server) Converted(document []byte, to schema.GroupVersionKind) ([]byte, error) {
	var notFound error
	for _, codecs := range s.builtIn() {
		object, _, err := codecs.UniversalDecoder().Decode(document, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			notFound = err
			continue
		} else if err != nil {
			return nil, err
		}
		info, _ := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
		return runtime.Encode(codecs.EncoderForVersion(info.Serializer, to.GroupVersion()), object)
	}
	return nil, notFound
}
