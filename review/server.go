// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/apiserver"
	"gatehouse.dev/internal/collect"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/scratch"
	"gatehouse.dev/server"
)

// A cluster is the server in the process, with what is needed to send it requests.
type cluster struct {
	server *server.Server
	// store is the server's etcd.
	store clientv3.KV
	// handler answers requests without authorization, authorizing with it.
	handler, authorizing http.Handler
	discovery            discovery.CachedDiscoveryInterface
	mapper               meta.ResettableRESTMapper
	// custom maps the custom resources that were defined since the start.
	custom map[schema.GroupVersionKind]*meta.RESTMapping
	// undescribed are the definitions of custom resources, by name, of which the server's OpenAPI
	// documents may not tell yet. mutated are the API groups of which policies may need them; "*" for all.
	undescribed map[string]*unstructured.Unstructured
	// params has the kinds of which policies have params.
	params  map[schema.GroupKind]bool
	mutated map[string]bool
	// stored has the version in which the objects of each of these kinds are stored.
	stored map[schema.GroupKind]string
	// refused has the kinds whose CustomResourceDefinitions were refused, with the definitions' sources. unserved has
	// the definitions that are stored and not served, by their names.
	refused  map[schema.GroupKind]input.Source
	unserved map[string]unserved
	// refusedNamespaces are the namespaces that were refused.
	refusedNamespaces map[string]input.Source
	// aggregated reports whether ClusterRoles have the rules of those that they aggregate.
	aggregated bool
	// keys are the keys under which the store has the objects of a resource, as far as they are
	// known.
	keys map[schema.GroupResource]string
	stop func() error
}

// startCluster starts a server with a configuration, in a directory of its own. stop removes the
// directory.
func startCluster(ctx context.Context, config *server.Config) (*cluster, error) {
	dir, err := scratch.Fast("gatehouse-review-")
	if err != nil {
		return nil, err
	}
	return startClusterIn(ctx, config, dir)
}

