// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllers runs the controllers without which an API server's own objects don't hold
// together: deleted namespaces empty and go, dependents go with their owners, pods that are half
// deleted go, deleted claims and volumes go once nothing uses them, every namespace has its default
// ServiceAccount and the cluster's CA, aggregated ClusterRoles get their rules, and the status
// of policies shows which of their expressions don't fit their objects' kinds. On request the
// package also runs the controllers that make pods: see Workloads.
//
// The controllers are Kubernetes' own, except for those of quotas, of half deleted pods and of
// policies. They have kube-controller-manager's names. They are clients: the same code runs inside
// the server and, as `gatehouse controllers`, apart from it. Their writes pass admission like any
// client's.
//
// The package can be imported, but docs/compatibility.md makes no promise about it: it may change with
// any release.
package controllers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	serviceaccountuser "k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	controllerapp "k8s.io/controller-manager/app"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/podcache"
)

const (
	informerResync = 12 * time.Hour

	// A controller that couldn't be built is built again so much later, twice as much each time.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// Options choose what runs and how.
type Options struct {
	// Controllers are names; "*" stands for all but those of workloads, Workloads for these, and
	// "-name" takes one out. Empty runs nothing.
	Controllers []string
	// LeaderElect makes the controllers run only in the process that holds the Lease
	// kube-system/gatehouse-controllers, so that several processes may run them over one cluster.
	LeaderElect bool
	// Impersonate gives each controller the identity of its service account in kube-system, with
	// what Kubernetes' default roles grant that one and no more. The configuration's user must be
	// allowed to impersonate.
	Impersonate bool
	// RootCA is the PEM of the authority that signed the API server's certificate. It is published
	// in every namespace. The default is the client configuration's authority.
	RootCA []byte
	// QuotaSyncPeriod is how often usage is counted again. 0 means DefaultQuotaSyncPeriod.
	QuotaSyncPeriod time.Duration
	// Pods is an existing cache of all pods. If WholePods reports true, it must keep what
	// podcache.Whole leaves of a pod, and otherwise what podcache.Trim leaves. It must run longer
	// than the controllers. If it is nil, they have their own.
	Pods corev1informers.PodInformer
	// SeesAll, if not nil, returns a client configuration with which the controllers also see objects that the
	// server hides from others.
	SeesAll func(*rest.Config) *rest.Config
}

// Names returns the names of all controllers, in alphabetical order, the workload controllers last.
func Names() []string {
	var names []string
	for _, c := range slices.Concat(all, workloads) {
		names = append(names, c.name)
	}
	return names
}

// AddFlags adds --controllers and --resource-quota-sync-period.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	known := Names()
	fs.StringSliceVar(&o.Controllers, "controllers", []string{"*"}, fmt.Sprintf(
		"A list of controllers to enable. '*' enables all that are on by default, '%s' those of workloads, which "+
			"make pods, 'foo' enables the controller named 'foo', '-foo' disables it.\nControllers that are on by "+
			"default: %s\nControllers of workloads: %s",
		Workloads, strings.Join(known[:len(all)], ", "), strings.Join(known[len(all):], ", ")))
	fs.DurationVar(&o.QuotaSyncPeriod, "resource-quota-sync-period", DefaultQuotaSyncPeriod,
		"How often what resource quotas limit is counted again.")
}

// Validate returns an error if a name is unknown or the period is negative.
func (o *Options) Validate() error {
	var errs []error
	for _, name := range o.Controllers {
		if name != "*" && name != Workloads && !slices.Contains(Names(), strings.TrimPrefix(name, "-")) {
			errs = append(errs, fmt.Errorf("--controllers: %q is not a controller; there are %s, and %q for those of "+
				"workloads", name, strings.Join(Names(), ", "), Workloads))
		}
	}
	if o.QuotaSyncPeriod < 0 {
		errs = append(errs, fmt.Errorf("--resource-quota-sync-period: %s must not be negative", o.QuotaSyncPeriod))
	}
	return errors.Join(errs...)
}

// Run runs the chosen controllers against the cluster of config until ctx ends, or until leadership
// is lost, which is ErrLeaseLost: another process may lead from then on. No controller runs any
// more when it returns.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if o.QuotaSyncPeriod == 0 {
		o.QuotaSyncPeriod = DefaultQuotaSyncPeriod
	}
	if len(o.chosenControllers()) == 0 {
		return nil
	}
	if err := o.completeRootCA(config); err != nil {
		return err
	}
	if !o.LeaderElect {
		return o.run(ctx, config)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return lead(ctx, client, func(leading context.Context) error { return o.run(leading, config) })
}

