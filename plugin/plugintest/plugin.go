// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugintest

import (
	"context"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/warning"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/plugin"
)

// TB is the part of a *testing.T that the package uses. It is an interface so that the package's own
// tests can watch it fail.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Plugin is a built plugin and the cluster it was built in.
type Plugin struct {
	*Cluster
	// Built is what the descriptor's New returned.
	Built plugin.Plugin
	// Operations and Resources are the descriptor's: the plugin isn't called for others.
	Operations []admission.Operation
	Resources  []plugin.Resource
}

// New builds the plugin in a cluster that holds objects, and waits until its informers have synced.
// config is the plugin's configuration, empty for none. A plugin that needs more than a client and
// informers is built in a NewCluster, whose Env the test completes.
func New(t TB, descriptor plugin.Descriptor, config string, objects ...runtime.Object) *Plugin {
	t.Helper()
	return NewCluster(t, objects...).Build(t, descriptor, config)
}

// Admit runs the plugin's mutating phase.
func (p *Plugin) Admit(t TB, r Request) Result {
	t.Helper()
	mutating, ok := p.Built.(plugin.Mutator)
	if !ok {
		t.Fatalf("%T has no mutating phase", p.Built)
	}
	result := p.run(t, r, mutating.Admit)
	if !result.Handled || result.Err != nil {
		return result
	}

	r.Object = result.Object
	if again := p.run(t, r, mutating.Admit); again.Err != nil {
		t.Errorf("the plugin is not idempotent: it refuses its own output: %v", again.Err)
	} else if again.Changed {
		t.Errorf("the plugin is not idempotent: it changes its own output:\n%s", diff.Diff(result.Object, again.Object))
	}
	return result
}

// Validate runs the plugin's validating phase.
func (p *Plugin) Validate(t TB, r Request) Result {
	t.Helper()
	validating, ok := p.Built.(plugin.Validator)
	if !ok {
		t.Fatalf("%T has no validating phase", p.Built)
	}
	result := p.run(t, r, validating.Validate)
	if result.Changed {
		t.Errorf("the plugin changes the object while validating it:\n%s", diff.Diff(r.Object, result.Object))
	}
	return result
}

// run calls one phase with copies of the objects, so that a table's objects stay as they are.
func (p *Plugin) run(t TB, r Request,
	phase func(context.Context, admission.Attributes, admission.ObjectInterfaces) error) Result {
	t.Helper()
	about := plugin.Resource{Group: r.Resource.Group, Resource: r.Resource.Resource, Subresource: r.Subresource}
	handled := (len(p.Operations) == 0 || slices.Contains(p.Operations, r.Operation)) &&
		(len(p.Resources) == 0 || slices.Contains(p.Resources, about))
	result := Result{Handled: handled, Object: copied(r.Object)}
	if !result.Handled {
		return result
	}

	old := copied(r.OldObject)
	recorder := &recorder{Attributes: r.attributes(result.Object, old), t: t}
	ctx := audit.WithAuditContext(warning.WithWarningRecorder(context.Background(), recorder))
	if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: auditinternal.LevelRequestResponse},
		nil); err != nil {
		t.Fatalf("no audit event: %v", err)
	}
	result.Err = phase(ctx, recorder, admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme))
	for key, value := range audit.AuditContextFrom(ctx).GetEventAnnotations() {
		_ = recorder.AddAnnotation(key, value) // fails the test itself
	}
	result.Annotations, result.Warnings = recorder.annotations, recorder.warnings

	if !apiequality.Semantic.DeepEqual(r.OldObject, old) {
		t.Errorf("the plugin changes the old object:\n%s", diff.Diff(r.OldObject, old))
	}
	result.Changed = !apiequality.Semantic.DeepEqual(r.Object, result.Object)
	return result
}

func copied(object runtime.Object) runtime.Object {
	if object == nil {
		return nil
	}
	return object.DeepCopyObject()
}
