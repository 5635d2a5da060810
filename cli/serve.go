// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/flagz"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"gatehouse.dev/apiserver"
	"gatehouse.dev/apiserver/storage"
	"gatehouse.dev/internal/collect"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/flagfile"
	"gatehouse.dev/internal/terminal"
	"gatehouse.dev/plugin"
	"gatehouse.dev/server"
)

const (
	// slowStart is how long a start may take before the server shows what it logs.
	slowStart = 10 * time.Second
	// lastMoment is how long an interrupted start may take to end by itself. If it waits for
	// something longer, it ends with the process.
	lastMoment = time.Second
	// leaseReleases bounds how long a server without an etcd tries to release its two leases. Each
	// attempt takes ten seconds.
	leaseReleases = 20 * time.Second
)

// firstSteps is what a server says to a user at a terminal, besides how to use it.
const firstSteps = `Try it:  kubectl delete namespace default    (it is refused)
         gatehouse why --last-refused        (who refused it, and what to do)
Stop it: ctrl-c; what you wrote is there again at the next start
`

func newServe(plugins []plugin.Descriptor) *cobra.Command {
	config := server.NewConfig(plugins)
	log := &serverLogging{}
	var version *versionFlag
	var file string
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run a Kubernetes API server whose writes pass admission plugins",
		Long: `Run a real Kubernetes API server whose every write passes the admission plugins.

It needs no configuration: etcd runs inside, certificates are its own, and everything is kept in one
directory. Stop it with ctrl-c or SIGTERM. When it is started again, it has the same objects.`,
		Example: `  # A server on 127.0.0.1:6443 that keeps everything in ./gatehouse-data
  gatehouse serve

  # One more plugin, configured by a file
  gatehouse serve --enable-admission-plugins=` + offByDefault(plugins) + ` \
    --admission-control-config-file=admission.yaml

  # With flags from a file, such as "secure-port: 6444"
  gatehouse serve --config=gatehouse.yaml

  # Over an existing etcd cluster
  gatehouse serve --etcd-servers=https://10.0.0.1:2379 --etcd-cafile=ca.crt \
    --etcd-certfile=client.crt --etcd-keyfile=client.key`,
		Args: commandline.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if version.print(c.OutOrStdout()) {
				return nil
			}
			if file != "" {
				if err := flagfile.Load(c.Flags(), file, "color", "config", "help", "version"); err != nil {
					return commandline.Usage(fmt.Errorf("--config: %w", err))
				}
			}
			if config.API.DataDir == "" {
				return commandline.Usage(errors.New("--data-dir must name a directory"))
			}
			return commandline.Stopped(c.Context(), serve(c, config, log))
		},
	}
	var groups cliflag.NamedFlagSets
	groups.FlagSet("gatehouse") // ours come first
	config.Admission.AddFlags(groups.FlagSet("admission"), plugins)
	config.API.AddFlags(&groups)
	groups.FlagSet("secure serving").Lookup("secure-port").Usage = "The port on which to serve HTTPS. With 0 it is a " +
		"free one, which the server prints."
	groups.FlagSet("gatehouse").StringVar(&config.API.DataDir, "data-dir", config.API.DataDir,
		"The directory for everything the server keeps: etcd's data, its own certificates, admin.kubeconfig. One "+
			"process uses it at a time.")
	groups.FlagSet("gatehouse").StringVar(&file, "config", "",
		"A file with flags: YAML, with their names as keys, lists as lists and maps as maps. The command line "+
			"takes precedence.")
	groups.FlagSet("gatehouse").BoolVar(&config.WebhookBreaker, "webhook-breaker", true,
		"Don't call an endpoint of a webhook to which no connection could be made for a second, until one can. Its "+
			"calls fail at once.")
	config.Controllers.AddFlags(groups.FlagSet("gatehouse"))
	config.Decisions.AddFlags(groups.FlagSet("decisions"))
	config.Record.AddFlags(groups.FlagSet("decisions"))
	log.addFlags(groups.FlagSet("logs"))
	version = addVersionFlag(groups.FlagSet("generic"), config.API)
	config.API.Flagz = flagz.NamedFlagSetsReader{FlagSets: groups}
	commandline.GroupFlags(c, groups, "data-dir", "config", "secure-port", "controllers",
		"enable-admission-plugins", "disable-admission-plugins", "admission-control-config-file", "etcd-servers",
		"record", "feature-gates")
	return c
}

