// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"

	"gatehouse.dev/internal/quantity"
)

// boundQuantities makes the group refuse quantities that take too long to parse. Codecs see all that is
// sent except for two kinds of patches, which withBoundedQuantities checks.
func (c *config) boundQuantities(group *server.APIGroupInfo) {
	group.NegotiatedSerializer = quantity.Serializer(group.NegotiatedSerializer)
	for version, resources := range group.VersionedResourcesStorageMap {
		gv := group.PrioritizedVersions[0].Group
		for name, storage := range resources {
			c.patched[schema.GroupVersionResource{Group: gv, Version: version, Resource: name}] = patchable{storage,
				group.Scheme}
		}
	}
}

// patchable is the object of a patch.
type patchable struct {
	storage rest.Storage
	scheme  *runtime.Scheme
}

// empty returns an object of the kind that a patch in a version is of.
func (p patchable) empty(gv schema.GroupVersion) (runtime.Object, error) {
	kind, err := p.kind(gv)
	if err != nil {
		return nil, err
	}
	return p.scheme.New(kind)
}

// kind returns the kind of the objects that are sent in a version.
func (p patchable) kind(gv schema.GroupVersion) (schema.GroupVersionKind, error) {
	if provider, ok := p.storage.(rest.GroupVersionKindProvider); ok {
		return provider.GroupVersionKind(gv), nil
	}
	kinds, _, err := p.scheme.ObjectKinds(p.storage.New())
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return gv.WithKind(kinds[0].Kind), nil
}

// withBoundedQuantities refuses strategic merge patches and apply patches that have quantities
// which take too long to parse. They are made objects without a codec.
func (c *config) withBoundedQuantities(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch {
			if err := c.checkPatch(r); err != nil {
				info, _ := genericapirequest.RequestInfoFrom(r.Context())
				gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
				responsewriters.ErrorNegotiated(err, c.generic.Serializer, gv, w, r)
				return
			}
		}
		handler.ServeHTTP(w, r)
	})
}

// longestPatch bounds the part of a patch that an error quotes.
const longestPatch = 1024

// checkPatch returns the answer to a patch that has a quantity which takes too long to parse. The
// handler reads the body again, and refuses one that can't be read or is too long.
//
// Source of the answer: applyPatchToObject in k8s.io/apiserver/pkg/endpoints/handlers/patch.go.
func (c *config) checkPatch(r *http.Request) error {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != string(types.StrategicMergePatchType) &&
		mediaType != string(types.ApplyYAMLPatchType) {
		return nil
	}
	info, ok := genericapirequest.RequestInfoFrom(r.Context())
	if !ok || !info.IsResourceRequest {
		return nil
	}
	resource := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}
	if info.Subresource != "" {
		resource.Resource += "/" + info.Subresource
	}
	patched, ok := c.patched[resource]
	if !ok {
		return nil // custom resources have no quantities
	}
	object, err := patched.empty(resource.GroupVersion())
	if err != nil {
		return nil // the handler reports it
	}
	limit := c.generic.MaxRequestBodyBytes
	if limit <= 0 {
		limit = math.MaxInt64 - 1
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	if err != nil || int64(len(body)) > limit {
		return nil
	}
	if err := quantity.CheckPatch(body, object); err != nil {
		if len(body) > longestPatch {
			body = fmt.Appendf(nil, "%s…", body[:longestPatch])
		}
		return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
			field.Invalid(field.NewPath("patch"), string(body), err.Error())})
	}
	return nil
}
