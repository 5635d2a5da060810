package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/inventory"
	"gatehouse.dev/internal/lint"
	"gatehouse.dev/internal/nearest"
	"gatehouse.dev/internal/review/input"
)

// linting holds the flags of lint.
type linting struct {
	files, exclude []string
	cluster        *liveFlags
	namespace      string
	output         string
	failOn         string
	disabled       []string
	fix            bool
}

func newLint() *cobra.Command {
	log := &commandline.Logging{}
	l := &linting{cluster: newLiveFlags(), failOn: string(lint.Error)}
	c := &cobra.Command{
		Use:   "lint [FILE|DIRECTORY]...",
		Short: "Find webhooks that can lock a cluster, and policies that do nothing",
		Long: `Find webhooks that can lock a cluster, and policies that do nothing.

Each finding has the ID of a rule, the object with its line, what happens, and the change that fixes
it. docs/lint.md explains the rules one by one. Nothing is called, and nothing is written but, with
--fix, the changes that are safe into the files; their comments stay.

With --context everything is known that the cluster has. Files may be only a part of what is
deployed: a Service that isn't among them counts as missing only if they have others.

An object ignores rules by its annotation ` + lint.IgnoreAnnotation + `, with a line "ID: reason"
for each. The reason is required.

The exit code is 0 if there is no error, 1 if there is one, or a warning with --fail-on=warning, and
2 if something can't be read: a file, an object, or a kind of the cluster.`,
		Example: `  # A file, a folder, a rendered chart
  gatehouse lint webhook.yaml deploy/
  helm template shop ./chart | gatehouse lint -f -

  # What a cluster has; it is only read
  gatehouse lint --context=production

  # In CI, with annotations for a pull request; warnings count, too
  gatehouse lint -f deploy/ --fail-on=warning -o github

  # Write the changes that are safe into the files, and show what is left
  gatehouse lint -f deploy/ --fix

  # Without a rule
  gatehouse lint -f deploy/ --disable=timeout-unset`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			log.Apply(c.ErrOrStderr())
			l.files = append(l.files, args...)
			return finishVerdict(c, l.run(c))
		},
	}
	var groups cliflag.NamedFlagSets
	l.addFlags(groups.FlagSet("lint"))
	log.AddFlags(groups.FlagSet("lint"))
	commandline.GroupFlags(c, groups, "filename", "exclude", "context", "kubeconfig", "namespace", "output", "fail-on",
		"disable", "fix", "v")
	complete(c, "output", lint.Formats...)
	complete(c, "fail-on", severities...)
	complete(c, "disable", lint.RuleIDs()...)
	return c
}

var severities = []string{string(lint.Error), string(lint.Warning)}

func (l *linting) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVarP(&l.files, "filename", "f", nil,
		"Files, directories with all that is below them, or - for the standard input: like the arguments.")
	fs.StringSliceVar(&l.exclude, "exclude", nil,
		"Patterns of files and directories that are left out of the directories.")
	l.cluster.addFlags(fs)
	fs.StringVarP(&l.namespace, "namespace", "n", "default", "The namespace of objects in files that name none.")
	fs.StringVarP(&l.output, "output", "o", "", "Output format: "+strings.Join(lint.Formats, ", ")+"; text if empty.")
	fs.StringVar(&l.failOn, "fail-on", l.failOn, "The least severity with which the exit code is 1: error, warning.")
	fs.StringSliceVar(&l.disabled, "disable", nil, "The IDs of rules that are left out.")
	fs.BoolVar(&l.fix, "fix", false, "Write the patches that are safe into the files, and report what is left.")
}

// check checks the flags.
func (l *linting) check() error {
	if l.output != "" && !slices.Contains(lint.Formats, l.output) {
		return fmt.Errorf("--output: %q is none of %s", l.output, strings.Join(lint.Formats, ", "))
	}
	if !slices.Contains(severities, l.failOn) {
		return fmt.Errorf("--fail-on: %q is none of %s", l.failOn, strings.Join(severities, ", "))
	}
	for _, id := range l.disabled {
		if !slices.Contains(lint.RuleIDs(), id) {
			return fmt.Errorf("--disable: there is no rule %q%s", id, nearest.Meant(id, lint.RuleIDs()))
		}
	}
	switch {
	case l.cluster.isSet() && len(l.files) > 0:
		return errors.New("name either files or a cluster: the files' objects and the cluster's would be mixed up")
	case !l.cluster.isSet() && len(l.files) == 0:
		return errors.New("nothing to lint: name files, directories, - for the standard input, or a cluster with --context")
	case l.fix && (l.cluster.isSet() || slices.Contains(l.files, stdioName)):
		return errors.New("--fix writes files: name files or directories")
	case countStdin(l.files) > 1:
		return errors.New("--filename: the standard input (-) is named more than once, and can be read once")
	}
	return nil
}

