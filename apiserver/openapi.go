// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/kube-openapi/pkg/builder"
	"k8s.io/kube-openapi/pkg/cached"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/common/restfuladapter"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// The OpenAPI documents of Kubernetes' own kinds are made when a client first asks for them. The library
// makes all of them while the server starts, which takes as long as the rest of a start and tens of
// megabytes. Most servers that a test starts are never asked for them.
//
// Only the hash must be known at once by which the index of /openapi/v3 tells clients that their copy of a
// document is still good. The library hashes the document. This package hashes all that the document is
// made from: the program, its features, and the routes of the group.

// ownDefinitions has a server describe what it serves by definitions, not by those of all kinds
// that the program knows.
func ownDefinitions(g *server.Config, definitions common.GetOpenAPIDefinitions) {
	definitions = openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(definitions)
	v2, v3 := *g.OpenAPIConfig, *g.OpenAPIV3Config
	v2.GetDefinitions, v3.GetDefinitions, v3.Definitions = definitions, definitions, nil
	g.OpenAPIConfig, g.OpenAPIV3Config = &v2, &v3
}

// installOpenAPI makes s serve /openapi/v2 and /openapi/v3 for all that its container serves by
// now.
func (c *config) installOpenAPI(s *server.GenericAPIServer, v2 *common.Config, v3 *common.OpenAPIV3Config) error {
	// Each description gets definitions of its own: the library writes to them, and two may be
	// built at a time. What nobody asks for is not kept.
	v3.Definitions = nil
	program := programHash()
	services := s.Handler.GoRestfulContainer.RegisteredWebServices()
	lazy := cached.Once(cached.Func(func() (*spec.Swagger, string, error) {
		swagger, err := builder.BuildOpenAPISpecFromRoutes(restfuladapter.AdaptWebServices(services), v2)
		if err != nil {
			return nil, "", err
		}
		swagger.Definitions = handler.PruneDefaults(swagger.Definitions)
		return swagger, program, nil
	}))
	handler.NewOpenAPIServiceLazy(lazy).RegisterOpenAPIVersionedService("/openapi/v2", s.Handler.NonGoRestfulMux)

	documents, err := newDocuments(program, services, v3)
	if err != nil {
		return err
	}
	s.Handler.NonGoRestfulMux.Handle(documentsPath, http.HandlerFunc(documents.serveIndex))
	s.Handler.NonGoRestfulMux.HandlePrefix(documentsPath+"/", http.HandlerFunc(documents.serveDocument))
	return nil
}

const documentsPath = "/openapi/v3"

// documents are the OpenAPI v3 documents of a server, one for each group version.
type documents struct {
	index  []byte
	byName map[string]*document // by path below documentsPath, as apis/apps/v1
}

type document struct {
	hash    string
	handler func() http.Handler
}

// newDocuments returns the documents of services, for a program with that hash.
func newDocuments(program string, services []*restful.WebService, config *common.OpenAPIV3Config) (*documents,
	error) {
	d := &documents{byName: map[string]*document{}}
	index := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for _, service := range services {
		name := strings.TrimPrefix(service.RootPath(), "/")
		doc := &document{hash: routesHash(program, service),
			handler: sync.OnceValue(func() http.Handler { return describe(service, config) })}
		d.byName[name] = doc
		index.Paths[name] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: doc.url(name)}
	}
	var err error
	d.index, err = json.Marshal(index)
	return d, err
}

// describe builds the document of one group version.
func describe(service *restful.WebService, config *common.OpenAPIV3Config) http.Handler {
	container := restful.NewContainer()
	container.Add(service)
	handler := mux.NewPathRecorderMux("openapi")
	routes.OpenAPI{V3Config: config}.InstallV3(container, handler)
	return handler
}

func (d *document) url(name string) string {
	return (&url.URL{Path: documentsPath + "/" + name, RawQuery: url.Values{"hash": {d.hash}}.Encode()}).String()
}

func (d *documents) serveIndex(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(d.index)
}

// serveDocument answers as the library does: a request with the document's hash may be answered
// from a cache for ever, and one with another hash is sent to the right one.
func (d *documents) serveDocument(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, documentsPath+"/")
	doc, ok := d.byName[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	query := r.URL.Query()
	if hash := query.Get("hash"); hash != "" {
		if hash != doc.hash {
			http.Redirect(w, r, doc.url(name), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).Format(time.RFC1123))
		query.Del("hash")
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
	}
	doc.handler().ServeHTTP(w, r)
}

// routesHash returns the hash of the program's hash and of the service's routes.
func routesHash(program string, service *restful.WebService) string {
	var all []string
	for _, route := range service.Routes() {
		all = append(all, fmt.Sprint(route.Method, route.Path, route.Operation, route.Produces, route.Consumes))
	}
	slices.Sort(all)
	return fmt.Sprintf("%X", sha256.Sum256([]byte(program+strings.Join(all, "\n"))))
}

// programHash returns the hash of the program's modules and of its features.
func programHash() string {
	var all []string
	if info, ok := debug.ReadBuildInfo(); ok {
		all = append(all, info.Main.Version, info.Main.Sum)
		for _, module := range info.Deps {
			all = append(all, module.Path, module.Version)
		}
		for _, setting := range info.Settings {
			all = append(all, setting.Key, setting.Value)
		}
	}
	for feature := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		all = append(all, fmt.Sprint(feature, utilfeature.DefaultFeatureGate.Enabled(feature)))
	}
	slices.Sort(all)
	return fmt.Sprintf("%X", sha256.Sum256([]byte(strings.Join(all, "\n"))))
}
