package apiserver

import (
	"net/http"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/server"
)

// An Extension is what is served besides Kubernetes' API and the kinds that Kubernetes has dropped.
type Extension struct {
	// Group is an API group, with a scheme of its own. Its models are in package apis/openapi.
	Group *server.APIGroupInfo
	// Roles are for administrators to bind. They are made, and kept, as Kubernetes' default roles.
	Roles []rbacv1.ClusterRole
	// Filter is put around the handlers of all APIs, behind authorization.
	Filter func(http.Handler) http.Handler
}

// extended is the handler with all filters of extensions around it.
func (o *Options) extended(handler http.Handler) http.Handler {
	for _, e := range o.Extensions {
		handler = e.Filter(handler)
	}
	return handler
}

// extensionSchemes are those of the extensions' groups.
func (o *Options) extensionSchemes() []*runtime.Scheme {
	var schemes []*runtime.Scheme
	for _, e := range o.Extensions {
		schemes = append(schemes, e.Group.Scheme)
	}
	return schemes
}

// extensionRoles are those of all extensions.
func (o *Options) extensionRoles() []rbacv1.ClusterRole {
	var roles []rbacv1.ClusterRole
	for _, e := range o.Extensions {
		roles = append(roles, e.Roles...)
	}
	return roles
}
