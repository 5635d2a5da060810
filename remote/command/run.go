// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/internal/collect"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/review/record"
	"gatehouse.dev/remote/cluster"
	"gatehouse.dev/remote/decisions"
	"gatehouse.dev/remote/door"
	"gatehouse.dev/remote/registration"
	"gatehouse.dev/webhook/server"
)

const (
	// An API server that is away is asked again after these times.
	firstRetry = time.Second
	lastRetry  = 10 * time.Second
)

// run serves until the command is told to end.
func (o *options) run(c *cobra.Command) error {
	o.log.Apply(c.ErrOrStderr())
	o.log.Show(true)
	if err := o.check(); err != nil {
		return commandline.Usage(err)
	}
	if o.removesAtEnd() && !c.Flags().Changed("shutdown-delay-duration") {
		o.drain = inForeground
	}
	r, config, err := o.load()
	if err != nil {
		return commandline.Usage(err)
	}
	for _, p := range r.Plugins {
		if p.Deprecated != "" {
			fmt.Fprintf(c.ErrOrStderr(), "%s: warning: admission plugin %s is deprecated: %s\n", c.Root().Name(),
				p.Name, p.Deprecated)
		}
	}
	collect.KeepToContainer()
	w := &worker{options: o, registration: r, config: config, door: door.New(), draining: make(chan struct{}),
		allowed: make(chan struct{}), begun: make(chan struct{}), kept: make(chan struct{})}
	if w.tracer, err = newTracer(c.Context(), o.tracing); err != nil {
		return commandline.Usage(fmt.Errorf("--tracing-config-file %s: %w", o.tracing, err))
	}
	defer w.tracer.end()
	if w.connection, w.client, err = o.connection(w.tracer); err != nil {
		return err
	}
	if w.credentials, err = o.newCredentials(r, w.client); err != nil {
		return commandline.Usage(fmt.Errorf("--tls-cert-file: %w", err))
	}
	if w.front, err = w.newFront(); err != nil {
		return commandline.Usage(fmt.Errorf("--service-account-key-file: %w", err))
	}
	if w.log, err = o.decisions.OpenLog(); err != nil {
		return commandline.Usage(err)
	}
	if w.record, err = o.record.Open(); err != nil {
		w.closeLogs()
		return commandline.Usage(err)
	}
	defer w.closeLogs()
	return w.serve(c)
}

// connection returns the client configuration of the cluster, and a client.
func (o *options) connection(t tracer) (*rest.Config, kubernetes.Interface, error) {
	config, _, _, err := o.reach.Load()
	if err != nil {
		return nil, nil, err
	}
	config.UserAgent = rest.DefaultKubernetesUserAgent()
	config.Wrap(t.wrap)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, commandline.Usage(fmt.Errorf("kubeconfig: %w", err))
	}
	return config, client, nil
}

// newFront returns the door's handler. If callers must show a token, it lets only those to the door that
// do. /decisions has callers of its own, who show other tokens.
func (w *worker) newFront() (http.Handler, error) {
	o := w.options
	if o.tokenIssuer == "" {
		return w.door, nil
	}
	tokens, err := server.NewTokens(server.TokenConfig{Issuer: o.tokenIssuer, KeyFiles: o.tokenKeyFiles,
		Audiences: registration.Audiences(w.registration)})
	if err != nil {
		return nil, err
	}
	required, others := tokens.Require(w.door), append(slices.Clone(door.OpenPaths), decisions.Path)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if slices.Contains(others, r.URL.Path) {
			w.door.ServeHTTP(rw, r)
			return
		}
		required.ServeHTTP(rw, r)
	}), nil
}

// A worker is a replica.
type worker struct {
	options      *options
	registration *registration.Options
	config       *config.Config
	connection   *rest.Config
	client       kubernetes.Interface
	credentials  *credentials
	tracer       tracer
	log          *decision.Log // nil for none
	record       *record.Log   // nil for none
	door         *door.Door
	front        http.Handler // the door, behind the check of tokens
	// draining is closed when the process is told to end.
	draining chan struct{}
	keeper   registration.Keeper
	// allowed is closed when the process has the rights that it needs.
	allowed chan struct{}
	// begun is closed when the keeper begins to keep the webhook configurations, and kept when it
	// doesn't keep them any more.
	begun, kept chan struct{}
	keptErr     error // why, when kept is closed
}

// removesAtEnd reports whether the process takes its webhook configurations with it.
func (o *options) removesAtEnd() bool { return o.url != "" && !o.keep }

// closeLogs writes what waits for the decision log and for the record, and closes both.
func (w *worker) closeLogs() {
	if w.log != nil {
		if err := w.log.Close(); err != nil {
			klog.ErrorS(err, "Closing the decision log")
		}
	}
	if w.record != nil {
		if err := w.record.Close(); err != nil {
			klog.ErrorS(err, "Closing the record")
		}
	}
}

