// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	embedded "gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/internal/collect"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/scratch"
	"gatehouse.dev/internal/terminal"
	"gatehouse.dev/plugin"
	"gatehouse.dev/server"
)

func newDemo(plugins []plugin.Descriptor) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show in two minutes what admission does, on a temporary server",
		Long: `Show in two minutes what admission does: what becomes of a pod, a refused write and the reason for
it, a policy, a quota. A real server answers. It runs in this process and in a temporary directory,
on a free port of 127.0.0.1, and ends with the tour.

On a terminal each step waits for Enter, and Ctrl-D leaves the tour. The server runs until the last
Enter. Elsewhere the tour doesn't wait.

The exit code is 0 unless a step has another result than the tour says, or is interrupted.`,
		Example: `  gatehouse demo

  # Without waiting for Enter
  gatehouse demo < /dev/null`,
		Args: commandline.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return finish(c, demonstrate(c, plugins)) },
	}
}

// demonstrate starts a server, shows it, and removes what it kept.
func demonstrate(c *cobra.Command, plugins []plugin.Descriptor) (err error) {
	(&commandline.Logging{}).Apply(c.ErrOrStderr()) // the tour's steps say what fails
	dir, err := scratch.Temporary("gatehouse-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	embedded.ReserveLittle()
	progress := newProgress(c.ErrOrStderr())
	started := progress.during("starting a server")
	config, stop, err := startDemo(c.Context(), plugins, dir)
	started()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	t, err := newTour(c, plugins, config)
	if err != nil {
		return err
	}
	t.kubeconfig = filepath.Join(dir, "admin.kubeconfig")
	return t.run(c.Context())
}

// startDemo starts a server that keeps everything in dir, and waits until it is ready. stop ends it.
func startDemo(ctx context.Context, plugins []plugin.Descriptor, dir string) (_ *rest.Config, stop func() error, err error) {
	defer collect.Little()()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	config := server.NewConfig(plugins)
	config.API.DataDir, config.API.SecureServing.Listener = dir, listener
	ctx, cancel := context.WithCancel(ctx)
	running, err := server.New(ctx, config)
	if err != nil {
		cancel()
		return nil, nil, errors.Join(fmt.Errorf("the server can't start: %w", err), listener.Close())
	}
	running.Etcd().OnFailure(func() { os.RemoveAll(dir) })
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	select {
	case <-running.Ready():
	case err := <-ended:
		cancel()
		return nil, nil, errors.Join(errors.New("the server ended before it was ready"), err)
	}
	return running.AdminConfig(), func() error {
		cancel()
		return commandline.Stopped(ctx, <-ended)
	}, nil
}

const tourBegins = `This is a real Kubernetes API server, in this process. It ends with the tour.
After each $ is a command that does the same.
`

const tourEnds = `
That was the tour; its server ends with it. What most people do next:
  gatehouse serve                  run a server that keeps what you write
  gatehouse review -f manifests/   say what a cluster would do with manifests
  gatehouse test tests/            test policies and webhooks, case by case
  gatehouse lint manifests/        find webhooks that can lock a cluster
Documents: https://gatehouse.dev, or docs/get-started.md in the repository.
`

// run shows the steps. At a terminal it waits for Enter before each, and before it ends the server.
func (t *tour) run(ctx context.Context) error {
	fmt.Fprint(t.out, tourBegins)
	if t.keys != nil {
		fmt.Fprintf(t.out, "In another terminal you can look around meanwhile:\n  %s\n", useKubeconfig(t.kubeconfig))
	}
	steps := tourSteps(demoDocument)
	for i, step := range steps {
		title := fmt.Sprintf("%d of %d: %s", i+1, len(steps), step.title)
		if t.style.Color {
			title = terminal.Bold.Paint(title)
		}
		fmt.Fprint(t.out, t.style.Format("\n"+title+"\n"+step.text, terminal.Palette{}))
		if goesOn, err := t.wait(ctx, "[Enter: do it, Ctrl-D: leave] "); !goesOn {
			return err
		}
		if err := t.do(ctx, &step); err != nil {
			return fmt.Errorf("step %d, %q: %w", i+1, step.title, err)
		}
	}
	fmt.Fprint(t.out, t.style.Format(tourEnds, terminal.Palette{}))
	_, err := t.wait(ctx, "[Enter: end the server; look around before] ")
	return err
}

// wait asks for Enter at a terminal, and reports whether the user goes on.
func (t *tour) wait(ctx context.Context, question string) (goesOn bool, err error) {
	if t.keys != nil {
		fmt.Fprint(t.out, question)
		_, err = bufio.NewReader(input.Until(ctx, t.keys)).ReadString('\n')
	}
	switch {
	case ctx.Err() != nil:
		return false, commandline.ErrInterrupted
	case errors.Is(err, io.EOF):
		fmt.Fprintln(t.out)
		return false, nil
	}
	return err == nil, err
}