// run checks the objects, and prints the report.
func (l *linting) run(c *cobra.Command) error {
	if err := l.check(); err != nil {
		return commandline.Usage(err)
	}
	read, err := readObjects(c, l.cluster, l.files, l.exclude)
	if err != nil {
		return commandline.Usage(err)
	}
	options := lint.Options{Namespace: l.namespace, Disabled: l.disabled, Documents: read.documents, Texts: read.texts,
		Served: read.served, Complete: read.complete}
	notes := read.notes
	if l.fix {
		fixed, err := lint.Fix(c.Context(), &options)
		if err != nil {
			return commandline.Usage(err)
		}
		if err := fixed.Write(); err != nil {
			return err
		}
		notes = append(append(notes, fixed.Notes...), fmt.Sprintf("%d changes were written to %d files", fixed.Count,
			len(fixed.Texts)))
	}
	report, err := lint.Check(c.Context(), options)
	if err != nil {
		return commandline.Usage(err)
	}
	report.Fail(read.unread...)
	report.Notes = append(report.Notes, notes...)
	if err := report.Write(c.OutOrStdout(), l.output, commandline.Version()); err != nil {
		return err
	}
	if code := report.ExitCode(lint.Severity(l.failOn)); code != 0 {
		return commandline.ExitCode(code)
	}
	return nil
}

// An objectsRead is what was read of files, or of a cluster.
type objectsRead struct {
	documents []input.Document
	// texts are those of the files, served the kinds of the cluster.
	texts  map[string][]byte
	served []lint.Served
	// complete reports whether the cluster has no other objects.
	complete bool
	// unread is what could not be read.
	unread []error
	notes  []string
}

// readObjects reads the objects of a cluster, or else of files.
func readObjects(c *cobra.Command, cluster *liveFlags, files, exclude []string) (*objectsRead, error) {
	if cluster.isSet() {
		return readCluster(c, cluster)
	}
	return readFiles(c, files, exclude)
}

// readFiles reads the objects of files, and the files' texts.
func readFiles(c *cobra.Command, files, exclude []string) (*objectsRead, error) {
	read := &objectsRead{texts: map[string][]byte{}}
	if slices.Contains(files, stdioName) {
		text, err := io.ReadAll(io.LimitReader(standardInput(c), input.MaxFile+1))
		if err != nil {
			return nil, fmt.Errorf("reading the standard input: %w", err)
		}
		read.texts[stdioName] = text
	}
	reader := &input.Reader{Stdin: bytes.NewReader(read.texts[stdioName]), Exclude: exclude}
	read.documents, read.unread = reader.Read(c.Context(), files)
	if err := c.Context().Err(); err != nil {
		return nil, err
	}
	read.notes = reader.Notes()
	if len(read.documents) == 0 && len(read.unread) == 0 {
		return nil, fmt.Errorf("there are no objects in %s", strings.Join(append([]string{strings.Join(files, ", ")},
			read.notes...), "; "))
	}
	for _, d := range read.documents {
		if _, ok := read.texts[d.Source.File]; !ok {
			text, err := os.ReadFile(d.Source.File)
			if err != nil {
				return nil, err
			}
			read.texts[d.Source.File] = text
		}
	}
	return read, nil
}

// readCluster reads the objects of a cluster.
func readCluster(c *cobra.Command, flags *liveFlags) (*objectsRead, error) {
	progress := newProgress(c.ErrOrStderr())
	defer progress.done()
	cluster, _, err := flags.connect(c.Context(), progress)
	if err != nil {
		return nil, err
	}
	objects, resources, gaps, notes, err := cluster.Gather(c.Context(), inventory.ClusterKinds())
	if err != nil {
		return nil, err
	}
	read := &objectsRead{notes: notes}
	for _, object := range objects {
		read.documents = append(read.documents, input.Document{Object: object})
	}
	for _, r := range resources {
		read.served = append(read.served, lint.Served{Kind: r.Kind, Resource: r.Resource.Resource})
	}
	for _, gap := range gaps {
		read.unread = append(read.unread, errors.New(gap.Message))
	}
	read.complete = len(gaps) == 0 // or what is not there may only be unread
	return read, nil
}
