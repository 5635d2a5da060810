// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/dashboard"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/plugin"
)

func newDashboard(plugins []plugin.Descriptor) *cobra.Command {
	reach := commandline.NewKubeconfig()
	var port int
	var report string
	var noBrowser bool
	c := &cobra.Command{
		Use:   "dashboard",
		Short: "Show in a browser what became of each request, and why",
		Long: `Show in a browser what became of each request, and why: which plugin, webhook, policy or quota
changed or refused it, and what took how long.

The page is served to this machine alone, and only to users who have the URL, which has a random
token. It shows the decisions that you may see. If you may see none, it says which ClusterRole to
bind. Stop it with ctrl-c.`,
		Example: `  # The server of the current context of your kubeconfig
  gatehouse dashboard

  # One namespace, without a browser (then: ssh -L 8001:127.0.0.1:8001 machine)
  gatehouse dashboard -n shop --no-browser --port=8001

  # What a policy would have refused
  gatehouse replay audit.log -f policy.yaml -o json > report.json
  gatehouse dashboard --report=report.json`,
		Args: commandline.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if port < 0 || port > 65535 {
				return commandline.Usage(fmt.Errorf("--port: %d must be between 0 and 65535", port))
			}
			show := func() (*dashboard.Dashboard, error) { return showServer(reach, port, plugins) }
			if report != "" {
				show = func() (*dashboard.Dashboard, error) { return showReport(report, port, plugins) }
			}
			d, err := show()
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "The dashboard is at %s\nStop it with ctrl-c.\n", d.URL())
			if open := browser(); open != nil && !noBrowser {
				open.Args = append(open.Args, d.TicketURL())
				go func() { _ = open.Run() }() // the URL above works without a browser
			}
			return d.Run(c.Context())
		},
	}
	var groups cliflag.NamedFlagSets
	fs := groups.FlagSet("dashboard")
	fs.IntVar(&port, "port", 0,
		"The port of 127.0.0.1 on which to serve the page, 0 for any port of a random address, 127.x.y.z.")
	fs.StringVar(&report, "report", "",
		"A report of gatehouse audit or gatehouse replay, made with -o json, which is shown instead of a server's "+
			"decisions.")
	fs.BoolVar(&noBrowser, "no-browser", false, "Don't open a browser.")
	reach.AddFlags(groups.FlagSet("server"))
	commandline.GroupFlags(c, groups, "port", "no-browser", "report", "namespace", "kubeconfig", "context")
	reach.Complete(c, true)
	return c
}

// showServer returns a dashboard of a server's decisions.
func showServer(reach *commandline.Kubeconfig, port int, plugins []plugin.Descriptor) (*dashboard.Dashboard, error) {
	config, namespace, byFlag, err := reach.Load()
	if err != nil {
		return nil, err
	}
	if !byFlag {
		namespace = "" // the default is all namespaces
	}
	d, err := dashboard.New(config, namespace, port, remediesOf(plugins))
	if err != nil {
		return nil, fmt.Errorf("%w (--port chooses another)", err)
	}
	return d, nil
}

// showReport returns a dashboard of the report in a file.
func showReport(name string, port int, plugins []plugin.Descriptor) (*dashboard.Dashboard, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, commandline.Usage(fmt.Errorf("--report: %w", err))
	}
	defer file.Close()
	d, err := dashboard.NewReport(file, port, remediesOf(plugins))
	if err != nil {
		return nil, commandline.Usage(fmt.Errorf("--report %s: %w", name, err))
	}
	return d, nil
}

// browser returns the command that opens a URL on this machine, or nil if there is no screen.
func browser() *exec.Cmd {
	name, args := "xdg-open", []string(nil)
	switch {
	case runtime.GOOS == "darwin":
		name = "open"
	case runtime.GOOS == "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler"}
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return nil
	}
	if _, err := exec.LookPath(name); err != nil {
		return nil
	}
	return exec.Command(name, args...)
}
