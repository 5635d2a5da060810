// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/decision/why"
	"gatehouse.dev/internal/terminal"
	"gatehouse.dev/plugin"
)

// whyCommand holds the flags of `gatehouse why`.
type whyCommand struct {
	command     *cobra.Command
	kubeconfig  *commandline.Kubeconfig
	remedies    map[string]string
	lastRefused bool
	everywhere  bool
	limit       int
	output      string
	webhook     string

	client    *why.Client
	namespace string
	byFlag    bool
}

func newWhy(plugins []plugin.Descriptor) *cobra.Command {
	w := &whyCommand{kubeconfig: commandline.NewKubeconfig(), remedies: remediesOf(plugins), limit: 3}
	w.command = &cobra.Command{
		Use:   "why TYPE/NAME | AUDIT-ID | --last-refused",
		Short: "Say what admission did to an object, or why it refused it",
		Long: `Say what admission did to an object: which plugin refused it, and what would have to change; which
plugin set which field to which value. The command reads the server's decisions (kubectl get
decisions), which a server keeps for a while, in memory. The newest come first.

For a Deployment, a Job or another object for which controllers make objects, it also reports those.
If nothing is recorded, it says so, and reports the object's managedFields and events.

The exit code is 0 if something was recorded, 1 if nothing was, and 2 if the command line is wrong.`,
		Example: `  # What became of a pod, and who set which of its fields
  gatehouse why pod/web -n shop

  # Why a Deployment has no pods
  gatehouse why deploy web -n shop

  # The last request that was refused, in any namespace
  gatehouse why --last-refused -A

  # One request, by the Audit-Id that its answer had (kubectl -v=8 shows it)
  gatehouse why 5c1b0d9e-8f3a-4a51-9f0f-2f2f6a1d9e3b

  # What the webhooks of gatehouse webhook did, at an address that kubectl port-forward has opened
  gatehouse why pod/web -n shop --webhook=gatehouse=https://127.0.0.1:8443

  # All that is recorded about a pod, for a script
  gatehouse why pod/web -n shop -o json`,
		RunE:              func(c *cobra.Command, args []string) error { return w.run(args) },
		ValidArgsFunction: w.completeObject,
	}
	var groups cliflag.NamedFlagSets
	fs := groups.FlagSet("why")
	fs.BoolVar(&w.lastRefused, "last-refused", false,
		"Explain the last request in the namespace that was refused, or failed.")
	fs.BoolVarP(&w.everywhere, "all-namespaces", "A", false, "Look for --last-refused in all namespaces.")
	fs.IntVar(&w.limit, "limit", w.limit,
		"How many of the newest decisions to show, besides the newest refusal and the creation. 0 for all.")
	fs.StringVarP(&w.output, "output", "o", "",
		"Output format: json or yaml for the decisions themselves; text if empty.")
	fs.StringVar(&w.webhook, "webhook", "",
		"Ask a replica of gatehouse webhook: the name of its installation, or NAME=URL to reach it at another address, "+
			"such as one of kubectl port-forward. It gets the kubeconfig's token.")
	w.kubeconfig.AddFlags(groups.FlagSet("server"))
	commandline.GroupFlags(w.command, groups, "last-refused", "all-namespaces", "namespace", "limit", "output", "webhook",
		"kubeconfig", "context")
	complete(w.command, "output", "json", "yaml")
	w.kubeconfig.Complete(w.command, true)
	return w.command
}

// remediesOf returns what the plugins say would have to change for a request to pass, by the
// plugins' names.
func remediesOf(plugins []plugin.Descriptor) map[string]string {
	remedies := map[string]string{}
	for _, d := range plugins {
		remedies[d.Name] = d.Remedy
	}
	return remedies
}

func (w *whyCommand) run(args []string) error {
	if err := w.check(args); err != nil {
		return commandline.Usage(fmt.Errorf("%w (see '%s --help')", err, w.command.CommandPath()))
	}
	ctx := w.command.Context()
	if err := w.connect(ctx); err != nil {
		return err
	}
	defer func() {
		for _, warning := range w.client.Warnings() {
			fmt.Fprintf(w.command.ErrOrStderr(), "gatehouse: warning: %s\n", terminal.Escape(warning))
		}
	}()
	switch {
	case w.lastRefused:
		return w.explainLast(ctx)
	case len(args) == 2:
		return w.explainObject(ctx, args[0], args[1])
	}
	if kind, name, ok := strings.Cut(args[0], "/"); ok {
		return w.explainObject(ctx, kind, name)
	}
	return w.explainRequest(ctx, args[0])
}

