package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"gatehouse.dev/chain"
	"gatehouse.dev/decision"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/remote/cluster"
	"gatehouse.dev/webhook/server"
)

const (
	// An API server that is away is asked again after these times.
	firstRetry = time.Second
	lastRetry  = 10 * time.Second
	// settle is how long after it is ready a process still works at what its start began.
	settle = 3 * time.Second
)

// run serves until the command is told to end.
func (o *options) run(c *cobra.Command) error {
	o.log.Apply(c.ErrOrStderr())
	o.log.Show(true)
	selected, config, err := o.load()
	if err != nil {
		return commandline.Usage(err)
	}
	for _, p := range selected {
		if p.Deprecated != "" {
			fmt.Fprintf(c.ErrOrStderr(), "%s: warning: admission plugin %s is deprecated: %s\n", c.Root().Name(),
				p.Name,
				p.Deprecated)
		}
	}
	connection, _, _, err := o.reach.Load()
	if err != nil {
		return err
	}
	connection.UserAgent = rest.DefaultKubernetesUserAgent()
	w := &worker{options: o, selected: selected, config: config, connection: connection,
		door: newDoor(), draining: make(chan struct{})}
	if w.tracer, err = newTracer(c.Context(), o.tracing); err != nil {
		return commandline.Usage(fmt.Errorf("--tracing-config-file %s: %w", o.tracing, err))
	}
	defer w.tracer.end()
	if w.log, err = o.decisions.OpenLog(); err != nil {
		return commandline.Usage(err)
	}
	defer w.closeLog()
	return w.serve(c)
}

// A worker is one replica.
type worker struct {
	options    *options
	selected   []chain.Descriptor
	config     *chain.Config
	connection *rest.Config
	tracer     tracer
	log        *decision.Log // nil for none
	door       *door
	// draining is closed when the process is told to end.
	draining chan struct{}
}

func (w *worker) closeLog() {
	if w.log == nil {
		return
	}
	if err := w.log.Close(); err != nil {
		klog.ErrorS(err, "Closing the decision log")
	}
}

// serve serves until the command is told to end, and drains.
func (w *worker) serve(c *cobra.Command) error {
	o := w.options
	address := net.JoinHostPort(o.bindAddress.String(), strconv.Itoa(o.port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("can't listen on %s: %w (--bind-address and --secure-port choose another)", address,
			errors.Unwrap(err))
	}
	serving, stop := context.WithCancel(context.WithoutCancel(c.Context()))
	defer stop()
	served, worked := make(chan error, 1), make(chan error, 1)
	go func() {
		defer stop()
		served <- (&server.Server{Handler: w.door, CertFile: o.certFile, KeyFile: o.keyFile}).Serve(serving, listener)
	}()
	go func() { worked <- w.work(serving, c) }()
	select {
	case err := <-served:
		return err
	case err := <-worked:
		if err != nil {
			stop()
			return errors.Join(err, <-served)
		}
	case <-c.Context().Done():
	}
	close(w.draining)
	klog.InfoS("Draining", "delay", o.drain)
	select {
	case <-time.After(o.drain):
	case <-serving.Done():
	}
	stop()
	return <-served
}

// work builds the plugins and has them answer, until ctx ends. It ends sooner where it can't.
func (w *worker) work(ctx context.Context, c *cobra.Command) error {
	cluster, err := w.connect(ctx)
	if err != nil {
		return nil // ctx has ended
	}
	reviews, checks, err := w.build(cluster.Env())
	if err != nil {
		return commandline.Usage(err)
	}
	cluster.Start()
	w.door.open(reviews, append(checks, cluster.ReadyCheck(), shutdownCheck(w.draining))...)
	if err := cluster.Synced(ctx); err != nil {
		return nil
	}
	fmt.Fprintf(c.OutOrStdout(), "%s is ready on port %d: %s\n", c.Root().Name(), w.options.port, named(w.selected))
	time.AfterFunc(settle, debug.FreeOSMemory)
	<-ctx.Done()
	return nil
}

// connect waits for the API server, and says why. The error is that ctx has ended.
func (w *worker) connect(ctx context.Context) (*cluster.Cluster, error) {
	w.connection.Wrap(w.tracer.wrap)
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

// hostName tells this replica from others.
func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return host
}
