// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision/why"
	"gatehouse.dev/internal/terminal"
	"gatehouse.dev/plugin"
)

// demoDocument has the steps of the tour. Below each command is the answer that the server is to give: a status code,
// with a part of a refusal's message, or the verdict that gatehouse why shows.
//
//go:embed demo.md
var demoDocument string

// A tourStep is a part of a tour.
type tourStep struct {
	title, text string
	commands    []tourCommand
}

// A tourCommand is a command as a user would type it, the manifest that it gets, and the expected answer.
type tourCommand struct{ line, manifest, answer string }

// tourSteps returns the steps of a document.
func tourSteps(document string) []tourStep {
	var steps []tourStep
	for _, section := range strings.Split("\n"+document, "\n## ")[1:] {
		heading, body, _ := strings.Cut(section, "\n")
		text, commands, _ := strings.Cut(body, "\n$ ")
		step := tourStep{title: heading, text: strings.TrimSpace(text) + "\n"}
		for _, part := range strings.Split(commands, "\n$ ") {
			c := tourCommand{}
			c.line, c.answer, _ = strings.Cut(part, "\n")
			if before, after, found := strings.Cut(c.answer, "\nEND\n"); found {
				c.manifest, c.answer = before+"\n", after
			}
			c.answer = strings.TrimSpace(c.answer)
			step.commands = append(step.commands, c)
		}
		steps = append(steps, step)
	}
	return steps
}

// patience is how long the tour waits for what controllers and watches do in a moment.
const patience = 20 * time.Second

// A tour shows steps on a server.
type tour struct {
	out        io.Writer
	style      terminal.Style
	keys       *os.File // nil if it doesn't wait
	kubeconfig string
	objects    dynamic.Interface
	why        *whyCommand
}

// newTour returns a tour of a server. It waits if it is at a terminal.
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
	if t.objects, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	t.why.client, err = why.NewClient(config, nil)
	return t, err
}

// do runs the commands of a step. It fails if an answer isn't the expected one.
func (t *tour) do(ctx context.Context, step *tourStep) (err error) {
	for _, c := range step.commands {
		fmt.Fprintf(t.out, "\n$ %s\n", c.line)
		if c.manifest != "" {
			fmt.Fprintf(t.out, "%sEND\n", c.manifest)
		}
		switch words := strings.Fields(c.line); words[1] {
		case "apply":
			err = t.apply(ctx, &c)
		case "delete":
			namespaces := t.objects.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
			err = t.expect(c.answer, namespaces.Delete(ctx, words[3], metav1.DeleteOptions{}), http.StatusOK)
		case "why":
			kind, name, _ := strings.Cut(words[2], "/")
			_, t.why.namespace, _ = strings.Cut(c.line, " -n ")
			err = t.explain(ctx, kind, name, v1alpha1.Verdict(c.answer))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// apply creates the object of a manifest. Quotas count, and policies are in force, a moment after they are written: so
// it waits until the server gives the expected answer to a dry run of another name.
func (t *tour) apply(ctx context.Context, c *tourCommand) error {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(c.manifest), &object.Object); err != nil {
		return err
	}
	mapping, err := t.why.client.Resource(object.GetKind())
	if err != nil {
		return err
	}
	objects := t.objects.Resource(mapping.Resource).Namespace(object.GetNamespace())
	probe := object.DeepCopy()
	probe.SetName(object.GetName() + "-probe")
	var last error
	err = until(ctx, "the server answers with "+c.answer, func(ctx context.Context) (bool, error) {
		_, last = objects.Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		code, known := statusOf(last, http.StatusCreated)
		if !known {
			return false, last
		}
		return strings.HasPrefix(c.answer, strconv.Itoa(code)), nil
	})
	if err != nil {
		return fmt.Errorf("%w; its last answer: %v", err, last)
	}
	_, err = objects.Create(ctx, object, metav1.CreateOptions{})
	return t.expect(c.answer, err, http.StatusCreated)
}

// statusOf returns the status code of an answer. known is false if there is none.
func statusOf(err error, success int) (code int, known bool) {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return success, true
	case errors.As(err, &status):
		return int(status.Status().Code), true
	}
	return 0, false
}

// expect shows the server's answer, and returns an error if it isn't the expected one.
func (t *tour) expect(answer string, err error, success int) error {
	code, known := statusOf(err, success)
	if !known {
		return err
	}
	color, message := terminal.Green, ""
	if err != nil {
		color, message = terminal.Red, ": "+terminal.Line(err.Error())
	}
	fmt.Fprint(t.out, t.style.Format(fmt.Sprintf("  %d %s%s\n", code, http.StatusText(code), message),
		terminal.Palette{Indented: map[string]terminal.Color{strconv.Itoa(code): color}}))
	want, word, _ := strings.Cut(answer, " ")
	if want != strconv.Itoa(code) || !strings.Contains(message, word) {
		return fmt.Errorf("the server should answer with %s", answer)
	}
	return nil
}

// explain shows what gatehouse why says of an object, once a decision with this verdict is recorded.
func (t *tour) explain(ctx context.Context, kind, name string, verdict v1alpha1.Verdict) error {
	mapping, err := t.why.client.Resource(kind)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("the server has recorded that %s %s was %s", kind, name, strings.ToLower(string(verdict)))
	err = until(ctx, what, func(ctx context.Context) (bool, error) {
		found, err := t.why.client.Object(ctx, mapping, t.why.namespace, name)
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(found.Decisions, func(d v1alpha1.Decision) bool {
			return d.Verdict == verdict && (d.By != "" || len(d.ChangedBy) > 0)
		}), nil
	})
	if err != nil {
		return err
	}
	return t.why.explainObject(ctx, kind, name)
}

// until asks until it is so, with patience.
func until(ctx context.Context, what string, isSo wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, patience, true, isSo)
	if wait.Interrupted(err) && ctx.Err() == nil {
		return fmt.Errorf("waited %s until %s", patience, what)
	}
	return err
}
