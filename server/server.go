// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server runs a whole Gatehouse server: the API server with a chain of plugins around its
// writes, and the controllers. The command, the tests' servers and programs with their own plugins
// start a server here.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"gatehouse.dev/apiserver"
	"gatehouse.dev/chain"
	"gatehouse.dev/chain/config"
	"gatehouse.dev/controllers"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/review/record"
	"gatehouse.dev/plugin"
	"gatehouse.dev/telemetry"
)

// controllersRetry is how long after their end controllers run again.
const controllersRetry = 5 * time.Second

// Config configures a server. NewConfig returns that of a server with no configuration.
type Config struct {
	// API configures the API server.
	API *apiserver.Options
	// Plugins are all plugins there are, in run order; Admission says which of them run.
	Plugins   []plugin.Descriptor
	Admission config.Options
	// Observers observe what the chain does, besides the metrics.
	Observers []plugin.Observer
	// Controllers are the controllers that run inside the server once it is ready.
	Controllers controllers.Options
	// Decisions configures which decisions are kept.
	Decisions decision.Options
	// Record says where requests are recorded, to be judged again.
	Record record.Options
	// Webhooks says whether admission webhooks are called.
	Webhooks plugin.WebhookCalls
	// WebhookBreaker says whether webhooks' endpoints that can't be reached aren't called until they
	// can.
	WebhookBreaker bool
	// Warn says whether clients are warned of what they write: of objects that no plugin enforces, and of
	// what an outage of their webhooks stops.
	Warn bool
	// LocalWebhooks are webhooks that are called at another URL; see plugin.Env.
	LocalWebhooks map[string]string
}

// NewConfig returns the configuration of a self-contained server on 127.0.0.1:6443, with the
// default plugins and all controllers.
func NewConfig(plugins []plugin.Descriptor) *Config {
	return &Config{
		API:         apiserver.NewOptions(),
		Plugins:     plugins,
		Controllers: controllers.Options{Controllers: []string{"*"}, Impersonate: true},
		Decisions:   decision.NewOptions(),
		Record:      record.NewOptions(),

		Warn: true,
	}
}

// NewKubeAPIServerConfig returns the configuration of a kube-apiserver. It has kube-apiserver's
// default plugins, no controllers and no decisions. Everything else has to be set.
func NewKubeAPIServerConfig(plugins []plugin.Descriptor) *Config {
	api := apiserver.NewKubeAPIServerOptions()
	// Without controllers, tests write the status of quotas themselves.
	api.KeepQuotaStatus = true
	return &Config{API: api, Plugins: plugins}
}

// Server is a server that has been built. Run runs it.
type Server struct {
	*apiserver.Server
	config      *Config
	chain       *chain.Chain
	reloads     *reloads
	decisions   *decision.Store
	decisionLog *decision.Log
	record      *record.Log // nil for none
}

// Decisions returns the store of the server's decisions, or nil if it records none.
func (s *Server) Decisions() *decision.Store { return s.decisions }

// New builds a server. It doesn't change the configuration. An error about the configuration is an
// apiserver.OptionsError; see apiserver.New.
func New(ctx context.Context, config *Config) (*Server, error) {
	if err := errors.Join(config.Controllers.Validate(), config.Decisions.Validate(),
		config.Record.Validate()); err != nil {
		return nil, apiserver.OptionsError{Err: err}
	}
	c, api := *config, *config.API
	c.API = &api
	// Servers that share an etcd share its objects, so only one of them may run controllers over
	// them at a time.
	c.Controllers.LeaderElect = !api.Embedded()
	selected, admission, err := c.Admission.Load(c.Plugins)
	if err != nil {
		return nil, apiserver.OptionsError{Err: err}
	}
	if err := c.requireAPIs(selected); err != nil {
		return nil, apiserver.OptionsError{Err: err}
	}
	api.WholePods = c.Controllers.WholePods()
	api.CountQuotas = enforcesQuotas(selected)
	api.KeepQuotaStatus = api.KeepQuotaStatus || c.Controllers.LeavesOut(names.ResourceQuotaController)
	s := &Server{config: &c}
	observers := []plugin.Observer{telemetry.Metrics()}
	observers = append(observers, c.Observers...)
	if api.Tracing() {
		observers = append(observers, telemetry.Traces())
	}
	if c.Decisions.Enabled {
		recorder, err := s.newRecorder()
		if err != nil {
			return nil, apiserver.OptionsError{Err: err}
		}
		observers = append(observers, recorder)
	}
	if s.record, err = c.Record.Open(); err != nil {
		s.closeLogs()
		return nil, apiserver.OptionsError{Err: err}
	}
	if s.record != nil {
		recorder := record.NewRecorder(s.record)
		api.Filters = append(slices.Clone(api.Filters), recorder.Filter)
		observers = append(observers, recorder)
	}
	if c.WebhookBreaker {
		api.Filters = append(slices.Clone(api.Filters), serveWebhooks)
	}
	s.Server, err = apiserver.New(ctx, &api, func(env *plugin.Env) (apiserver.Admission, error) {
		env.Webhooks, env.LocalWebhooks, env.WebhookBreaker = c.Webhooks, c.LocalWebhooks, c.WebhookBreaker
		var err error
		if s.chain, err = chain.New(selected, admission, env, observers...); err != nil {
			return nil, err
		}
		s.reloads = newReloads(env.APIServerID, s.chain.Files())
		return c.withWarnings(s.chain, env, selected), nil
	})
	if err != nil {
		s.closeLogs()
		return nil, err
	}
	return s, nil
}

