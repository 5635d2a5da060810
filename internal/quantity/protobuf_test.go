// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestIsProtobuf(t *testing.T) {
	document, err := runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), &corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	if !IsProtobuf(document) {
		t.Errorf("what Kubernetes' serializer writes begins with %q", document[:min(len(document), 8)])
	}
	if IsProtobuf([]byte(`{"kind":"Pod"}`)) || IsProtobuf(nil) {
		t.Error("JSON, or nothing, is protobuf")
	}
}
