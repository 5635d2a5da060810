package apiserver

import (
	"bytes"

	extensionsserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"gatehouse.dev/legacy/removed"
)

// builtIn are the codecs of all kinds that need no CustomResourceDefinition.
var builtIn = []serializer.CodecFactory{legacyscheme.Codecs, aggregatorscheme.Codecs, extensionsserver.Codecs,
	serializer.NewCodecFactory(removed.Scheme)}

// builtInSchemes are the schemes of these kinds.
var builtInSchemes = []*runtime.Scheme{legacyscheme.Scheme, aggregatorscheme.Scheme, extensionsserver.Scheme,
	removed.Scheme}

// protobufPrefix begins a value that is stored in protobuf.
// Source: k8s.io/apimachinery/pkg/runtime/serializer/protobuf.
var protobufPrefix = []byte("k8s\x00")

// Storable returns an object of a built-in kind, given as the API writes it in JSON, as etcd has
// it: in the version and the format of the value that is stored of it. Of a custom resource the
// error is one that runtime.IsNotRegisteredError reports.
func Storable(document, stored []byte) ([]byte, error) {
	mediaType := runtime.ContentTypeJSON
	if bytes.HasPrefix(stored, protobufPrefix) {
		mediaType = runtime.ContentTypeProtobuf
	}
	var notFound error
	for _, codecs := range builtIn {
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
func Converted(document []byte, to schema.GroupVersionKind) ([]byte, error) {
	var notFound error
	for _, codecs := range builtIn {
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