// connect makes the client of the server that the flags name.
func (w *whyCommand) connect(ctx context.Context) error {
	config, namespace, byFlag, err := w.kubeconfig.Load()
	if err != nil {
		return err
	}
	(&commandline.Logging{}).Apply(w.command.ErrOrStderr()) // the client's library has its own words for what fails
	w.namespace, w.byFlag = namespace, byFlag
	interruptible(ctx, config)
	var webhook *rest.Config
	if w.webhook != "" {
		if webhook, err = findWebhook(ctx, config, w.webhook); err != nil {
			return err
		}
		interruptible(ctx, webhook)
	}
	if w.client, err = why.NewClient(config, webhook); err != nil {
		return commandline.Usage(fmt.Errorf("kubeconfig: %w", err))
	}
	return nil
}

// check returns what is wrong with the command line.
func (w *whyCommand) check(args []string) error {
	const forms = "TYPE/NAME, TYPE NAME, an audit ID or --last-refused"
	switch {
	case w.output != "" && w.output != "json" && w.output != "yaml":
		return fmt.Errorf("--output %q: there is json, yaml", w.output)
	case w.limit < 0:
		return fmt.Errorf("--limit %d: it is a number of decisions, or 0 for all", w.limit)
	case w.lastRefused && len(args) > 0:
		return fmt.Errorf("--last-refused takes no arguments, got %q", args)
	case w.lastRefused && w.everywhere && w.kubeconfig.Overrides.Context.Namespace != "":
		return errors.New("--all-namespaces and --namespace can't both be said")
	case w.everywhere && !w.lastRefused:
		return errors.New("--all-namespaces is for --last-refused: an object is in one namespace")
	case w.lastRefused:
		return nil
	case len(args) == 0:
		return errors.New("say what about: " + forms)
	case len(args) > 2, len(args) == 2 && strings.Contains(args[0]+args[1], "/"):
		return fmt.Errorf("one object at a time, got %q: %s", args, forms)
	}
	parts := strings.Split(strings.Join(args, "/"), "/")
	switch {
	case slices.Contains(parts, ""):
		return fmt.Errorf("%q is no object: %s", strings.Join(args, " "), forms)
	case len(parts) > 2:
		return fmt.Errorf("%q is no object, which is without its subresource: %s", args[0], forms)
	}
	return nil
}

func (w *whyCommand) explainObject(ctx context.Context, kind, name string) error {
	mapping, err := w.client.Resource(kind)
	if meta.IsNoMatchError(err) {
		return commandline.Usage(fmt.Errorf("the server doesn't have a resource type %q (kubectl api-resources "+
			"lists them)",
			kind))

	}
	if err != nil {
		return err
	}
	found, err := w.client.Object(ctx, mapping, w.namespace, name)
	if err != nil {
		return err
	}
	all := slices.Concat(found.Decisions, found.Dependents)
	slices.SortStableFunc(all, func(a, b v1alpha1.Decision) int { return b.Time.Compare(a.Time.Time) })
	if w.output != "" {
		list := &v1alpha1.DecisionList{Items: all}
		list.APIVersion, list.Kind = v1alpha1.SchemeGroupVersion.String(), "DecisionList"
		err = w.print(list)
	} else if found.Object != nil || found.Unreadable != "" || len(all) > 0 {
		_, err = fmt.Fprint(w.command.OutOrStdout(), w.printer().Found(found, w.limit))
	}
	if err != nil || len(all) > 0 {
		return err
	}
	object := fmt.Sprintf("%s %q", found.Resource, name)
	if found.Namespace != "" {
		object += fmt.Sprintf(" in namespace %q", found.Namespace)
	}
	switch {
	case found.Unavailable != "" && found.Gone:
		return fmt.Errorf("%s not found, and %w", object, w.unavailable(found.Unavailable))
	case found.Unavailable != "":
		return w.unavailable(found.Unavailable)
	case found.Gone:
		return fmt.Errorf("%s not found, and nothing about it is recorded%s", object, retentionNote)
	}
	return fmt.Errorf("nothing about %s is recorded%s", object, retentionNote)
}

// retentionNote explains why nothing may be recorded.
const retentionNote = ": a server keeps decisions for a while, in memory"

