package chain

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/server/healthz"
)

// Reloader is a chain whose plugins can be given another configuration while it is asked. Which
// plugins there are doesn't change.
//
// A plugin whose section of the configuration is as it was, with the files that it names, stays the
// same, with all that it knows. Of the others new ones are built, and the old ones' Env.Done is
// closed once no request uses them any more. A request that WithRequest knows is asked about by the
// same plugins from its beginning to its end.
type Reloader struct {
	selected  []Descriptor
	env       *Env
	observers []Observer
	// until ends when the host does.
	until context.Context

	reloading sync.Mutex
	config    *Config    // the one in force
	mu        sync.Mutex // of what follows, and of all generations
	current   *generation
}

// generation is the chain between two reloads.
type generation struct {
	*Chain
	plugins map[string]*running
	// users are the requests that it is asked about, and 1 while it is the current one.
	users int
}

// running is one plugin.
type running struct {
	plugin admission.Interface
	// section is the configuration that it was built with.
	section *pluginConfig
	// end closes its Env.Done.
	end context.CancelFunc
	// generations counts those that have it.
	generations int
}

var (
	_ admission.MutationInterface   = &Reloader{}
	_ admission.ValidationInterface = &Reloader{}
	_ ReadyChecker                  = &Reloader{}
)

// NewReloader builds a chain as New does.
func NewReloader(selected []Descriptor, config *Config, env *Env, observers ...Observer) (*Reloader, error) {
	if env == nil {
		env = &Env{}
	}
	r := &Reloader{selected: slices.Clone(selected), env: env, observers: observers, until: context.Background()}
	if env.Done != nil {
		// One goroutine for all plugins: contexts made of this one need none.
		until, end := context.WithCancel(r.until)
		r.until = until
		go func() {
			<-env.Done
			end()
		}()
	}
	first, err := r.build(selected, config, nil)
	if err != nil {
		return nil, err
	}
	r.current, r.config = first, config
	return r, nil
}

// Reload has the plugins go by another configuration, all of them or, where that is an error, none.
// It tells whether anything is another one. env.Informers are started where plugins have asked for
// new ones.
func (r *Reloader) Reload(config *Config) (changed bool, err error) {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	// What was said about deprecated plugins need not be said again.
	selected := slices.Clone(r.selected)
	for i := range selected {
		selected[i].Deprecated = ""
		if p := r.current.plugins[selected[i].Name]; p != nil && !p.section.same(config.find(selected[i].Name)) {
			changed = true
		}
	}
	if !changed {
		r.config = config
		return false, nil
	}
	next, err := r.build(selected, config, r.current.plugins)
	if err != nil {
		return false, err
	}
	if r.env.Informers != nil && r.env.Done != nil {
		r.env.Informers.Start(r.env.Done)
	}
	r.mu.Lock()
	last := r.current
	r.current, r.config = next, config
	r.mu.Unlock()
	r.release(last)
	return true, nil
}

// build builds a chain of the plugins that are there and need not change, and of new ones.
func (r *Reloader) build(selected []Descriptor, config *Config, there map[string]*running) (*generation, error) {
	g := &generation{plugins: map[string]*running{}, users: 1}
	var built []*running
	descriptors := slices.Clone(selected)
	for i, d := range selected {
		section := config.find(d.Name)
		if p := there[d.Name]; p != nil && p.section.same(section) {
			g.plugins[d.Name] = p
			descriptors[i].New = func(io.Reader, *Env) (admission.Interface, error) { return p.plugin, nil }
			descriptors[i].validated = true
			continue
		}
		descriptors[i].New = func(config io.Reader, env *Env) (admission.Interface, error) {
			own := *env
			ctx, end := context.WithCancel(r.until)
			if env.Done != nil {
				own.Done = ctx.Done()
			}
			p := &running{section: section, end: end}
			built = append(built, p) // also where it fails: it may have begun something
			var err error
			if p.plugin, err = d.New(config, &own); err == nil {
				g.plugins[d.Name] = p
			}
			return p.plugin, err
		}
	}
	var err error
	if g.Chain, err = New(descriptors, config, r.env, r.observers...); err != nil {
		for _, p := range built {
			p.end()
		}
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range g.plugins {
		p.generations++
	}
	return g, nil
}

// same tells whether a section is what a plugin was built with, as are the files that it names; nil
// is none.
func (p *pluginConfig) same(other *pluginConfig) bool {
	if p == nil || other == nil || p.data == nil || other.data == nil {
		return (p == nil || p.data == nil) == (other == nil || other.data == nil)
	}
	for path, was := range p.named {
		if is, ok := sumOf(path); !ok || is != was {
			return false
		}
	}
	return p.path == other.path && p.flags == other.flags && bytes.Equal(p.data, other.data)
}

// acquire is the current generation, for somebody who releases it.
func (r *Reloader) acquire() *generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.users++
	return r.current
}

