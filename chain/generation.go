// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/jsondiff"
	"gatehouse.dev/plugin"
)

// generation is the chain between two reloads: plugins that were built, in order. It is safe for
// concurrent use.
type generation struct {
	mutating   selection[mutator]
	validating selection[validator]

	readyChecks []healthz.HealthChecker
	followers   []plugin.Follower
	observers   []plugin.Observer
	// wants is what at least one observer wants.
	wants plugin.Wants

	// running are the plugins by name.
	running map[string]*running
	// users is the number of requests that use the generation, plus 1 while it is the current one.
	users int
}

type mutator struct {
	plugin.Mutator
	name     string
	internal bool
}

type validator struct {
	plugin.Validator
	name     string
	internal bool
}

func newGeneration(observers []plugin.Observer) *generation {
	g := &generation{mutating: selection[mutator]{}, validating: selection[validator]{}, observers: observers,
		running: map[string]*running{}, users: 1}
	for _, o := range observers {
		wants := o.Wants()
		g.wants.Changes = g.wants.Changes || wants.Changes
		g.wants.Calls = g.wants.Calls || wants.Calls
		g.wants.Objects = g.wants.Objects || wants.Objects
	}
	return g
}

// gateOff reports whether a plugin is behind a feature gate that is off. A gate that the host doesn't
// have is an error: an enabled plugin is not left out for lack of a switch.
func gateOff(d *plugin.Descriptor, env *plugin.Env) (bool, error) {
	if d.Gate == "" {
		return false, nil
	}
	if !env.Knows(d.Gate) {
		return false, fmt.Errorf("needs the feature gate %s, on or off", d.Gate)
	}
	return !env.Enabled(d.Gate), nil
}

// add adds a built plugin after those that are there.
func (g *generation) add(d *plugin.Descriptor, built plugin.Plugin) error {
	operations := d.OperationsOf(built)
	if len(operations) == 0 {
		return errors.New("its Descriptor has no Operations")
	}
	if p, ok := built.(plugin.Follower); ok {
		g.followers = append(g.followers, p)
	}
	if p, ok := built.(plugin.ReadyChecker); ok {
		g.readyChecks = append(g.readyChecks, p.ReadyChecks()...)
	}
	if d.Phases.Has(plugin.Mutating) {
		p, ok := built.(plugin.Mutator)
		if !ok {
			return fmt.Errorf("takes part in the mutating phase, but its type %T has no Admit method", built)
		}
		g.mutating.add(operations, d.Resources, mutator{p, d.Name, d.Server.Internal})
	}
	if d.Phases.Has(plugin.Validating) {
		p, ok := built.(plugin.Validator)
		if !ok {
			return fmt.Errorf("takes part in the validating phase, but its type %T has no Validate method", built)
		}
		g.validating.add(operations, d.Resources, validator{p, d.Name, d.Server.Internal})
	}
	return nil
}

func (g *generation) handles(operation admission.Operation) bool {
	return g.wants.Objects || g.mutating[operation] != nil || g.validating[operation] != nil
}

// mutate runs the mutating phase.
func (g *generation) mutate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	begin := g.now()
	a = withDryRun(a, o)
	begins := plugin.PhaseStep{Attributes: a, Phase: plugin.Mutating}
	if g.wants.Objects {
		// Apart from what plugins get: if its objects can't be converted, that is no error of theirs.
		begins.Shown = newVersioned(a, o, false, plugin.Wants{})
	}
	ctx = g.phaseBegins(ctx, begins)
	rounds, err := g.admit(ctx, begin, a, o)
	g.phaseDone(ctx, begin, plugin.PhaseStep{Attributes: a, Phase: plugin.Mutating, Rounds: rounds, Err: err})
	return err
}

func (g *generation) admit(ctx context.Context, begin time.Time, a admission.Attributes,
	o admission.ObjectInterfaces) (rounds int, err error) {
	v := newVersioned(a, o, true, g.wants)
	if err := g.admitRound(ctx, begin, 0, a, v, o); err != nil {
		return 1, err
	}
	rounds = 1
	if again := a.GetReinvocationContext(); again.ShouldReinvoke() && !again.IsReinvoke() {
		rounds = 2
		again.SetIsReinvoke()
		if err := g.admitRound(ctx, begin, 1, a, v, o); err != nil {
			return rounds, err
		}
	}
	return rounds, v.writeBack()
}