// startClusterIn starts a server with a configuration in a directory, which stop removes, and which is
// removed if the server doesn't start.
func startClusterIn(ctx context.Context, config *server.Config, dir string) (*cluster, error) {
	defer collect.Little()()
	config.API.DataDir = dir
	config.API.InProcess = true
	// Only the server itself watches, and its watches needn't be ended one by one.
	config.API.Run.ShutdownWatchTerminationGracePeriod = 0
	// One client asks one thing at a time.
	config.API.Features.EnablePriorityAndFairness = false
	// Controllers would do their work while objects are judged, sooner or later.
	config.Controllers.Controllers = nil
	config.Decisions = decision.NewOptions()
	config.Decisions.Values = decision.ValuesShown // the manifests are the user's own
	ctx, cancel := context.WithCancel(ctx)
	fail := func(err error) (*cluster, error) {
		cancel()
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s, err := server.New(ctx, config)
	if err != nil {
		return fail(err)
	}
	s.Etcd().OnFailure(func() {
		fmt.Fprintf(os.Stderr, "gatehouse: nothing can be judged without it: free space at %s, or set TMPDIR to a directory "+
			"that has more\n", filepath.Dir(dir))
		os.RemoveAll(dir)
		os.Exit(ExitFailed)
	})
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	c := &cluster{server: s, store: s.Etcd().Client().KV, handler: s.Handler(false), authorizing: s.Handler(true),
		custom: map[schema.GroupVersionKind]*meta.RESTMapping{}, refused: map[schema.GroupKind]input.Source{},
		stored: map[schema.GroupKind]string{}, unserved: map[string]unserved{},
		undescribed: map[string]*unstructured.Unstructured{}, params: map[schema.GroupKind]bool{}, mutated: map[string]bool{},
		refusedNamespaces: map[string]input.Source{},
		keys:              map[schema.GroupResource]string{}}
	c.stop = func() error {
		cancel()
		return errors.Join(<-ended, os.RemoveAll(dir))
	}
	select {
	case <-s.Ready():
	case err := <-ended:
		return fail(err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(c.config())
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	c.discovery = memory.NewMemCacheClient(client)
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(c.discovery)
	return c, nil
}

// admin may do everything.
var admin = withCredential(&user.DefaultInfo{Name: "kubernetes-admin", Groups: []string{user.SystemPrivilegedGroup,
	user.AllAuthenticated}})

// config returns the configuration of a client whose requests don't leave the process.
func (c *cluster) config() *rest.Config {
	return &rest.Config{Host: "http://gatehouse", QPS: -1, Transport: transport(func(r *http.Request) *http.Response {
		return c.serve(request.WithUser(r.Context(), admin), c.handler, r)
	})}
}

// A transport answers requests by calling a function.
type transport func(*http.Request) *http.Response

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r), nil }

// serve returns the answer of a handler to a client's request.
func (c *cluster) serve(ctx context.Context, handler http.Handler, r *http.Request) *http.Response {
	recorder := httptest.NewRecorder()
	// A handler reads what a server's request has.
	served := r.Clone(ctx)
	served.RequestURI = served.URL.RequestURI()
	if served.Body == nil {
		served.Body = http.NoBody
	}
	handler.ServeHTTP(recorder, served)
	response := recorder.Result()
	response.Request = r
	return response
}

// A call is a request for one object.
type call struct {
	verb        string // HTTP's
	resource    meta.RESTMapping
	namespace   string
	name        string
	subresource string
	query       url.Values
	contentType string
	body        *unstructured.Unstructured
	raw         []byte // in place of body
	as          user.Info
	authorize   bool
	// state says that the object is stored without admission.
	state bool
	// before is the object that the call changes; nil for none.
	before *unstructured.Unstructured
	// dryRun says that nothing is stored.
	dryRun bool
}

// An answer is the result of a call.
type answer struct {
	code     int
	object   *unstructured.Unstructured // what was answered: the object or a Status
	warnings []string
	decision *v1alpha1.Decision
}

// ok reports whether the call succeeded.
func (a *answer) ok() bool { return a.code >= 200 && a.code < 300 }

// message returns the message in the Status of a call that failed.
func (a *answer) message() string {
	if a.object == nil {
		return http.StatusText(a.code)
	}
	message, _, _ := unstructured.NestedString(a.object.Object, "message")
	return schemeName.ReplaceAllString(message, "")
}

// schemeName matches the name of a Go scheme, a line of the server's source, in the error of a kind that it doesn't have.
var schemeName = regexp.MustCompile(` in scheme "[^"]*"`)

func (c call) path() string {
	gv := c.resource.Resource.GroupVersion()
	path := "/apis/" + gv.String()
	if gv.Group == "" {
		path = "/api/" + gv.Version
	}
	if c.namespace != "" && c.resource.Scope.Name() == meta.RESTScopeNameNamespace {
		path += "/namespaces/" + c.namespace
	}
	path += "/" + c.resource.Resource.Resource
	if c.name != "" {
		path += "/" + c.name
	}
	if c.subresource != "" {
		path += "/" + c.subresource
	}
	return path
}

// do makes a call.
func (c *cluster) do(ctx context.Context, call call) (*answer, error) {
	body := call.raw
	if call.body != nil {
		var err error
		if body, err = json.Marshal(call.body); err != nil {
			return nil, err
		}
	}
	u := &url.URL{Scheme: "http", Host: "gatehouse", Path: call.path(), RawQuery: call.query.Encode()}
	ctx = request.WithUser(ctx, call.as)
	if call.state {
		ctx = apiserver.WithoutAdmission(ctx)
	}
	r, err := http.NewRequestWithContext(ctx, call.verb, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	contentType := call.contentType
	if contentType == "" {
		contentType = "application/json"
	}
	id := string(uuid.NewUUID())
	r.Header.Set("Audit-ID", id)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "gatehouse-review")
	handler := c.handler
	if call.authorize {
		handler = c.authorizing
	}
	response := c.serve(ctx, handler, r)
	a := &answer{code: response.StatusCode}
	var content any
	buffer := new(bytes.Buffer)
	if _, err := buffer.ReadFrom(response.Body); err != nil {
		return nil, err
	}
	if utiljson.Unmarshal(buffer.Bytes(), &content) == nil {
		if fields, ok := content.(map[string]any); ok {
			a.object = &unstructured.Unstructured{Object: fields}
		}
	} else if !a.ok() {
		a.object = &unstructured.Unstructured{Object: map[string]any{"message": buffer.String()}}
	}
	warnings, _ := utilnet.ParseWarningHeaders(response.Header.Values("Warning"))
	for _, w := range warnings {
		if !slices.Contains(a.warnings, w.Text) {
			a.warnings = append(a.warnings, w.Text)
		}
	}
	namespace := call.namespace
	if call.resource.Scope.Name() == meta.RESTScopeNameRoot {
		namespace = metav1.NamespaceDefault
	}
	a.decision = c.server.Decisions().Get(namespace, id)
	return a, nil
}

// findKind returns the mapping by which an object is served.
func (c *cluster) findKind(object *unstructured.Unstructured) (*meta.RESTMapping, error) {
	kind := object.GroupVersionKind()
	if mapping := c.custom[kind]; mapping != nil {
		return mapping, nil
	}
	for _, definition := range c.unserved {
		if definition.kind == kind.GroupKind() {
			return nil, unservedKindError{kind, definition.why}
		}
	}
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) || err == nil && c.isLowered(mapping) {
		return nil, c.unknownKind(kind)
	}
	if err != nil {
		return nil, fmt.Errorf("finding out how %s is served: %w", kind, err)
	}
	return mapping, nil
}