// release ends plugins that nobody uses any more.
func (r *Reloader) release(g *generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g.users--; g.users > 0 {
		return
	}
	for _, p := range g.plugins {
		if p.generations--; p.generations == 0 {
			p.end()
		}
	}
}

// requestKey has the place in which a request keeps its generation.
type requestKey struct{}

// place is a request's generation, once it has one.
type place struct {
	mu  sync.Mutex // a request may delete many objects at once
	has *generation
}

// WithRequest gives each request that may be asked about more than once the plugins that it begins
// with until it ends.
func (r *Reloader) WithRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		switch request.Method {
		case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
			p := &place{}
			defer r.leave(p)
			request = request.WithContext(context.WithValue(request.Context(), requestKey{}, p))
		}
		next.ServeHTTP(w, request)
	})
}

// use is the generation of a request, and what is to be called when it has been asked.
func (r *Reloader) use(ctx context.Context, a admission.Attributes) (g *generation, done func()) {
	p, ok := ctx.Value(requestKey{}).(*place)
	// Connections to pods last for as long as they like, and are asked about once.
	if !ok || a.GetOperation() == admission.Connect {
		g = r.acquire()
		return g, func() { r.release(g) }
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.has == nil {
		p.has = r.acquire()
	}
	return p.has, func() {}
}

// leave ends a request.
func (r *Reloader) leave(p *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.has != nil {
		r.release(p.has)
		p.has = nil
	}
}

// now is the current chain, for who asks it nothing about a request.
func (r *Reloader) now() *Chain {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current.Chain
}

// Plugins are the plugins that run, in order.
func (r *Reloader) Plugins() []Descriptor { return slices.Clone(r.selected) }

// Handles implements admission.Interface. It is the same for as long as the plugins are.
func (r *Reloader) Handles(operation admission.Operation) bool { return r.now().Handles(operation) }

// Admit is Chain.Admit.
func (r *Reloader) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	g, done := r.use(ctx, a)
	defer done()
	return g.Admit(ctx, a, o)
}

// Validate is Chain.Validate.
func (r *Reloader) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	g, done := r.use(ctx, a)
	defer done()
	return g.Validate(ctx, a, o)
}

// Await is Chain.Await.
func (r *Reloader) Await(ctx context.Context, written Written) error {
	return r.now().Await(ctx, written)
}

// ReadyChecks are the checks of the plugins as they were built first. Each asks the plugin that is
// there when it is asked; one that has no such check any more has nothing to wait for.
func (r *Reloader) ReadyChecks() []healthz.HealthChecker {
	var checks []healthz.HealthChecker
	for _, first := range r.now().ReadyChecks() {
		name := first.Name()
		checks = append(checks, healthz.NamedCheck(name, func(request *http.Request) error {
			for _, check := range r.now().ReadyChecks() {
				if check.Name() == name {
					return check.Check(request)
				}
			}
			return nil
		}))
	}
	return checks
}

// Files are those that the configuration in force is read from, and those that it names.
func (r *Reloader) Files() []string {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	if r.config == nil || r.config.file == "" {
		return nil
	}
	files := []string{r.config.file}
	for _, p := range r.config.plugins {
		if p.path != "" {
			files = append(files, p.path)
		}
		if built := r.current.plugins[p.name]; built != nil && built.section != nil {
			files = append(files, slices.Sorted(maps.Keys(built.section.named))...)
		}
	}
	return files
}
