package chain

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/klog/v2"
)

// Chain is the admission control of a server: the plugins that were selected, built and in order.
// It is safe for concurrent use.
type Chain struct {
	descriptors []Descriptor
	mutating    asked[mutator]
	validating  asked[validator]

	readyChecks []healthz.HealthChecker
	followers   []Follower
	observers   []Observer
	// beginning are those observers that are asked before, too.
	beginning []ContextObserver
	// late are those that are told what plugins left to others to decide.
	late []LateObserver
	// tracking is true where an observer wants to know which plugin changed the object.
	tracking bool
	// recording is true where an observer wants to know what plugins called.
	recording bool
}

var (
	_ admission.MutationInterface   = &Chain{}
	_ admission.ValidationInterface = &Chain{}
)

type mutator struct {
	admission.MutationInterface
	name     string
	internal bool
}

type validator struct {
	admission.ValidationInterface
	name     string
	internal bool
}

// New builds the selected plugins (see Options.Select), in order, each with its section of config
// and with env. The chain it returns tells the observers what it does. Where plugins can't be built
// the error names all of them.
func New(selected []Descriptor, config *Config, env *Env, observers ...Observer) (*Chain, error) {
	if err := checkList(selected); err != nil {
		return nil, err
	}
	if env == nil {
		env = &Env{}
	}
	c := &Chain{
		descriptors: slices.Clone(selected), observers: slices.Clone(observers),
		mutating: asked[mutator]{}, validating: asked[validator]{},
	}
	for _, o := range observers {
		if o, ok := o.(ChangeObserver); ok && o.ObservesChanges() {
			c.tracking = true
		}
		if o, ok := o.(CallObserver); ok && o.ObservesCalls() {
			c.recording = true
		}
		if o, ok := o.(ContextObserver); ok {
			c.beginning = append(c.beginning, o)
		}
		if o, ok := o.(LateObserver); ok {
			c.late = append(c.late, o)
		}
	}
	var errs []error
	for _, d := range selected {
		if d.Deprecated != "" {
			klog.Warningf("Admission plugin %q is enabled, but deprecated: %s", d.Name, d.Deprecated)
		}
		if err := c.add(d, config, env); err != nil {
			errs = append(errs, fmt.Errorf("admission plugin %q%s: %w", d.Name, config.origin(d.Name), err))
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Chain) add(d Descriptor, config *Config, env *Env) error {
	if off, err := env.closed(d.Gate); err != nil || off {
		return err
	}
	plugin, err := d.New(config.For(d.Name), env)
	if err != nil {
		return err
	}
	if plugin == nil {
		return fmt.Errorf("New returned no plugin")
	}
	for _, operation := range EveryOperation {
		if len(d.Operations) > 0 && slices.Contains(d.Operations, operation) != plugin.Handles(operation) {
			return fmt.Errorf("its Operations and its Handles don't agree about %s", operation)
		}
	}
	if v, ok := plugin.(admission.InitializationValidator); ok && !d.validated {
		if err := v.ValidateInitialization(); err != nil {
			return err
		}
	}
	if p, ok := plugin.(Follower); ok {
		c.followers = append(c.followers, p)
	}
	if p, ok := plugin.(ReadyChecker); ok {
		c.readyChecks = append(c.readyChecks, p.ReadyChecks()...)
	}
	if d.Phases.Has(Mutating) {
		p, ok := plugin.(admission.MutationInterface)
		if !ok {
			return fmt.Errorf("takes part in the mutating phase, but its type %T has no Admit method", plugin)
		}
		c.mutating.add(plugin, d.Resources, mutator{p, d.Name, d.Internal})
	}
	if d.Phases.Has(Validating) {
		p, ok := plugin.(admission.ValidationInterface)
		if !ok {
			return fmt.Errorf("takes part in the validating phase, but its type %T has no Validate method", plugin)
		}
		c.validating.add(plugin, d.Resources, validator{p, d.Name, d.Internal})
	}
	return nil
}

// Plugins are the plugins that run, in order.
func (c *Chain) Plugins() []Descriptor { return slices.Clone(c.descriptors) }

// Names are the names of the plugins that run, in order.
func (c *Chain) Names() []string { return names(c.descriptors) }

// Handles tells whether any plugin handles the operation.
func (c *Chain) Handles(operation admission.Operation) bool {
	return c.mutating[operation] != nil || c.validating[operation] != nil
}

// Admit runs the mutating phase: every mutating plugin in order, and all of them once more where
// one asked for that through the request's ReinvocationContext. The first error ends the
// phase, and leaves the object with some of what plugins have changed until then: it is not to be
// used. Otherwise a.GetObject() has all changes when Admit returns.
func (c *Chain) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	begin := c.now()
	a = withDryRun(a, o)
	ctx = c.phaseBegins(ctx, a, Mutating)
	rounds, err := c.admit(ctx, begin, a, o)
	c.phaseDone(ctx, begin, PhaseStep{Attributes: a, Phase: Mutating, Rounds: rounds, Err: err})
	return err
}

func (c *Chain) admit(ctx context.Context, begin time.Time, a admission.Attributes,
	o admission.ObjectInterfaces) (rounds int, err error) {
	v := newVersioned(a, o, true, c.tracking)
	v.calls, v.late = c.newCalls(), c.late
	if err := c.admitRound(ctx, begin, 0, a, v, o); err != nil {
		return 1, err
	}
	rounds = 1
	if again := a.GetReinvocationContext(); again.ShouldReinvoke() && !again.IsReinvoke() {
		rounds = 2
		again.SetIsReinvoke()
		if err := c.admitRound(ctx, begin, 1, a, v, o); err != nil {
			return rounds, err
		}
	}
	return rounds, v.writeBack()
}

func (c *Chain) admitRound(ctx context.Context, begin time.Time, round int, a admission.Attributes, v *versioned,
	o admission.ObjectInterfaces) error {
	for _, p := range c.mutating.of(a) {
		step := PluginStep{Attributes: a, Plugin: p.name, Phase: Mutating, Round: round, Start: c.after(begin)}
		ctx := c.pluginBegins(ctx, step)
		v.begin(p.name, Mutating, round)
		var shown shownForm
		shown, step.Err = c.admitPlugin(ctx, p, a, v, o)
		step.Duration = c.since(step.Start)
		if shown != nil && c.tracking {
			step.Changes = shown.changes()
		}
		step.Calls = v.calls.taken()
		c.pluginDone(ctx, step)
		if step.Err != nil {
			return step.Err
		}
	}
	return nil
}

// A shownForm is what a plugin was shown of a request, and knows what the plugin changed.
type shownForm interface {
	changes() *Changes
}

// admitPlugin calls a plugin. Of an object that couldn't be shown nothing is known.
func (c *Chain) admitPlugin(ctx context.Context, p mutator, a admission.Attributes, v *versioned,
	o admission.ObjectInterfaces) (shown shownForm, err error) {
	if p.internal {
		// What plugins have changed so far is in the versioned object: the server's own gets
		// it first, and is converted anew for the plugins that follow.
		if err := v.writeBack(); err != nil {
			return nil, err
		}
		if !c.tracking {
			return nil, guard(p.name, Mutating, a, func() error { return p.Admit(ctx, a, o) })
		}
		internal := &internalForm{Attributes: a, interfaces: o}
		err := guard(p.name, Mutating, a, func() error { return p.Admit(ctx, internal, o) })
		return internal, err
	}
	v.beforePlugin()
	err = guard(p.name, Mutating, a, func() error { return p.Admit(ctx, v, o) })
	if failure := v.afterPlugin(); failure != nil {
		return nil, failure
	}
	return v, err
}

// Validate runs the validating phase: every validating plugin in order. The first error ends it.
func (c *Chain) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	begin := c.now()
	a = withDryRun(a, o)
	ctx = c.phaseBegins(ctx, a, Validating)
	err := c.validate(ctx, begin, a, o)
	c.phaseDone(ctx, begin, PhaseStep{Attributes: a, Phase: Validating, Rounds: 1, Err: err})
	return err
}

