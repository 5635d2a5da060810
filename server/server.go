// Package server is Gatehouse as a whole: the API server with a chain of plugins around its writes,
// and the controllers. The command, the tests' servers and a program with plugins of its own all
// start it here.
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

// controllersRetry is how long after they ended controllers run again.
const controllersRetry = 5 * time.Second

// Config says what a server is made of. NewConfig gives that of a server with no configuration.
type Config struct {
	// API says how the API server runs.
	API *apiserver.Options
	// Plugins are all plugins there are, in run order; Admission says which of them run.
	Plugins   []chain.Descriptor
	Admission chain.Options
	// Observers are told what the chain does, besides the metrics.
	Observers []chain.Observer
	// Controllers says which controllers run inside the server once it is ready.
	Controllers controllers.Options
	// Decisions says what is kept of what became of requests.
	Decisions decision.Options
	// Webhooks says whether admission webhooks are called.
	Webhooks chain.WebhookCalls
	// LocalWebhooks are webhooks that are asked at another URL; see chain.Env.
	LocalWebhooks map[string]string
}

// NewConfig is a server with all of its own on 127.0.0.1:6443, plugins by their defaults, and all
// controllers.
func NewConfig(plugins []chain.Descriptor) *Config {
	return &Config{
		API:         apiserver.NewOptions(),
		Plugins:     plugins,
		Controllers: controllers.Options{Controllers: []string{"*"}, Impersonate: true},
		Decisions:   decision.NewOptions(),
	}
}

// NewKubeAPIServerConfig is kube-apiserver: all of it is to be given, and it has its plugins'
// defaults, no controllers and no decisions.
func NewKubeAPIServerConfig(plugins []chain.Descriptor) *Config {
	return &Config{API: apiserver.NewKubeAPIServerOptions(), Plugins: plugins}
}

// Server has been built and waits to be run.
type Server struct {
	*apiserver.Server
	config      *Config
	chain       *chain.Reloader
	reloads     *reloads
	decisions   *decision.Store
	decisionLog *decision.Log
}

// Decisions are those that the server has made and still has, nil where it makes none.
func (s *Server) Decisions() *decision.Store { return s.decisions }

// New builds a server. Everything that is wrong with the configuration is its error, an
// apiserver.OptionsError; see apiserver.New.
func New(ctx context.Context, c *Config) (*Server, error) {
	if err := errors.Join(c.Controllers.Validate(), c.Decisions.Validate()); err != nil {
		return nil, apiserver.OptionsError{Err: err}
	}
	// Servers that share an etcd share its objects, so only one of them may run controllers over
	// them at a time.
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

// require makes the API server do what the plugins that will run need of it.
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

// SelectPlugins returns the plugins that will run, in order, or what is wrong with the admission
// options and their configuration file. It builds nothing.
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

// Await returns once admission and authorization go by an object as it was written, or as it was
// later, or once ctx ends, with its error. It is for who must know; requests go by what is in force
// when they come.
func (s *Server) Await(ctx context.Context, written chain.Written) error {
	if err := s.Server.Await(ctx, written); err != nil {
		return err
	}
	return s.chain.Await(ctx, written)
}

// AwaitStored returns once admission and authorization go by what is stored when it is called, but
// for policies' params of custom kinds; or once ctx ends, with its error.
func (s *Server) AwaitStored(ctx context.Context) error {
	if err := s.Server.AwaitStored(ctx); err != nil {
		return err
	}
	return s.chain.Await(ctx, chain.Written{})
}

// Plugins are those that run, in order.
func (s *Server) Plugins() []chain.Descriptor { return s.chain.Plugins() }

// Run serves until ctx ends; see apiserver.Server.Run. The controllers stop before the server does,
// since they are its clients.
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

// control runs the controllers until ctx ends. The API server serves without them, too; they run
// again when the lease is free, or when what stopped them may have passed.
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