// serve serves until the command is told to end, and drains.
func (w *worker) serve(c *cobra.Command) error {
	o := w.options
	ip, port := o.listenAddress(c.Flags().Changed("secure-port"))
	address := net.JoinHostPort(ip.String(), strconv.Itoa(port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("can't listen on %s: %w (--bind-address and --secure-port choose another)", address,
			errors.Unwrap(err))
	}
	fmt.Fprintf(c.OutOrStdout(), "%s listens on %s.\n", c.Root().Name(), address)
	serving, stop := context.WithCancel(context.WithoutCancel(c.Context()))
	defer stop()
	ended := make(chan error, 3)
	go func() {
		front := &server.Server{Handler: w.front, Wrap: w.door.Admit, GetCertificate: w.credentials.GetCertificate}
		if o.clientCAFile != "" {
			front.ClientCAFile, front.OpenPaths = o.clientCAFile, door.OpenPaths
		}
		ended <- front.Serve(serving, w.door.Listen(listener))
	}()
	go func() {
		select {
		case <-w.allowed:
			ended <- w.credentials.Run(serving)
		case <-serving.Done():
			ended <- nil
		}
	}()
	keeping, leave := context.WithCancel(serving)
	defer leave()
	go func() { ended <- w.work(serving, keeping, c) }()
	running := cap(ended)
	select {
	case err = <-ended:
		running--
	case <-c.Context().Done():
	}
	var leaving error
	if err == nil {
		close(w.draining)
		leave()
		leaving = w.leave(c)
		if o.drain > 0 {
			fmt.Fprintf(c.OutOrStdout(), "Answering API servers that still call for %s.\n", o.drain)
		}
		select {
		case <-time.After(o.drain):
		case err = <-ended:
			running--
		}
	}
	stop()
	for range running {
		err = errors.Join(err, <-ended)
	}
	return errors.Join(leaving, err)
}

// leave waits until the keeper has ended, and prints what becomes of the webhook configurations.
func (w *worker) leave(c *cobra.Command) error {
	select {
	case <-w.begun:
	default:
		return nil // there is none of this process
	}
	<-w.kept
	if w.keptErr != nil {
		return w.keptErr
	}
	o := w.options
	switch removed, leader := w.keeper.Removed(); {
	case len(removed) > 0:
		fmt.Fprintf(c.OutOrStdout(), "Removed %s: API servers no longer call this process.\n",
			strings.Join(removed, " and "))
	case leader != "":
		fmt.Fprintf(c.OutOrStdout(), "Left the webhook configurations %q: replica %s keeps them.\n", o.name, leader)
	case !o.removesAtEnd():
		fmt.Fprintf(c.OutOrStdout(), "Left the webhook configurations %q: while no replica serves, requests are "+
			"refused, or pass, by their failurePolicy. \"webhook uninstall\" removes them.\n", o.name)
	}
	return nil
}

// work builds the plugins and answers reviews until ctx ends. API servers are told to ask until
// keeping ends. It returns earlier if it can't go on.
func (w *worker) work(ctx, keeping context.Context, c *cobra.Command) error {
	connected, err := w.connect(ctx)
	if err != nil {
		return nil // ctx has ended
	}
	if err := w.awaitRights(keeping, c.ErrOrStderr()); err != nil || keeping.Err() != nil {
		return err
	}
	close(w.allowed)
	reviews, checks, err := w.build(connected.Env())
	if err != nil {
		return commandline.Usage(err)
	}
	connected.Start()
	reviews[registration.ProbePath] = registration.AnswerProbe()
	w.door.Open(reviews, append(checks, connected.ReadyCheck(),
		healthz.NamedCheck("certificates", func(*http.Request) error { return w.credentials.Ready() }),
		shutdownCheck(w.draining))...)
	serves := make(chan struct{})
	go func() {
		if connected.Synced(ctx) == nil {
			close(serves)
		}
	}()
	go func() {
		select {
		case <-w.credentials.called:
			fmt.Fprintf(c.OutOrStdout(), "%s is ready, and is asked: %s\n", c.Root().Name(),
				w.options.describePlugins(w.registration.Plugins))
			time.AfterFunc(collect.Settle, collect.GiveBack)
		case <-ctx.Done():
		}
	}()
	w.keeper = registration.Keeper{Options: *w.registration, Client: w.client, Certificates: w.credentials,
		Serving: serves, CheckReached: !w.options.unchecked, RemoveAtEnd: w.options.removesAtEnd()}
	close(w.begun)
	w.keptErr = w.keeper.Run(keeping)
	close(w.kept)
	if w.keptErr != nil && keeping.Err() == nil {
		return w.keptErr
	}
	<-ctx.Done()
	return nil
}

// connect waits for the API server, and logs why it waits. The error means that ctx has ended.
func (w *worker) connect(ctx context.Context) (*cluster.Cluster, error) {
	said := ""
	retry := wait.Backoff{Duration: firstRetry, Factor: 2, Cap: lastRetry, Steps: 10, Jitter: 0.1}
	for {
		connected, err := cluster.Connect(ctx, w.connection)
		if err == nil || ctx.Err() != nil {
			return connected, err
		}
		if err.Error() != said {
			klog.Warningf("Waiting for the API server: %v", err)
			said = err.Error()
		}
		select {
		case <-time.After(retry.Step()):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// hostName returns a name that distinguishes this replica from others.
func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return host
}
