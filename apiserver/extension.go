// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server"

	"gatehouse.dev/internal/peers"
)

// An Extension is an API that is served besides Kubernetes' own and the removed kinds.
type Extension struct {
	// Group returns an API group, whose kinds are in Scheme. Its models are in package
	// apis/openapi.
	Group  func(ExtensionEnv) *server.APIGroupInfo
	Scheme *runtime.Scheme
	// Roles are for administrators to bind. They are created and kept like Kubernetes' default
	// roles.
	Roles []rbacv1.ClusterRole
	// Filter is put around the handlers of all APIs, behind authorization.
	Filter func(http.Handler) http.Handler
	// OuterFilter is put around everything, before authentication.
	OuterFilter func(http.Handler) http.Handler
	// Authenticator is put around the authenticator of requests.
	Authenticator func(authenticator.Request) authenticator.Request
}

// An ExtensionEnv is what a server offers to an Extension.
type ExtensionEnv struct {
	// Name distinguishes the server from others over the same etcd. It is a label's value.
	Name string
	// Authorizer is the server's.
	Authorizer authorizer.Authorizer
	// Peers are the other servers over the same etcd, or nil if there can't be any. They answer
	// requests for APIs of Extensions only.
	Peers *peers.Peers
}

// withFilters returns the handler with all filters around it, those of extensions first.
func (o *Options) withFilters(handler http.Handler) http.Handler {
	for _, filter := range o.Filters {
		handler = filter(handler)
	}
	for _, e := range o.Extensions {
		handler = e.Filter(handler)
	}
	return handler
}

// withOuterFilters returns the handler with all outer filters of extensions around it.
func (o *Options) withOuterFilters(handler http.Handler) http.Handler {
	for _, e := range o.Extensions {
		handler = e.OuterFilter(handler)
	}
	return handler
}

// extensionSchemes returns the schemes of the extensions' groups.
func (o *Options) extensionSchemes() []*runtime.Scheme {
	var schemes []*runtime.Scheme
	for _, e := range o.Extensions {
		schemes = append(schemes, e.Scheme)
	}
	return schemes
}

// extensionRoles returns the roles of all extensions.
func (o *Options) extensionRoles() []rbacv1.ClusterRole {
	var roles []rbacv1.ClusterRole
	for _, e := range o.Extensions {
		roles = append(roles, e.Roles...)
	}
	return roles
}
