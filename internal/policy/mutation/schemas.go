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

// Schemas are what the server's OpenAPI says of its kinds, as far as it has been asked. They may be
// used concurrently.
//
// The server tells by an index which of its documents have changed. The index is read when somebody
// asks for a schema, if that was not done in the last five seconds, and after a second for a kind
// that isn't known yet; so nothing runs where no policy needs a schema.
//
// Source: typeConverterManager in
// k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/typeconverter.go, which reads the
// index every five seconds.
type Schemas struct {
	server discovery.OpenAPIV3SchemaInterface
	now    func() time.Time

	// reading is held by who reads the index.
	reading sync.Mutex

	mu        sync.Mutex
	asked     time.Time
	documents map[schema.GroupVersion]*document
}

const (
	// stale is the age at which the index is read again.
	stale = 5 * time.Second
	// hopeful is the age at which it is read again for a kind that isn't in it.
	hopeful = time.Second
)

// NewSchemas returns the schemas of a server.
func NewSchemas(server discovery.OpenAPIV3SchemaInterface) *Schemas {
	return &Schemas{server: server, now: time.Now}
}

// document is what the server says of one group version.
type document struct {
	source openapi.GroupVersion

	mu        sync.Mutex
	converter managedfields.TypeConverter
}

// converter returns what turns objects of a kind into values with a schema. The error is a 503 in
// upstream's words.
func (s *Schemas) converter(kind schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	for _, age := range []time.Duration{stale, hopeful} {
		s.read(age)
		s.mu.Lock()
		d := s.documents[kind.GroupVersion()]
		s.mu.Unlock()
		if d == nil {
			continue
		}
		converter, err := d.get()
		if err != nil {
			utilruntime.HandleError(fmt.Errorf("schema of %v: %w", kind.GroupVersion(), err))
			continue
		}
		if knows(converter, kind) || age == hopeful {
			return converter, nil
		}
	}
	return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("Resource kind %s not found. There can be a delay "+
		"between when CustomResourceDefinitions are created and when they are available.", kind))
}

func knows(converter managedfields.TypeConverter, kind schema.GroupVersionKind) bool {
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(kind)
	_, err := converter.ObjectToTyped(empty)
	return err == nil
}

// read reads the index, if it is of that age. While somebody reads it, others go on with what is
// known, unless that is nothing.
func (s *Schemas) read(age time.Duration) {
	s.mu.Lock()
	fresh, empty := s.now().Sub(s.asked) < age, s.documents == nil
	s.mu.Unlock()
	if fresh {
		return
	}
	if empty {
		s.reading.Lock()
	} else if !s.reading.TryLock() {
		return
	}
	defer s.reading.Unlock()
	s.mu.Lock()
	fresh = s.now().Sub(s.asked) < age // somebody may have been faster
	s.mu.Unlock()
	if fresh {
		return
	}
	paths, err := s.server.OpenAPIV3().Paths()
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("failed to fetch openapi paths: %w", err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = s.now()
	if err == nil {
		s.documents = replaced(s.documents, paths)
	}
}

// replaced returns the documents of an index. Those that haven't changed are taken over.
func replaced(known map[schema.GroupVersion]*document,
	paths map[string]openapi.GroupVersion) map[schema.GroupVersion]*document {
	documents := make(map[schema.GroupVersion]*document, len(paths))
	for path, source := range paths {
		name, ok := strings.CutPrefix(path, "apis/")
		if !ok {
			name, ok = strings.CutPrefix(path, "api/")
		}
		version, err := schema.ParseGroupVersion(name)
		if !ok || err != nil {
			continue // of something that isn't an API
		}
		d := known[version]
		if d == nil || d.source.ServerRelativeURL() != source.ServerRelativeURL() {
			d = &document{source: source}
		}
		documents[version] = d
	}
	return documents
}

// get reads the document when it is first needed.
func (d *document) get() (managedfields.TypeConverter, error) {
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
