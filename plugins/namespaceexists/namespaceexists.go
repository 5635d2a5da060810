// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespaceexists implements the admission plugin NamespaceExists, which refuses requests
// for objects in a namespace that doesn't exist, with the 404 that reading the namespace gets.
//
// NamespaceLifecycle, which is on by default, refuses the same requests in the mutating phase,
// except deletions. This plugin is for clusters that disable NamespaceLifecycle: it doesn't treat a
// namespace differently while it is being deleted, and protects none. The plugin looks for the
// namespace in the cache, and reads it live before it refuses a request.
package namespaceexists

import (
	"context"
	_ "embed"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
	"gatehouse.dev/plugins/internal/namespaces"
)

const name = "NamespaceExists"

//go:embed README.md
var manual string

// Descriptor describes NamespaceExists. It needs a client and informers.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Refuses requests in a namespace that doesn't exist",
	Manual:     manual,
	Remedy:     "Create the namespace, or name one that exists.",
	Phases:     plugin.Validating,
	Operations: []admission.Operation{admission.Create, admission.Update, admission.Delete},
	Access:     []rbacv1.PolicyRule{plugin.To("get list watch", "", "namespaces")},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		if err := pluginconfig.None(name, config); err != nil {
			return nil, err
		}
		found, err := namespaces.New(name, env)
		if err != nil {
			return nil, err
		}
		return &namespaceExists{found}, nil
	},
}

type namespaceExists struct {
	namespaces *namespaces.Namespaces
}

var _ plugin.Validator = &namespaceExists{}

// Validate refuses the request if its namespace doesn't exist.
func (p *namespaceExists) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetNamespace() == "" || a.GetKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		return nil
	}
	_, err := p.namespaces.Of(ctx, a)
	return err
}
