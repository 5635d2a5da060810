// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/kube-openapi/pkg/spec3"
)

// Schemas holds the schemas of a server's kinds, read from its OpenAPI when they are asked for. It
// is safe for concurrent use.
//
// The server has an index that shows which of its documents have changed. The index is read when a
// schema is asked for and the last reading is five seconds old, or the kind isn't known yet. If no
// policy needs a schema, nothing is read.
//
// Upstream reads the index every five seconds.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/typeconverter.go#typeConverterManager 919d314c
type Schemas struct {
	server discovery.OpenAPIV3SchemaInterface
	now    func() time.Time

	// reading is held while the index is read.
	reading sync.Mutex

	mu        sync.Mutex
	lastRead  time.Time
	documents map[schema.GroupVersion]*document
}

// refreshAge is the age at which the index is read again.
const refreshAge = 5 * time.Second

// NewSchemas returns the schemas of a server.
func NewSchemas(server discovery.OpenAPIV3SchemaInterface) *Schemas {
	return &Schemas{server: server, now: time.Now}
}

// document is the server's document of one group and version.
type document struct {
	source openapi.GroupVersion

	mu        sync.Mutex
	converter managedfields.TypeConverter
}

// converter returns a converter of a kind's objects to values with a schema. The error is a 503 in
// upstream's words.
func (s *Schemas) converter(kind schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	for _, age := range []time.Duration{refreshAge, 0} {
		s.refreshIndex(age)
		s.mu.Lock()
		d := s.documents[kind.GroupVersion()]
		s.mu.Unlock()
		if d == nil {
			continue
		}
		converter, err := d.load()
		if err != nil {
			utilruntime.HandleError(fmt.Errorf("schema of %v: %w", kind.GroupVersion(), err))
			continue
		}
		if hasKind(converter, kind) || age == 0 {
			return converter, nil
		}
	}
	return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("Resource kind %s not found. There can be a delay "+
		"between when CustomResourceDefinitions are created and when they are available.", kind))
}

func hasKind(converter managedfields.TypeConverter, kind schema.GroupVersionKind) bool {
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(kind)
	_, err := converter.ObjectToTyped(empty)
	return err == nil
}

// refreshIndex reads the index if the last reading is at least as old as age. If another goroutine
// is reading it, callers that know an index go on with that, unless the age is 0.
func (s *Schemas) refreshIndex(age time.Duration) {
	begin := s.now()
	s.mu.Lock()
	fresh, wait := begin.Sub(s.lastRead) < age, s.documents == nil || age == 0
	s.mu.Unlock()
	if fresh {
		return
	}
	if wait {
		s.reading.Lock()
	} else if !s.reading.TryLock() {
		return
	}
	defer s.reading.Unlock()
	s.mu.Lock()
	fresh = s.lastRead.After(begin) // another goroutine has read it
	s.mu.Unlock()
	if fresh {
		return
	}
	read := s.now()
	paths, err := s.server.OpenAPIV3().Paths()
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("failed to fetch openapi paths: %w", err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastRead = read
	if err == nil {
		s.documents = updateDocuments(s.documents, paths)
	}
}

// updateDocuments returns the documents of an index. It takes over those that haven't changed.
func updateDocuments(known map[schema.GroupVersion]*document,
	paths map[string]openapi.GroupVersion) map[schema.GroupVersion]*document {
	documents := make(map[schema.GroupVersion]*document, len(paths))
	for path, source := range paths {
		name, ok := strings.CutPrefix(path, "apis/")
		if !ok {
			name, ok = strings.CutPrefix(path, "api/")
		}
		version, err := schema.ParseGroupVersion(name)
		if !ok || err != nil {
			continue // not the document of an API
		}
		d := known[version]
		if d == nil || d.source.ServerRelativeURL() != source.ServerRelativeURL() {
			d = &document{source: source}
		}
		documents[version] = d
	}
	return documents
}

// load returns the document's converter. It reads the document the first time.
func (d *document) load() (managedfields.TypeConverter, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.converter != nil {
		return d.converter, nil
	}
	data, err := d.source.Schema(runtime.ContentTypeJSON)
	if err != nil {
		return nil, err
	}
	var content spec3.OpenAPI
	if err := json.Unmarshal(data, &content); err != nil {
		return nil, err
	}
	if content.Components == nil {
		return nil, fmt.Errorf("the document has no components")
	}
	d.converter, err = managedfields.NewTypeConverter(content.Components.Schemas, false)
	return d.converter, err
}
