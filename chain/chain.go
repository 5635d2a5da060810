// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/klog/v2"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/plugin"
)

// Chain is the admission control of a server: an admission.Interface, the HTTP filter WithRequest,
// and the checks of ReadyChecks. It is safe for concurrent use.
//
// Reload changes the configuration of the plugins, but not which plugins there are.
type Chain struct {
	selected  []plugin.Descriptor
	env       *plugin.Env
	observers []plugin.Observer
	// until ends when the host stops.
	until context.Context

	reloading sync.Mutex
	config    *config.Config // the one in force
	mu        sync.Mutex     // of current, and of all generations
	current   *generation
}

// running is a built plugin.
type running struct {
	plugin plugin.Plugin
	// section is the configuration that it was built with.
	section *config.Section
	// end closes its Env.Done.
	end context.CancelFunc
	// generations is the number of generations that have it.
	generations int
}

var (
	_ admission.MutationInterface   = &Chain{}
	_ admission.ValidationInterface = &Chain{}
)

// New builds the selected plugins, in order, each with its section of the configuration and with
// env; see config.Options. The chain reports to the observers. If plugins can't be built the error
// names all of them.
func New(selected []plugin.Descriptor, c *config.Config, env *plugin.Env, observers ...plugin.Observer) (*Chain,
	error) {
	if err := plugin.CheckList(selected); err != nil {
		return nil, err
	}
	if env == nil {
		env = &plugin.Env{}
	}
	chain := &Chain{selected: slices.Clone(selected), env: env, observers: slices.Clone(observers), config: c,
		until: context.Background()}
	if env.Done != nil {
		// One goroutine for all plugins: contexts made of this one need none.
		until, end := context.WithCancel(chain.until)
		chain.until = until
		go func() {
			<-env.Done
			end()
		}()
	}
	for _, d := range selected {
		if d.Deprecated != "" {
			klog.Warningf("Admission plugin %q is enabled, but deprecated: %s", d.Name, d.Deprecated)
		}
	}
	first, err := chain.build(c, nil)
	if err != nil {
		return nil, err
	}
	chain.current = first
	return chain, nil
}

// build builds a generation. It takes over the plugins that are there and whose configuration hasn't
// changed.
func (c *Chain) build(configured *config.Config, there map[string]*running) (*generation, error) {
	g := newGeneration(c.observers)
	var errs []error
	var built []*running
	for i := range c.selected {
		d := &c.selected[i]
		section := configured.Section(d.Name)
		r := there[d.Name]
		if r == nil || !r.section.Same(section) {
			r = &running{section: section}
			// The plugin may start something and fail afterwards, so it is ended in any case.
			built = append(built, r)
			if err := c.start(d, r, configured); err != nil {
				errs = append(errs, fmt.Errorf("admission plugin %q%s: %w", d.Name, configured.Origin(d.Name), err))
				continue
			}
		}
		g.running[d.Name] = r
		if r.plugin == nil {
			continue // its feature gate is off
		}
		if err := g.add(d, r.plugin); err != nil {
			errs = append(errs, fmt.Errorf("admission plugin %q%s: %w", d.Name, configured.Origin(d.Name), err))
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		for _, r := range built {
			r.end()
		}
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range g.running {
		r.generations++
	}
	return g, nil
}

// start builds a plugin, unless its feature gate is off.
func (c *Chain) start(d *plugin.Descriptor, r *running, configured *config.Config) error {
	ctx, end := context.WithCancel(c.until)
	r.end = end
	if off, err := gateOff(d, c.env); err != nil || off {
		return err
	}
	own := *c.env
	if c.env.Done != nil {
		own.Done = ctx.Done()
	}
	built, err := d.New(configured.For(d.Name), &own)
	if err != nil {
		return err
	}
	if built == nil {
		return fmt.Errorf("New returned no plugin")
	}
	r.plugin = built
	if v, ok := built.(admission.InitializationValidator); ok && !d.Adopted() {
		return v.ValidateInitialization()
	}
	return nil
}

// Reload gives the plugins another configuration: all of them, or none if that is an error. It
// reports whether the configuration of any plugin changed.
//
// A plugin stays, with all that it knows, if its section of the configuration and the files that the
// section names are the same. The others are built anew. The Env.Done of an old plugin is closed
// once no request uses it any more. A request within WithRequest sees the same plugins from its
// beginning to its end. Reload starts the informers that new plugins asked for.
func (c *Chain) Reload(configured *config.Config) (changed bool, err error) {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	for name, r := range c.current.running {
		changed = changed || !r.section.Same(configured.Section(name))
	}
	if !changed {
		c.config = configured
		return false, nil
	}
	next, err := c.build(configured, c.current.running)
	if err != nil {
		return false, err
	}
	if c.env.Informers != nil && c.env.Done != nil {
		c.env.Informers.Start(c.env.Done)
	}
	c.mu.Lock()
	last := c.current
	c.current, c.config = next, configured
	c.mu.Unlock()
	c.release(last)
	return true, nil
}

// acquire returns the current generation, which the caller must release.
func (c *Chain) acquire() *generation {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current.users++
	return c.current
}

// release ends the plugins that nothing uses any more.
func (c *Chain) release(g *generation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g.users--; g.users > 0 {
		return
	}
	for _, r := range g.running {
		if r.generations--; r.generations == 0 {
			r.end()
		}
	}
}

// now returns the current generation, for calls that don't concern a request.
func (c *Chain) now() *generation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// Plugins returns the plugins that run, in order.
func (c *Chain) Plugins() []plugin.Descriptor { return slices.Clone(c.selected) }

// Handles reports whether any plugin is called for the operation. A reload doesn't change that.
func (c *Chain) Handles(operation admission.Operation) bool { return c.now().handles(operation) }

// Admit runs the mutating phase: every mutating plugin in order, and all of them once more if one
// asked for that through the request's ReinvocationContext. The first error ends the phase. The
// object then has some of the plugins' changes and must not be used. Otherwise a.GetObject() has all
// changes when Admit returns.
func (c *Chain) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	g, done := c.use(ctx, a)
	defer done()
	return g.mutate(ctx, a, o)
}

// Validate runs the validating phase: every validating plugin in order. The first error ends it.
func (c *Chain) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	g, done := c.use(ctx, a)
	defer done()
	return g.validate(ctx, a, o)
}

// Await returns when all plugins that follow the resource use the object as it was written. Use it in
// tests that need to read their own writes. Requests use whatever is in force on arrival.
func (c *Chain) Await(ctx context.Context, written plugin.Written) error {
	for _, f := range c.now().followers {
		if err := f.Await(ctx, written); err != nil {
			return err
		}
	}
	return nil
}

// ReadyChecks returns the checks of the plugins that have some, in order. Each check asks the plugin
// that is in force when the check runs, and passes if that plugin no longer has it.
func (c *Chain) ReadyChecks() []healthz.HealthChecker {
	var checks []healthz.HealthChecker
	for _, first := range c.now().readyChecks {
		name := first.Name()
		checks = append(checks, healthz.NamedCheck(name, func(request *http.Request) error {
			for _, check := range c.now().readyChecks {
				if check.Name() == name {
					return check.Check(request)
				}
			}
			return nil
		}))
	}
	return checks
}

// Files returns the files that the configuration in force was read from, and those that it names.
func (c *Chain) Files() []string {
	c.reloading.Lock()
	defer c.reloading.Unlock()
	files := c.config.Files()
	for _, d := range c.selected {
		if r := c.current.running[d.Name]; r != nil && len(files) > 0 {
			files = append(files, r.section.Named()...)
		}
	}
	return files
}