// isLowered reports whether a mapping is that of a kind in lower case, which the mapper has beside each kind.
func (c *cluster) isLowered(mapping *meta.RESTMapping) bool {
	kind := mapping.GroupVersionKind.Kind
	if kind != strings.ToLower(kind) {
		return false
	}
	served, err := c.mapper.KindFor(mapping.Resource)
	return err == nil && served.Kind != kind
}

// findResource returns the mapping by which a resource is served.
func (c *cluster) findResource(resource schema.GroupVersionResource) (*meta.RESTMapping, error) {
	for kind, mapping := range c.custom {
		if mapping.Resource == resource {
			return c.custom[kind], nil
		}
	}
	kind, err := c.mapper.KindFor(resource)
	if err == nil && kind.GroupVersion() != resource.GroupVersion() {
		err = &meta.NoResourceMatchError{PartialResource: resource}
	}
	if err != nil {
		return nil, fmt.Errorf("finding out how %s of %s are served: %w", resource.Resource, resource.GroupVersion(),
			err)
	}
	return c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
}

// An unserved is a CustomResourceDefinition that is not served: its kind, and the server's reason.
type unserved struct {
	kind schema.GroupKind
	why  string
}

// An unservedKindError says that a kind is not served although its CustomResourceDefinition is stored.
type unservedKindError struct {
	kind schema.GroupVersionKind
	why  string
}

// Error names the kind and the server's reason.
func (e unservedKindError) Error() string {
	return fmt.Sprintf("no matches for kind %q in version %q: its CustomResourceDefinition %s", e.kind.Kind,
		e.kind.GroupVersion(), e.why)
}

// An unknownKindError says that a kind is not served.
type unknownKindError struct {
	kind       schema.GroupVersionKind
	suggestion string
	// isForeign reports whether the kind is that of a CustomResourceDefinition that isn't there, as far as anybody can
	// tell. Otherwise it is misspelt, or not served any more.
	isForeign bool
}

// Error names the kind, and what it was likely meant to be.
func (e unknownKindError) Error() string {
	return e.short() + e.suggestion
}

// short names the kind alone.
func (e unknownKindError) short() string {
	return fmt.Sprintf("no matches for kind %q in version %q", e.kind.Kind, e.kind.GroupVersion())
}