// chosenControllers returns the controllers to run. The first mention of a name decides, as in
// kube-controller-manager. Workloads counts as a mention after all others.
func (o Options) chosenControllers() []controller {
	offByDefault, wanted := sets.NewString(), slices.Clone(o.Controllers)
	for _, c := range workloads {
		offByDefault.Insert(c.name)
		if slices.Contains(o.Controllers, Workloads) {
			wanted = append(wanted, c.name)
		}
	}
	var chosen []controller
	for _, c := range slices.Concat(all, workloads) {
		if controllerapp.IsControllerEnabled(c.name, offByDefault, wanted) {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// Runs reports whether the controller of that name runs.
func (o Options) Runs(name string) bool {
	return slices.ContainsFunc(o.chosenControllers(), func(c controller) bool { return c.name == name })
}

// LeavesOut reports whether the controller of that name is switched off by its name.
func (o Options) LeavesOut(name string) bool { return slices.Contains(o.Controllers, "-"+name) }

func (o Options) run(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	// Most of the cost of lists and watches is decoding.
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	// The informers read with the given identity: controllers in one process may share what they
	// read.
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	trim := podcache.Trim
	if o.WholePods() {
		trim = podcache.Whole
	}
	shared := &shared{config: config, options: o,
		informers: informers.NewSharedInformerFactoryWithOptions(client, informerResync, informers.WithTransform(trim))}
	// Informers outlast the controllers, because some can't be built from an informer that has
	// ended.
	informing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, c := range o.chosenControllers() {
		running.Go(func() { shared.keep(ctx, informing, c) })
	}
	running.Wait()
	stop()
	shared.informers.Shutdown()
	return nil
}

// shared is the state that all controllers of a run share.
type shared struct {
	config    *rest.Config
	options   Options
	informers informers.SharedInformerFactory
	indexing  sync.Mutex // see ownInformers
}

// keep runs a controller until ctx ends, and its informers until informing ends. If a controller
// can't be built, for example because its service account has lost a right, or if it panics, it is
// built again later. The other controllers go on.
func (s *shared) keep(ctx, informing context.Context, c controller) {
	for delay := firstRetry; ; delay = min(2*delay, lastRetry) {
		err := s.runOnce(ctx, informing, c)
		if ctx.Err() != nil || err == nil {
			return
		}
		logCannotWork(c.name, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
	}
}

// runOnce builds a controller and runs it until ctx ends.
func (s *shared) runOnce(ctx, informing context.Context, c controller) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	own := &ownInformers{controller: c.name, factory: s.informers, indexing: &s.indexing}
	defer own.remove()
	e := &environment{config: s.config, options: s.options, informers: own}
	if s.options.Pods != nil {
		e.options.Pods = ownPods{s.options.Pods, own}
	}
	run, err := c.build(ctx, e)
	if err != nil {
		return err
	}
	if err := own.release(); err != nil {
		return err
	}
	s.informers.StartWithContext(informing)
	run(ctx)
	return nil
}

// logCannotWork logs, for the administrator, why a controller can't work.
func logCannotWork(controller string, err error) {
	klog.ErrorS(err, "Controller can't work and tries again", "controller", controller)
}

// environment holds what a controller is built from.
type environment struct {
	config    *rest.Config
	options   Options
	informers *ownInformers
}

// pods returns the only cache of pods that controllers have: the server's, or their own with the
// same fields.
func (e *environment) pods() corev1informers.PodInformer {
	if e.options.Pods != nil {
		return e.options.Pods
	}
	return e.informers.Core().V1().Pods()
}

// clientConfig returns the client configuration of the controller with that service account. Its
// rate isn't limited, because the server has priority and fairness.
func (e *environment) clientConfig(account string) *rest.Config {
	config := rest.AddUserAgent(rest.CopyConfig(e.config), account)
	config.QPS = -1
	if e.options.Impersonate {
		config.Impersonate = rest.ImpersonationConfig{
			UserName: serviceaccountuser.MakeUsername(metav1.NamespaceSystem, account),
			Groups:   append(serviceaccountuser.MakeGroupNames(metav1.NamespaceSystem), user.AllAuthenticated),
		}
	}
	return config
}

// seeingAll returns the configuration of a client that sees hidden objects too.
func (e *environment) seeingAll(account string) *rest.Config {
	config := e.clientConfig(account)
	if e.options.SeesAll != nil {
		config = e.options.SeesAll(config)
	}
	return config
}

// clients returns the clients of the controller with that service account: one for typed objects,
// and one for metadata. They see hidden objects too, because controllers delete and count all objects.
func (e *environment) clients(account string) (kubernetes.Interface, metadata.Interface, error) {
	config := e.seeingAll(account)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	objects, err := metadata.NewForConfig(config)
	return client, objects, err
}