// notRecordedNote names the requests that --last-refused doesn't know.
const notRecordedNote = "; requests that authentication or authorization refused are not recorded, " +
	"and an object that is missing, exists or has changed meanwhile counts as no refusal"

func (w *whyCommand) explainLast(ctx context.Context) error {
	in, where := w.namespace, "in namespace "+w.namespace+" (-A looks in all)"
	if w.everywhere {
		in, where = metav1.NamespaceAll, "anywhere"
	}
	d, err := w.client.LastRefused(ctx, in)
	if err != nil {
		return w.unavailable(err)
	}
	if d == nil {
		return fmt.Errorf("no refusal is recorded %s%s%s", where, retentionNote, notRecordedNote)
	}
	if err := w.explain(d); err != nil || w.output != "" {
		return err
	}
	_, err = fmt.Fprintln(w.command.OutOrStdout(), "\nRefusals by authentication or authorization are not recorded.")
	if err != nil {
		return err
	}
	if w.everywhere || w.byFlag {
		return nil
	}
	// A user who may not look everywhere gets no hint.
	if last, err := w.client.LastRefused(ctx, metav1.NamespaceAll); err == nil && last != nil && last.Time.After(d.Time.Time) {
		_, err := fmt.Fprintf(w.command.OutOrStdout(), "\nA later one is in namespace %s: -A looks in all.\n",
			terminal.Escape(last.Namespace))
		return err
	}
	return nil
}

func (w *whyCommand) explainRequest(ctx context.Context, auditID string) error {
	d, err := w.client.Decision(ctx, w.namespace, auditID)
	where := "in namespace " + w.namespace
	if err == nil && d == nil && !w.byFlag {
		// The request's namespace isn't known. A user who may not look everywhere is told the
		// namespace that was searched.
		if d, err = w.client.Decision(ctx, metav1.NamespaceAll, auditID); errors.Is(err, why.Forbidden) {
			err = nil
		} else {
			where = "anywhere"
		}
	}
	switch {
	case err != nil:
		return w.unavailable(err)
	case d != nil:
		return w.explain(d)
	}
	if mapping, err := w.client.Resource(auditID); err == nil {
		return commandline.Usage(fmt.Errorf("%q is a type: say which object, as %s/NAME", auditID,
			mapping.Resource.Resource))
	}
	suggested := "TYPE/NAME, as pod/" + auditID
	if named := w.client.Named(ctx, w.namespace, auditID); len(named) > 0 {
		suggested = strings.Join(named, " or ")
	}
	return fmt.Errorf("no request with the audit ID %q is recorded %s%s; for an object, say %s", auditID, where,
		retentionNote, suggested)
}

func (w *whyCommand) explain(d *v1alpha1.Decision) error {
	if w.output != "" {
		d.APIVersion, d.Kind = v1alpha1.SchemeGroupVersion.String(), "Decision"
		return w.print(d)
	}
	_, err := fmt.Fprint(w.command.OutOrStdout(), w.printer().Decision(d))
	return err
}

// unavailable returns what to do if decisions can't be read.
func (w *whyCommand) unavailable(err error) error {
	switch {
	case errors.Is(err, why.Forbidden) && w.webhook != "":
		return fmt.Errorf("%w: have a role bound to you that lets you list the resource decisions of the API group %s",
			err, v1alpha1.SchemeGroupVersion.Group)
	case errors.Is(err, why.NotServed):
		return fmt.Errorf("%w: it is not gatehouse, or was started with --decisions=false", err)
	case errors.Is(err, why.Forbidden):
		return fmt.Errorf("%w: have the ClusterRole %s bound to you, in the namespace (kubectl create rolebinding "+
			"NAME --clusterrole=%s --user=YOU -n %s) or in all (kubectl create clusterrolebinding)", err,
			v1alpha1.ViewerRole, v1alpha1.ViewerRole, w.namespace)
	}
	return err
}

func (w *whyCommand) print(object any) error {
	data, err := json.MarshalIndent(object, "", "    ")
	if err == nil && w.output == "yaml" {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w.command.OutOrStdout(), strings.TrimRight(string(data), "\n"))
	return err
}

// printer returns a printer for the terminal.
func (w *whyCommand) printer() *why.Printer {
	style := terminal.StyleOf(w.command.OutOrStdout())
	return &why.Printer{Width: cmp.Or(style.Width, 100), Color: style.Color, Now: time.Now(), Remedies: w.remedies}
}