func (c *Chain) validate(ctx context.Context, begin time.Time, a admission.Attributes,
	o admission.ObjectInterfaces) error {
	v := newVersioned(a, o, false, false)
	v.calls, v.late = c.newCalls(), c.late
	for _, p := range c.validating.of(a) {
		step := PluginStep{Attributes: a, Plugin: p.name, Phase: Validating, Start: c.after(begin)}
		ctx := c.pluginBegins(ctx, step)
		v.begin(p.name, Validating, 0)
		var shown admission.Attributes = v
		if p.internal {
			shown = a
		}
		step.Err = guard(p.name, Validating, a, func() error { return p.Validate(ctx, shown, o) })
		if failure := v.failed(); failure != nil {
			step.Err = failure
		}
		step.Duration, step.Calls = c.since(step.Start), v.calls.taken()
		c.pluginDone(ctx, step)
		if step.Err != nil {
			return step.Err
		}
	}
	return nil
}

// guard calls a plugin. A plugin that panics refuses the request: what was wrong is the
// plugin, so the client learns its name, and the log the rest.
func guard(name string, phase Phases, a admission.Attributes, call func() error) (err error) {
	defer func() {
		cause := recover()
		if cause == nil {
			return
		}
		if cause == http.ErrAbortHandler {
			// Not a failure: net/http's way to end a request without an answer.
			panic(cause)
		}
		klog.ErrorS(nil, "Admission plugin panicked", "plugin", name, "phase", phase.String(),
			"operation", a.GetOperation(), "resource", a.GetResource().String(), "subresource", a.GetSubresource(),
			"object", klog.KRef(a.GetNamespace(), a.GetName()), "panic", fmt.Sprint(cause), "stack",
			string(debug.Stack()))
		err = apierrors.NewInternalError(fmt.Errorf("admission plugin %q panicked in the %s phase", name, phase))
	}()
	return call()
}

// now is the time where an observer will want to know it.
func (c *Chain) now() time.Time {
	if len(c.observers) == 0 {
		return time.Time{}
	}
	return time.Now()
}

// after is now for a phase that has begun. To ask how long ago that was is cheaper than to ask for
// the time.
func (c *Chain) after(begin time.Time) time.Time {
	if len(c.observers) == 0 {
		return time.Time{}
	}
	return begin.Add(time.Since(begin))
}

// since is how long ago a time of now or after was.
func (c *Chain) since(begin time.Time) time.Duration {
	if len(c.observers) == 0 {
		return 0
	}
	return time.Since(begin)
}

func (c *Chain) phaseBegins(ctx context.Context, a admission.Attributes, phase Phases) context.Context {
	for _, o := range c.beginning {
		ctx = o.PhaseBegins(ctx, PhaseStep{Attributes: a, Phase: phase})
	}
	return ctx
}

func (c *Chain) pluginBegins(ctx context.Context, step PluginStep) context.Context {
	for _, o := range c.beginning {
		ctx = o.PluginBegins(ctx, step)
	}
	return ctx
}

// pluginDone tells the observers of a step.
func (c *Chain) pluginDone(ctx context.Context, step PluginStep) {
	for _, o := range c.observers {
		o.PluginDone(ctx, step)
	}
}

func (c *Chain) phaseDone(ctx context.Context, begin time.Time, phase PhaseStep) {
	phase.Duration = c.since(begin)
	for _, o := range c.observers {
		o.PhaseDone(ctx, phase)
	}
}
