// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/jsondiff"
	"gatehouse.dev/plugin"
)

// Mode says what becomes of a plugin's result.
type Mode string

const (
	// Enforce is that it changes and refuses.
	Enforce Mode = "enforce"
	// Warn does what Audit does, and warns clients of what the plugin would change or refuse.
	Warn Mode = "warn"
	// Audit adds what the plugin would do to the request's audit annotations of the asking API
	// server, and to the decision log as a call of the plugin.
	Audit Mode = "audit"
)

// Modes are all modes.
var Modes = []Mode{Warn, Audit, Enforce}

// mostPaths bounds how many changed paths are named.
const mostPaths = 5

// Trial returns a plugin that neither changes nor refuses anything, and reports what d would do. It
// works on copies of the objects, as if for a dry run, in which plugins write nothing. If d both
// changes and refuses, its validating phase sees each copy as its mutating phase would have changed
// it. With Enforce, Trial returns d unchanged.
func Trial(d plugin.Descriptor, mode Mode) plugin.Descriptor {
	if mode == Enforce {
		return d
	}
	build, name, phases := d.New, d.Name, d.Phases
	d.New = func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		tried, err := build(config, env)
		if err != nil {
			return nil, err
		}
		return &trial{tried: tried, name: name, phases: phases, mode: mode}, nil
	}
	return d
}

type trial struct {
	tried  plugin.Plugin
	name   string
	phases plugin.Phase
	mode   Mode
}

// trialRequest is a request as a plugin on trial sees it.
type trialRequest struct {
	admission.Attributes
	object runtime.Object
}

// GetObject implements admission.Attributes.
func (r *trialRequest) GetObject() runtime.Object { return r.object }

// IsDryRun implements admission.Attributes.
func (r *trialRequest) IsDryRun() bool { return true }

func (t *trial) request(a admission.Attributes) *trialRequest {
	r := &trialRequest{Attributes: a}
	if object := a.GetObject(); object != nil {
		r.object = object.DeepCopyObject()
	}
	return r
}

// Admit implements plugin.Mutator.
func (t *trial) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	mutator, ok := t.tried.(plugin.Mutator)
	if !ok {
		return nil
	}
	r := t.request(a)
	if err := t.call(ctx, func(ctx context.Context) error { return mutator.Admit(ctx, r, o) }); err != nil {
		t.reportRefusal(ctx, a, err)
		return nil
	}
	if r.object == nil || a.GetOperation() == admission.Connect {
		return nil
	}
	operations, err := jsondiff.Compare(a.GetObject(), r.object)
	if err != nil {
		t.report(ctx, a, "failed", plugin.Failed, 0, fmt.Sprintf("comparing what it would change: %v", err))
	} else if len(operations) > 0 {
		t.report(ctx, a, "would-change", plugin.Admitted, 0, "would change "+pathsOf(operations))
	}
	return nil
}

// Validate implements plugin.Validator.
func (t *trial) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	validator, ok := t.tried.(plugin.Validator)
	if !ok {
		return nil
	}
	r := t.request(a)
	if changing, ok := t.tried.(plugin.Mutator); ok && t.phases.Has(plugin.Mutating) {
		err := t.call(warning.WithWarningRecorder(ctx, discardWarnings{}), func(ctx context.Context) error {
			return changing.Admit(ctx, r, o)
		})
		if err != nil {
			return nil // the mutating phase has reported it
		}
	}
	if err := t.call(ctx, func(ctx context.Context) error { return validator.Validate(ctx, r, o) }); err != nil {
		t.reportRefusal(ctx, a, err)
	}
	return nil
}

// discardWarnings drops warnings, so that clients don't get them.
type discardWarnings struct{}

// AddWarning implements warning.Recorder.
func (discardWarnings) AddWarning(string, string) {}

// call calls the plugin. A plugin that panics has failed.
func (t *trial) call(ctx context.Context, plugin func(context.Context) error) (err error) {
	if t.mode == Audit {
		ctx = warning.WithWarningRecorder(ctx, discardWarnings{})
	}
	defer func() {
		if cause := recover(); cause != nil {
			klog.ErrorS(nil, "Admission plugin panicked", "plugin", t.name, "mode", t.mode, "panic", fmt.Sprint(cause),
				"stack", string(debug.Stack()))
			err = apierrors.NewInternalError(fmt.Errorf("admission plugin %q panicked", t.name))
		}
	}()
	return plugin(ctx)
}

// reportRefusal reports that the plugin would refuse the request, or couldn't decide.
func (t *trial) reportRefusal(ctx context.Context, a admission.Attributes, err error) {
	verdict, code := plugin.VerdictOf(err)
	if verdict == plugin.Failed {
		t.report(ctx, a, "failed", verdict, code, fmt.Sprintf("couldn't decide: %v", err))
		return
	}
	t.report(ctx, a, "would-refuse", verdict, code, fmt.Sprintf("would refuse: %v", err))
}

func (t *trial) report(ctx context.Context, a admission.Attributes, what string, verdict plugin.Verdict, code int32,
	text string) {
	if err := a.AddAnnotation(t.name+"."+what, text); err != nil {
		klog.ErrorS(err, "Adding an audit annotation", "plugin", t.name)
	}
	if calls := plugin.CallsOf(a); calls != nil {
		calls.Add(plugin.Call{Kind: plugin.Trial, Name: t.name, Verdict: verdict, Code: code, Why: text})
	}
	if t.mode == Warn {
		warning.AddWarning(ctx, "", t.name+" "+text)
	}
}

// pathsOf returns the paths that a patch changes, without the values.
func pathsOf(operations []jsondiff.Operation) string {
	var paths []string
	for _, o := range operations {
		if !slices.Contains(paths, o.Path) {
			paths = append(paths, o.Path)
		}
	}
	if more := len(paths) - mostPaths; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:mostPaths], ", "), more)
	}
	return strings.Join(paths, ", ")
}