// requireAPIs makes the API server serve what the selected plugins need.
func (c *Config) requireAPIs(selected []plugin.Descriptor) error {
	c.API.RequiredAPIs = map[schema.GroupVersionResource][]string{}
	for _, d := range selected {
		if d.Gate != "" && !utilfeature.DefaultFeatureGate.Enabled(d.Gate) {
			continue
		}
		for _, resource := range d.Server.Needs {
			c.API.RequiredAPIs[resource] = append(c.API.RequiredAPIs[resource], d.Name)
		}
	}
	made, err := former(c.Plugins)
	if made != nil {
		c.API.Former = made(plugin.Names(selected))
	}
	return err
}

// former returns what makes servers with these plugins serve more than Kubernetes' own kinds, or nil.
func former(plugins []plugin.Descriptor) (apiserver.NewFormer, error) {
	for i := range plugins {
		switch made := plugins[i].Server.Former.(type) {
		case nil:
		case apiserver.NewFormer:
			return made, nil
		default:
			return nil, fmt.Errorf("plugin %s: Server.Former of its Descriptor is a %T: it must be an apiserver.NewFormer",
				plugins[i].Name, made)
		}
	}
	return nil, nil
}

// SeesAll returns a function that makes a client's configuration see all objects of a server with these
// plugins, also those that the server hides while they wait.
func SeesAll(plugins []plugin.Descriptor) func(*rest.Config) *rest.Config {
	made, _ := former(plugins) // New returns the error
	return func(config *rest.Config) *rest.Config {
		if made != nil {
			config, _ = made(plugin.Names(plugins)).SeesAll(config)
		}
		return config
	}
}

// enforcesQuotas reports whether a plugin enforces quotas.
func enforcesQuotas(selected []plugin.Descriptor) bool {
	return slices.ContainsFunc(selected, func(d plugin.Descriptor) bool {
		return slices.Contains(d.Server.Enforces, plugin.Enforced{Resource: corev1.Resource("resourcequotas")})
	})
}

// SelectPlugins returns the plugins that will run, in order, or an error in the admission options
// or their configuration file. It builds nothing.
func (c *Config) SelectPlugins() ([]plugin.Descriptor, error) {
	selected, _, err := c.Admission.Load(c.Plugins)
	return selected, err
}

// Await returns once admission and authorization use an object as it was written, or a later
// version, or once ctx ends, with its error. Use it in tests that need to read their own writes.
// Requests use whatever is in force on arrival.
func (s *Server) Await(ctx context.Context, written plugin.Written) error {
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
	return s.chain.Await(ctx, plugin.Written{})
}

// Plugins returns the running plugins, in order.
func (s *Server) Plugins() []plugin.Descriptor { return s.chain.Plugins() }

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
			s.runControllers(controlling)
		case <-controlling.Done():
		}
	}()
	err := s.Server.Run(serving)
	stopControlling()
	<-controlled
	s.closeLogs()
	return err
}

// runControllers runs the controllers until ctx ends. The API server serves without them too. They run
// again when the lease is free, or when the reason of their end may have passed.
func (s *Server) runControllers(ctx context.Context) {
	options := s.config.Controllers
	options.SeesAll = SeesAll(s.config.Plugins)
	// A server that hides pods from its own cache gives the controllers their own.
	if _, hides := s.config.API.Former.SeesAll(s.AdminConfig()); !hides {
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
