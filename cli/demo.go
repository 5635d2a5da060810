// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	embedded "gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/internal/collect"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/decision/why"
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

On a terminal each step waits for a key: Enter goes on, s skips the step, q leaves. The server runs
until the last Enter. Elsewhere the tour doesn't wait.

The exit code is 0 unless a step has another result than the tour says, or is interrupted.`,
		Example: `  gatehouse demo

  # Without waiting for keys
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
	t.kubeconfig = dir + string(os.PathSeparator) + "admin.kubeconfig"
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

// A tour shows steps on a server.
type tour struct {
	out        io.Writer
	style      terminal.Style
	keys       *os.File // nil if it doesn't wait
	kubeconfig string
	client     kubernetes.Interface
	why        *whyCommand
}

// newTour returns a tour of a server. It waits for keys if it is at a terminal.
func newTour(c *cobra.Command, plugins []plugin.Descriptor, config *rest.Config) (*tour, error) {
	config = rest.CopyConfig(config)
	config.UserAgent, config.QPS, config.WarningHandlerWithContext = "gatehouse-demo", -1, rest.NoWarnings{}
	interruptible(c.Context(), config)
	t := &tour{out: c.OutOrStdout(), style: terminal.StyleOf(c.OutOrStdout()),
		why: &whyCommand{command: c, remedies: remediesOf(plugins), limit: 3}}
	if in, ok := c.InOrStdin().(*os.File); ok && term.IsTerminal(int(in.Fd())) && terminal.IsTerminal(t.out) {
		t.keys = in
	}
	var err error
	if t.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	t.why.client, err = why.NewClient(config, nil)
	return t, err
}

// A tourStep is a part of a tour.
type tourStep struct {
	title, text string
	// follows reports whether the step is about what the step before did, and skipped with it.
	follows bool
	// show does the step. It fails if the result isn't what the text says.
	show func(*tour, context.Context) error
}

const tourBegins = `This is a real Kubernetes API server, in this process. It ends with the tour.
After each $ is a command that does the same.
`

// tourWaits is for a terminal: elsewhere the tour is over before anybody can look around.
const tourWaits = `In another terminal you can look around meanwhile:
  %s
`

const tourEnds = `
That was the tour; its server ends with it. What most people do next:
  gatehouse serve                  run a server that keeps what you write
  gatehouse review -f manifests/   say what a cluster would do with manifests
  gatehouse test tests/            test policies and webhooks, case by case
  gatehouse lint manifests/        find webhooks that can lock a cluster
Documents: https://gatehouse.dev, or docs/get-started.md in the repository.
`

// errLeft is the error of a tour that the user has left.
var errLeft = errors.New("left")

// run shows the steps.
func (t *tour) run(ctx context.Context) error {
	fmt.Fprint(t.out, tourBegins)
	if t.keys != nil {
		fmt.Fprintf(t.out, tourWaits, useKubeconfig(t.kubeconfig)) // whose command is copied whole
	}
	skipped := false
	for i, step := range tourSteps {
		if step.follows && skipped {
			t.say(fmt.Sprintf("\nStep %d, %q, is about the skipped one: it is skipped, too.\n", i+1, step.title))
			continue
		}
		t.say(fmt.Sprintf("\n%s\n%s", t.paint(terminal.Bold, fmt.Sprintf("%d of %d: %s", i+1, len(tourSteps), step.title)),
			step.text))
		var err error
		if skipped, err = t.wait(ctx, "[Enter: do it, s: skip it, q: leave] "); errors.Is(err, errLeft) {
			return nil
		}
		if err == nil && !skipped {
			err = step.show(t, ctx)
		}
		if err != nil {
			return fmt.Errorf("step %d, %q: %w", i+1, step.title, err)
		}
	}
	t.say(tourEnds)
	if _, err := t.wait(ctx, "[Enter: end the server; look around before] "); !errors.Is(err, errLeft) {
		return err
	}
	return nil
}

// wait asks for a key and waits for it, and reports whether the step is skipped.
func (t *tour) wait(ctx context.Context, question string) (skip bool, err error) {
	if t.keys == nil {
		return false, ctx.Err()
	}
	was, err := term.MakeRaw(int(t.keys.Fd()))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, term.Restore(int(t.keys.Fd()), was)) }()
	fmt.Fprint(t.out, question)
	defer fmt.Fprint(t.out, terminal.ClearLine)
	for in, key := (contextReader{ctx, t.keys}), make([]byte, 1); ; {
		if _, err := in.Read(key); errors.Is(err, io.EOF) {
			return false, errLeft
		} else if err != nil {
			return false, err
		}
		const ctrlC, ctrlD = 3, 4
		switch key[0] {
		case '\r', '\n', ' ':
			return false, nil
		case 's', 'S':
			return true, nil
		case 'q', 'Q', ctrlD:
			return false, errLeft
		case ctrlC:
			return false, commandline.ErrInterrupted
		}
	}
}

// say writes text, wrapped for the terminal.
func (t *tour) say(text string) {
	fmt.Fprint(t.out, t.style.Format(text, terminal.Palette{}))
}

// paint returns a text in a color, if the tour has colors.
func (t *tour) paint(color terminal.Color, text string) string {
	if !t.style.Color {
		return text
	}
	return color.Paint(text)
}
