// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownerreferencespermissionenforcement implements the admission plugin
// OwnerReferencesPermissionEnforcement, which refuses owner references by which users would gain
// rights.
//
// The garbage collector acts on owner references with rights of its own: it deletes an object whose
// owners are gone, and delays the deletion of an owner in the foreground for objects that reference
// it with blockOwnerDeletion: true. So the plugin requires two rights:
//
//   - A user who changes an object's owner references must have the right to delete the object. A
//     user who creates the object needn't.
//   - A user who makes a reference block its owner's deletion must have the right to update the
//     subresource finalizers of the owner, since a finalizer would do the same. The plugin doesn't
//     look up the kind of the owner if the user may update finalizers of everything.
//
// An owner is in the object's own namespace unless its kind is cluster-scoped. A blocking reference
// to a kind that the server doesn't know is refused. Requests for pods/status pass: old kubelets
// send references there, which the API server ignores.
package ownerreferencespermissionenforcement

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/ptr"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
)

const name = "OwnerReferencesPermissionEnforcement"

var pods = corev1.Resource("pods")

//go:embed README.md
var manual string

// Descriptor describes OwnerReferencesPermissionEnforcement. It needs an authorizer and a REST
// mapper.
var Descriptor = plugin.Descriptor{
	Name:    name,
	Summary: "Lets only users who may delete the object and hold back its owner set owner references",
	Manual:  manual,
	Remedy: "Have the right to delete the object whose owners change, and for blockOwnerDeletion to update the " +
		"finalizers of its owner.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update},
	// The plugin reads the metadata of everything that is written, which needs no conversion.
	Access: []rbacv1.PolicyRule{plugin.AskAuthorizer},
	Server: plugin.Server{
		Internal: true,
	},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		if env.Authorizer == nil {
			return nil, errors.New(name + " needs an authorizer")
		}
		if env.RESTMapper == nil {
			return nil, errors.New(name + " needs a REST mapper")
		}
		return &ownerReferencesPermissionEnforcement{env.Authorizer, env.RESTMapper}, nil
	},
}

type ownerReferencesPermissionEnforcement struct {
	authorizer authorizer.UnconditionalAuthorizer
	mapper     meta.RESTMapper
}

var _ plugin.Validator = &ownerReferencesPermissionEnforcement{}

// Validate refuses owner references that the user may not set.
func (p *ownerReferencesPermissionEnforcement) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetSubresource() == "status" && a.GetResource().GroupResource() == pods {
		return nil
	}
	before, after := references(a.GetOldObject()), references(a.GetObject())
	if slices.EqualFunc(before, after, equal) {
		return nil
	}
	if a.GetOperation() != admission.Create {
		if err := p.mayDelete(ctx, a); err != nil {
			return err
		}
	}
	var blocking []metav1.OwnerReference
	for _, ref := range after {
		if ptr.Deref(ref.BlockOwnerDeletion, false) && !blocks(before, ref) {
			blocking = append(blocking, ref)
		}
	}
	return p.mayBlock(ctx, a, blocking)
}

// references returns the owner references of an object, or none if it has no metadata.
func references(object runtime.Object) []metav1.OwnerReference {
	if object == nil {
		return nil
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil
	}
	return accessor.GetOwnerReferences()
}

func equal(a, b metav1.OwnerReference) bool {
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		ptr.Equal(a.Controller, b.Controller) && ptr.Equal(a.BlockOwnerDeletion, b.BlockOwnerDeletion)
}

// blocks reports whether refs have a reference to the same owner that blocks its deletion. As
// upstream, the last reference to the owner counts.
func blocks(refs []metav1.OwnerReference, ref metav1.OwnerReference) bool {
	for _, other := range slices.Backward(refs) {
		if other.UID == ref.UID {
			return ptr.Deref(other.BlockOwnerDeletion, false)
		}
	}
	return false
}

// mayDelete refuses the request of a user who may not delete the object.
func (p *ownerReferencesPermissionEnforcement) mayDelete(ctx context.Context, a admission.Attributes) error {
	what := authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "delete", ResourceRequest: true,
		Namespace: a.GetNamespace(), Name: a.GetName(),
		APIGroup: a.GetResource().Group, APIVersion: a.GetResource().Version, Resource: a.GetResource().Resource,
		Subresource: a.GetSubresource(),
	}
	if refusal := p.refused(ctx, what); refusal != "" {
		return admission.NewForbidden(a, errors.New("cannot set an ownerRef on a resource you can't delete: "+refusal))
	}
	return nil
}

// mayBlock refuses the request of a user who may not hold back the owners that the references name.
func (p *ownerReferencesPermissionEnforcement) mayBlock(ctx context.Context, a admission.Attributes, refs []metav1.OwnerReference) error {
	if len(refs) == 0 {
		return nil
	}
	// This check comes first. A user with the right for all resources, as most controllers have it,
	// needs no mapping, and a mapping takes a call to the server if the kind isn't known yet.
	everything := authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "update", ResourceRequest: true,
		Name: "*", APIGroup: "*", APIVersion: "*", Resource: "*", Subresource: "finalizers",
	}
	if decision, _, _ := p.authorizer.Authorize(ctx, everything); decision == authorizer.DecisionAllow {
		return nil
	}
	for _, ref := range refs {
		mappings, err := p.mappings(ref)
		if err != nil {
			return admission.NewForbidden(a,
				fmt.Errorf("cannot set blockOwnerDeletion in this case because cannot find RESTMapping for "+
					"APIVersion %s Kind %s: %w",
					ref.APIVersion, ref.Kind, err))
		}
		// Several resources may have the same kind. All of them must be allowed, since the
		// reference doesn't tell which one it means.
		for _, mapping := range mappings {
			what := authorizer.AttributesRecord{
				User: a.GetUserInfo(), Verb: "update", ResourceRequest: true,
				Name:     ref.Name,
				APIGroup: mapping.Resource.Group, APIVersion: mapping.Resource.Version,
				Resource: mapping.Resource.Resource, Subresource: "finalizers",
			}
			if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
				what.Namespace = a.GetNamespace()
			}
			if refusal := p.refused(ctx, what); refusal != "" {
				return admission.NewForbidden(a,
					errors.New("cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't "+
						"set finalizers on: "+refusal))
			}
		}
	}
	return nil
}

// mappings returns the resources whose kind is that of the reference.
func (p *ownerReferencesPermissionEnforcement) mappings(ref metav1.OwnerReference) ([]*meta.RESTMapping, error) {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, err
	}
	return p.mapper.RESTMappings(version.WithKind(ref.Kind).GroupKind(), version.Version)
}

// refused returns the right that the user lacks, with the authorizer's reason, or "" if the user
// has it.
func (p *ownerReferencesPermissionEnforcement) refused(ctx context.Context, what authorizer.AttributesRecord) string {
	decision, reason, err := p.authorizer.Authorize(ctx, what)
	if decision == authorizer.DecisionAllow {
		return ""
	}
	resource := schema.GroupResource{Group: what.APIGroup, Resource: what.Resource}.String()
	if what.Subresource != "" {
		resource += "/" + what.Subresource
	}
	parts := []string{fmt.Sprintf("not allowed to %s %s %q", what.Verb, resource, what.Name)}
	if reason != "" {
		parts = append(parts, reason)
	}
	if err != nil {
		parts = append(parts, err.Error())
	}
	return strings.Join(parts, ", ")
}