func (g *generation) admitRound(ctx context.Context, begin time.Time, round int, a admission.Attributes, v *versioned,
	o admission.ObjectInterfaces) error {
	for _, p := range g.mutating.plugins(a) {
		step := plugin.Step{Attributes: a, Plugin: p.name, Phase: plugin.Mutating, Round: round, Start: g.after(begin)}
		ctx := g.stepBegins(ctx, step)
		v.begin()
		var shown shownForm
		shown, step.Err = g.admitPlugin(ctx, p, a, v, o)
		step.Duration = g.since(step.Start)
		if shown != nil && g.wants.Changes {
			step.Changes = shown.changes()
		}
		v.end(&step)
		g.stepDone(ctx, step)
		if step.Err != nil {
			return step.Err
		}
	}
	return nil
}

// shownForm is the form of a request that a plugin got. It knows what the plugin changed.
type shownForm interface {
	changes() *jsondiff.Changes
}

// admitPlugin calls a plugin. It returns no form if the object couldn't be converted.
func (g *generation) admitPlugin(ctx context.Context, p mutator, a admission.Attributes, v *versioned,
	o admission.ObjectInterfaces) (shown shownForm, err error) {
	if p.internal {
		// The versioned object has the changes so far. The server's own object gets them first,
		// and is converted again for the plugins that follow.
		if err := v.writeBack(); err != nil {
			return nil, err
		}
		if !g.wants.Changes {
			return nil, guard(p.name, plugin.Mutating, a, func() error { return p.Admit(ctx, a, o) })
		}
		internal := &internalForm{Attributes: a, interfaces: o}
		err := guard(p.name, plugin.Mutating, a, func() error { return p.Admit(ctx, internal, o) })
		return internal, err
	}
	err = guard(p.name, plugin.Mutating, a, func() error { return p.Admit(ctx, v, o) })
	if failure := v.failure(); failure != nil {
		return nil, failure
	}
	return v, err
}

// validate runs the validating phase.
func (g *generation) validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	begin := g.now()
	a = withDryRun(a, o)
	ctx = g.phaseBegins(ctx, plugin.PhaseStep{Attributes: a, Phase: plugin.Validating})
	err := g.validateAll(ctx, begin, a, o)
	g.phaseDone(ctx, begin, plugin.PhaseStep{Attributes: a, Phase: plugin.Validating, Rounds: 1, Err: err})
	return err
}

func (g *generation) validateAll(ctx context.Context, begin time.Time, a admission.Attributes,
	o admission.ObjectInterfaces) error {
	v := newVersioned(a, o, false, g.wants)
	for _, p := range g.validating.plugins(a) {
		step := plugin.Step{Attributes: a, Plugin: p.name, Phase: plugin.Validating, Start: g.after(begin)}
		ctx := g.stepBegins(ctx, step)
		v.begin()
		var shown admission.Attributes = v
		if p.internal {
			shown = a
		}
		step.Err = guard(p.name, plugin.Validating, a, func() error { return p.Validate(ctx, shown, o) })
		if failure := v.failure(); failure != nil {
			step.Err = failure
		}
		step.Duration = g.since(step.Start)
		v.end(&step)
		g.stepDone(ctx, step)
		if step.Err != nil {
			return step.Err
		}
	}
	return nil
}

// guard calls a plugin. A plugin that panics refuses the request: what was wrong is the
// plugin, so the client learns its name, and the log the rest.
func guard(name string, phase plugin.Phase, a admission.Attributes, call func() error) (err error) {
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

// now returns the time, and the zero time if no observer will read it.
func (g *generation) now() time.Time {
	if len(g.observers) == 0 {
		return time.Time{}
	}
	return time.Now()
}

// after returns the time like now, within a phase that began at begin. Measuring the time since begin
// is cheaper than reading the clock.
func (g *generation) after(begin time.Time) time.Time {
	if len(g.observers) == 0 {
		return time.Time{}
	}
	return begin.Add(time.Since(begin))
}

// since returns the time that has passed since a time of now or after.
func (g *generation) since(begin time.Time) time.Duration {
	if len(g.observers) == 0 {
		return 0
	}
	return time.Since(begin)
}

func (g *generation) phaseBegins(ctx context.Context, begins plugin.PhaseStep) context.Context {
	for _, o := range g.observers {
		ctx = o.PhaseBegins(ctx, begins)
	}
	return ctx
}

func (g *generation) stepBegins(ctx context.Context, step plugin.Step) context.Context {
	for _, o := range g.observers {
		ctx = o.StepBegins(ctx, step)
	}
	return ctx
}

func (g *generation) stepDone(ctx context.Context, step plugin.Step) {
	for _, o := range g.observers {
		o.StepDone(ctx, step)
	}
}

func (g *generation) phaseDone(ctx context.Context, begin time.Time, phase plugin.PhaseStep) {
	phase.Duration = g.since(begin)
	for _, o := range g.observers {
		o.PhaseDone(ctx, phase)
	}
}
