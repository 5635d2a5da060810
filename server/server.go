// Package server runs a whole Gatehouse server: the API server with a chain of plugins around its
// writes, and the controllers. The command, the tests' servers and programs with their own plugins
// start a server here.
package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"

	"gatehouse.dev/apiserver"
	"gatehouse.dev/chain"
	"gatehouse.dev/controllers"
	"gatehouse.dev/internal/decision"
)

// controllersRetry is how long after their end controllers run again.
const controllersRetry = 5 * time.Second

// Config configures a server. NewConfig returns that of a server with no configuration.
type Config struct {
	// API configures the API server.
	API *apiserver.Options
	// Plugins are all plugins there are, in run order; Admission says which of them run.
	Plugins   []chain.Descriptor
	Admission chain.Options
	// Observers are told what the chain does, besides the metrics.
	Observers []chain.Observer
	// Controllers are the controllers that run inside the server once it is ready.
	Controllers controllers.Options
	// Decisions configures which decisions are kept.
	Decisions decision.Options
	// Webhooks says whether admission webhooks are called.
	Webhooks chain.WebhookCalls
	// LocalWebhooks are webhooks that are called at another URL; see chain.Env.
	LocalWebhooks map[string]string
}

// NewConfig returns the configuration of a self-contained server on 127.0.0.1:6443, with the
// default plugins and all controllers.
func NewConfig(plugins []chain.Descriptor) *Config {
	return &Config{
		API:         apiserver.NewOptions(),
		Plugins:     plugins,
		Controllers: controllers.Options{Controllers: []string{"*"}, Impersonate: true},
		Decisions:   decision.NewOptions(),
	}
}

// NewKubeAPIServerConfig returns the configuration of a kube-apiserver. It has kube-apiserver's
// default plugins, no controllers and no decisions. Everything else has to be set.
func NewKubeAPIServerConfig(plugins []chain.Descriptor) *Config {
	return &Config{API: apiserver.NewKubeAPIServerOptions(), Plugins: plugins}
}

// Server is a server that has been built. Run runs it.
type Server struct {
	*apiserver.Server
	config      *Config
	chain       *chain.Reloader
	reloads     *reloads
	decisions   *decision.Store
	decisionLog *decision.Log
}

// Decisions returns the store of the server's decisions, or nil if it records none.
func (s *Server) Decisions() *decision.Store { return s.decisions }

// New builds a server. If the configuration is wrong, the error is an apiserver.OptionsError; see
// apiserver.New.
func New(ctx context.Context, c *Config) (*Server, error) {
	if err := errors.Join(c.Controllers.Validate(), c.Decisions.Validate()); err != nil {
		return nil, apiserver.OptionsError{Err: err}
	}
	// Servers that share an etcd share its objects, so only one of them may run controllers at a
	// time.
	c.Controllers.LeaderElect = !c.API.Embedded()
	selected, err := c.SelectPlugins()
	if err != nil {
		return nil, apiserver.OptionsError{Err: err}
	}
	c.require(selected)
	c.API.WholePods = c.Controllers.WholePods()
	s := &Server{config: c}
	observers := slices.Clone(c.Observers)
	if c.API.Tracing() {
		observers = append(observers, chain.Traces())
	}
	if c.Decisions.Enabled {
		recorder, err := s.record()
		if err != nil {
			return nil, apiserver.OptionsError{Err: err}
		}
		observers = append(observers, recorder)
	}
	s.Server, err = apiserver.New(ctx, c.API, func(env *chain.Env) (admission.Interface, error) {
		return s.buildChain(env, observers)
	})
	if err != nil {
		s.closeLog()
		return nil, err
	}
	return s, nil
}

// require makes the API server serve what the selected plugins need.
func (c *Config) require(selected []chain.Descriptor) {
	c.API.RequiredAPIs = map[schema.GroupVersionResource][]string{}
	for _, plugin := range selected {
		if plugin.Gate != "" && !utilfeature.DefaultFeatureGate.Enabled(plugin.Gate) {
			continue
		}
		for _, resource := range plugin.Needs {
			c.API.RequiredAPIs[resource] = append(c.API.RequiredAPIs[resource], plugin.Name)
		}
		c.API.HideUninitialized = c.API.HideUninitialized || plugin.Hides
	}
}

// SelectPlugins returns the plugins that will run, in order, or an error in the admission options
// or their configuration file. It builds nothing.
func (c *Config) SelectPlugins() ([]chain.Descriptor, error) {
	selected, _, err := c.Admission.Load(c.Plugins)
	return selected, err
}

func (s *Server) buildChain(env *chain.Env, observers []chain.Observer) (admission.Interface, error) {
	c := s.config
	selected, config, err := c.Admission.Load(c.Plugins)
	if err != nil {
		return nil, err
	}
	env.Webhooks, env.LocalWebhooks = c.Webhooks, c.LocalWebhooks
	s.chain, err = chain.NewReloader(selected, config, env, append([]chain.Observer{chain.Metrics()}, observers...)...)
	if err != nil {
		return nil, err
	}
	s.reloads = newReloads(env.APIServerID, s.chain.Files())
	return warn(s.chain, c.Plugins, selected), nil
}

// Await returns once admission and authorization use an object as it was written, or a later
// version, or once ctx ends, with its error. Use it in tests that need to read their own writes.
// Requests use whatever is in force on arrival.
func (s *Server) Await(ctx context.Context, written chain.Written) error {
	if err := s.Server.Await(ctx, written); err != nil {
		return err
	}
	return s.chain.Await(ctx, written)
}

// AwaitStored returns once admission and authorization use what was stored when it was called,
// except for policies' params of custom kinds. If ctx ends first, it returns its error.
func (s *Server) AwaitStored(ctx context.Context) error {
	if err := s.Server.AwaitStored(ctx); err != nil {
		return err
	}
	return s.chain.Await(ctx, chain.Written{})
}

// Plugins returns the running plugins, in order.
func (s *Server) Plugins() []chain.Descriptor { return s.chain.Plugins() }

// Run serves until ctx ends; see apiserver.Server.Run. The controllers stop before the server does,
// because they are its clients.
func (s *Server) Run(ctx context.Context) error {
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	controlling, stopControlling := context.WithCancel(ctx)
	defer stopControlling()

	controlled := make(chan struct{})
	go func() {
		defer close(controlled)
		defer stopServing()
		select {
		case <-s.Ready():
			s.control(controlling)
		case <-controlling.Done():
		}
	}()
	err := s.Server.Run(serving)
	stopControlling()
	<-controlled
	s.closeLog()
	return err
}

// control runs the controllers until ctx ends. The API server serves without them too. They run
// again when the lease is free, or when the reason of their end may have passed.
func (s *Server) control(ctx context.Context) {
	options := s.config.Controllers
	// Who hides pods from its own cache has others see them.
	if !s.config.API.HideUninitialized {
		options.Pods = s.Pods()
	}
	for {
		err := controllers.Run(ctx, s.AdminConfig(), options)
		if ctx.Err() != nil {
			return
		}
		if err == nil { // there are none
			<-ctx.Done()
			return
		}
		klog.ErrorS(err, "Controllers have ended and run again")
		if errors.Is(err, controllers.ErrLeaseLost) {
			continue // and wait for the lease
		}
		select {
		case <-ctx.Done():
		case <-time.After(controllersRetry):
		}
	}
}
