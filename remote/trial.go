package remote

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"

	"gatehouse.dev/chain"
	"gatehouse.dev/internal/jsondiff"
)

// Mode is what becomes of what a plugin says.
type Mode string

const (
	// Enforce is that it changes and refuses.
	Enforce Mode = "enforce"
	// Warn is that clients are warned of what it would change or refuse, besides what Audit does.
	Warn Mode = "warn"
	// Audit is that the audit log of the asking API server has it as annotations of the request,
	// and the decision log as a call of the plugin.
	Audit Mode = "audit"
)

// Modes are all modes.
var Modes = []Mode{Warn, Audit, Enforce}

// mostPaths is how many changes are named. Which they are tells enough of the rest.
const mostPaths = 5

// Trial returns the plugin so that it neither changes nor refuses anything, and tells what it
// would. It works on copies of the objects, and as for dry runs, for which plugins write nothing.
// A plugin that changes objects and refuses some sees each copy in the validating phase as it would
// have changed it. With Enforce it is the plugin as it is.
func Trial(d chain.Descriptor, mode Mode) chain.Descriptor {
	if mode == Enforce {
		return d
	}
	build, name, phases := d.New, d.Name, d.Phases
	d.New = func(config io.Reader, env *chain.Env) (admission.Interface, error) {
		plugin, err := build(config, env)
		if err != nil {
			return nil, err
		}
		return &trial{Interface: plugin, name: name, phases: phases, mode: mode}, nil
	}
	return d
}

type trial struct {
	admission.Interface
	name   string
	phases chain.Phases
	mode   Mode
}

// trialRequest is the request as a plugin on trial sees it.
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

// Admit implements admission.MutationInterface.
func (t *trial) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	plugin, ok := t.Interface.(admission.MutationInterface)
	if !ok {
		return nil
	}
	r := t.request(a)
	if err := t.call(ctx, func(ctx context.Context) error { return plugin.Admit(ctx, r, o) }); err != nil {
		t.tellRefusal(ctx, a, err)
		return nil
	}
	if r.object == nil || a.GetOperation() == admission.Connect {
		return nil
	}
	operations, err := jsondiff.Of(a.GetObject(), r.object)
	if err != nil {
		t.tell(ctx, a, "failed", chain.Failed, 0, fmt.Sprintf("comparing what it would change: %v", err))
	} else if len(operations) > 0 {
		t.tell(ctx, a, "would-change", chain.Admitted, 0, "would change "+pathsOf(operations))
	}
	return nil
}

// Validate implements admission.ValidationInterface.
func (t *trial) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	plugin, ok := t.Interface.(admission.ValidationInterface)
	if !ok {
		return nil
	}
	r := t.request(a)
	if changing, ok := t.Interface.(admission.MutationInterface); ok && t.phases.Has(chain.Mutating) {
		err := t.call(warning.WithWarningRecorder(ctx, untold{}), func(ctx context.Context) error {
			return changing.Admit(ctx, r, o)
		})
		if err != nil {
			return nil // the mutating phase has told it
		}
	}
	if err := t.call(ctx, func(ctx context.Context) error { return plugin.Validate(ctx, r, o) }); err != nil {
		t.tellRefusal(ctx, a, err)
	}
	return nil
}

// untold is for warnings that clients don't get.
type untold struct{}

// AddWarning implements warning.Recorder.
func (untold) AddWarning(string, string) {}

// call calls the plugin. One that panics has failed.
func (t *trial) call(ctx context.Context, plugin func(context.Context) error) (err error) {
	if t.mode == Audit {
		ctx = warning.WithWarningRecorder(ctx, untold{})
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

// tellRefusal tells that the plugin would refuse the request, or couldn't decide.
func (t *trial) tellRefusal(ctx context.Context, a admission.Attributes, err error) {
	code := int32(http.StatusInternalServerError)
	if status, ok := err.(apierrors.APIStatus); ok {
		code = status.Status().Code
	}
	if code >= http.StatusInternalServerError {
		t.tell(ctx, a, "failed", chain.Failed, code, fmt.Sprintf("couldn't decide: %v", err))
		return
	}
	t.tell(ctx, a, "would-refuse", chain.Refused, code, fmt.Sprintf("would refuse: %v", err))
}

func (t *trial) tell(ctx context.Context, a admission.Attributes, what string, verdict chain.Verdict, code int32,
	text string) {
	if err := a.AddAnnotation(t.name+"."+what, text); err != nil {
		klog.ErrorS(err, "Adding an audit annotation", "plugin", t.name)
	}
	if calls := chain.CallsOf(a); calls != nil {
		calls.Add(chain.Call{Kind: chain.Trial, Name: t.name, Verdict: verdict, Code: code, Why: text})
	}
	if t.mode == Warn {
		warning.AddWarning(ctx, "", t.name+" "+text)
	}
}

// pathsOf names what a patch changes, without the values.
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
