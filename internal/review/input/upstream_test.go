// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package input

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/internal/kubesource"
)

// templates has every kind of Kubernetes' APIs that has a template of pods, and where.
func TestTemplatesAreUpstreams(t *testing.T) {
	theirs := map[schema.GroupKind]string{{Kind: "Pod"}: ""}
	for kind, of := range scheme.Scheme.AllKnownTypes() {
		if _, ok := of.FieldByName("ObjectMeta"); !ok || kind.Version == "__internal" {
			continue
		}
		if path := templateIn(of, 4); path != nil {
			theirs[kind.GroupKind()] = strings.Join(path, ".")
		}
	}
	ours := map[schema.GroupKind]string{}
	for kind, path := range templates {
		ours[kind] = strings.Join(path, ".")
	}
	if len(theirs) < 10 || !maps.Equal(ours, theirs) {
		t.Errorf("templates of pods are in\n%v\nin k8s.io/api\n%v", ours, theirs)
	}
}

// templateIn returns the path of the field of type PodTemplateSpec in a struct.
func templateIn(of reflect.Type, depth int) []string {
	for i := 0; of.Kind() == reflect.Struct && depth > 0 && i < of.NumField(); i++ {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if name == "" || inner == of {
			continue
		}
		if inner == reflect.TypeFor[corev1.PodTemplateSpec]() {
			return []string{name}
		}
		if path := templateIn(inner, depth-1); path != nil {
			return append([]string{name}, path...)
		}
	}
	return nil
}

func TestDefaultClassIsUpstreams(t *testing.T) {
	source := kubesource.Parse(t, "k8s.io/kubernetes/pkg/volume/util/storageclass.go")
	want := slices.Concat(kubesource.Strings(source.Value("IsDefaultStorageClassAnnotation")),
		kubesource.Strings(source.Value("BetaIsDefaultStorageClassAnnotation")),
		[]string{networkingv1.AnnotationIsDefaultIngressClass})
	if !slices.Equal(DefaultClass, want) {
		t.Errorf("annotations of default classes are %q, upstream's are %q", DefaultClass, want)
	}
}