func serve(c *cobra.Command, config *server.Config, log *serverLogging) error {
	if err := log.apply(c); err != nil {
		return err
	}
	selected, err := config.SelectPlugins()
	if err != nil {
		return commandline.Usage(err)
	}
	for _, warning := range config.Admission.Warnings(config.Plugins) {
		fmt.Fprintf(c.ErrOrStderr(), "gatehouse: warning: %s\n", warning)
	}
	for _, plugin := range selected {
		if plugin.Deprecated != "" {
			fmt.Fprintf(c.ErrOrStderr(), "gatehouse: warning: admission plugin %s is deprecated: %s\n", plugin.Name,
				plugin.Deprecated)
		}
	}
	ctx, stop := log.UntilStopped(c.Context())
	defer stop()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- run(ctx, c, config, log, ready) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	limit := stopLimit(config.API)
	late := time.After(limit)
	for soon := time.After(lastMoment); ; {
		select {
		case err := <-ended:
			return err
		case <-soon:
			select {
			case <-ready: // it is up by now, and may take its time to stop
			default:
				return ctx.Err()
			}
		case <-late:
			return fmt.Errorf("the server didn't stop within %s: something that it waits for doesn't end", limit)
		}
	}
}

// stopLimit returns how long a server may take to stop, whatever becomes of its storage and its
// logs. It is longer than the server's own waits: for its leases, the requests in flight, the
// watches.
func stopLimit(o *apiserver.Options) time.Duration {
	return leaseReleases + o.Run.ShutdownDelayDuration + o.Run.RequestTimeout +
		o.Run.ShutdownWatchTerminationGracePeriod
}

// run starts a server, closes ready and prints how to use it, and serves until ctx ends.
func run(ctx context.Context, c *cobra.Command, config *server.Config, log *serverLogging,
	ready chan<- struct{}) error {
	started := collect.Little()
	defer started() // also if the start fails
	decision.HideLoggedValues()
	starting := func() {}
	if !c.Flags().Changed("v") { // or the log shows what it does
		starting = sync.OnceFunc(newProgress(c.ErrOrStderr()).during("starting"))
	}
	defer starting()
	waiting, reached := context.WithCancel(ctx)
	defer reached()
	go func() {
		if warning := unreachableEtcd(waiting, config); warning != "" {
			starting()
			fmt.Fprintf(c.ErrOrStderr(), "gatehouse: warning: %s\n", warning)
		}
	}()
	srv, err := server.New(ctx, config)
	reached()
	if options := (apiserver.OptionsError{}); errors.As(err, &options) && ctx.Err() == nil {
		return commandline.Usage(nameFlags(c.Flags(), err))
	}
	if err != nil {
		return err
	}
	slow := time.AfterFunc(slowStart, func() {
		starting()
		log.Show(true)
	})
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-srv.Ready():
		case <-over:
			return
		}
		started()
		slow.Stop()
		close(ready)
		if ctx.Err() != nil {
			return
		}
		log.Show(true)
		starting()
		fmt.Fprintf(c.OutOrStdout(), "gatehouse is ready at %s\nUse it:  %s\n",
			srv.AdminConfig().Host, useKubeconfig(absolutePath(config.API.AdminKubeconfig())))
		if terminal.IsTerminal(c.OutOrStdout()) {
			fmt.Fprint(c.OutOrStdout(), firstSteps)
		}
		tellSystemd(daemon.SdNotifyReady)
		if config.Admission.ConfigFile != "" {
			go followAdmission(ctx, srv)
		}
		collect.FollowLoad(over)
	}()
	context.AfterFunc(ctx, func() { tellSystemd(daemon.SdNotifyStopping) })
	return srv.Run(ctx)
}

// useKubeconfig returns the command by which a shell's programs use a kubeconfig: on Windows that of PowerShell.
func useKubeconfig(file string) string {
	if runtime.GOOS == "windows" {
		return "$env:KUBECONFIG = '" + file + "'"
	}
	return "export KUBECONFIG=" + file
}

// unreachableEtcd returns a warning at once if an etcd that a flag names can't be reached. The server goes
// on waiting for it.
func unreachableEtcd(ctx context.Context, config *server.Config) string {
	t := config.API.Etcd.StorageConfig.Transport
	if len(t.ServerList) == 0 {
		return ""
	}
	if err := storage.Unreachable(ctx, t); err != nil && ctx.Err() == nil {
		return fmt.Sprintf("etcd at %s, still trying", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return ""
}

// followAdmission makes the server follow changes of the admission configuration, and read it on
// SIGHUP. Without such a configuration that signal ends the server, as when its terminal is closed.
func followAdmission(ctx context.Context, srv *server.Server) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGHUP)
	defer signal.Stop(asked)
	srv.FollowAdmission(ctx, asked)
}

// tellSystemd reports the server's state to systemd, if systemd has started it.
func tellSystemd(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		klog.ErrorS(err, "Telling systemd", "state", state)
	}
}

// nameFlags adds the flags that name a file to an error about it, unless the error has them.
func nameFlags(flags *pflag.FlagSet, err error) error {
	var named []string
	flags.Visit(func(f *pflag.Flag) {
		file := strings.Contains(f.Name, "file") || strings.HasSuffix(f.Name, "config")
		if value := f.Value.String(); file && value != "" && strings.Contains(err.Error(), value) &&
			!strings.Contains(err.Error(), f.Name) {
			named = append(named, "--"+f.Name)
		}
	})
	if len(named) == 0 {
		return err
	}
	return fmt.Errorf("%s: %w", strings.Join(named, ", "), err)
}

func absolutePath(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
