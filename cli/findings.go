// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

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

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/inventory"
	"gatehouse.dev/internal/lint"
	"gatehouse.dev/internal/review/input"
)

// findingFlags are the flags of commands that look for what is wrong among objects: lint and drill.
type findingFlags struct {
	files, exclude []string
	cluster        *liveFlags
	namespace      string
	output, failOn string
}

func newFindingFlags() findingFlags {
	return findingFlags{cluster: newLiveFlags(), failOn: string(lint.Error)}
}

// severities are the values of --fail-on.
var severities = []string{string(lint.Error), string(lint.Warning)}

// addFlags adds all flags but that of the files.
func (f *findingFlags) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.exclude, "exclude", nil,
		"Patterns of files and directories that are left out of the directories.")
	f.cluster.addFlags(fs)
	fs.StringVarP(&f.namespace, "namespace", "n", "default", "The namespace of objects in files that name none.")
	fs.StringVarP(&f.output, "output", "o", "", "Output format: "+strings.Join(lint.Formats, ", ")+"; text if empty.")
	fs.StringVar(&f.failOn, "fail-on", f.failOn, "The least severity with which the exit code is 1: error, warning.")
}

// check checks the flags. missing says what to name if neither files nor a cluster are named, filesFlag is the flag
// of the files.
func (f *findingFlags) check(filesFlag, missing string) error {
	switch {
	case f.output != "" && !slices.Contains(lint.Formats, f.output):
		return fmt.Errorf("--output: %q is none of %s", f.output, strings.Join(lint.Formats, ", "))
	case !slices.Contains(severities, f.failOn):
		return fmt.Errorf("--fail-on: %q is none of %s", f.failOn, strings.Join(severities, ", "))
	case f.cluster.isSet() && len(f.files) > 0:
		return errors.New("name either files or a cluster: the files' objects and the cluster's would be mixed up")
	case !f.cluster.isSet() && len(f.files) == 0:
		return errors.New(missing)
	case countStdin(f.files) > 1:
		return fmt.Errorf("--%s: the standard input (-) is named more than once, and can be read once", filesFlag)
	}
	return nil
}

// A findingReport says what is wrong among objects.
type findingReport interface {
	Write(w io.Writer, format, version string) error
	ExitCode(failOn lint.Severity) int
}

// finish prints a report, and returns the error that has its exit code.
func (f *findingFlags) finish(c *cobra.Command, report findingReport) error {
	if err := report.Write(c.OutOrStdout(), f.output, commandline.Version()); err != nil {
		return err
	}
	if code := report.ExitCode(lint.Severity(f.failOn)); code != 0 {
		return commandline.ExitCode(code)
	}
	return nil
}

// An objectsRead is what was read of files, or of a cluster.
type objectsRead struct {
	documents []input.Document
	// texts are those of the files, served the kinds of the cluster, apart from those of unknownGroups.
	texts         map[string][]byte
	served        []lint.Served
	unknownGroups []string
	// complete reports whether the cluster has no other objects.
	complete bool
	// unread is what could not be read.
	unread []error
	notes  []string
}

// read reads the objects of a cluster, or else of files.
func (f *findingFlags) read(c *cobra.Command) (*objectsRead, error) {
	if f.cluster.isSet() {
		return readCluster(c, f.cluster)
	}
	return readFiles(c, f.files, f.exclude)
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
	defer newProgress(c.ErrOrStderr()).during("reading files")()
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
		if _, ok := read.texts[d.Source.File]; !ok && !d.Rendered {
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
	cluster, _, err := flags.connect(c.Context(), progress)
	if err != nil {
		return nil, err
	}
	defer progress.during("reading " + cluster.Host)()
	gathered, err := cluster.Gather(c.Context(), inventory.ClusterKinds())
	if err != nil {
		return nil, err
	}
	read := &objectsRead{notes: gathered.Notes, unknownGroups: gathered.UnknownGroups}
	for _, object := range gathered.Objects {
		read.documents = append(read.documents, input.Document{Object: object})
	}
	for _, r := range gathered.Resources {
		read.served = append(read.served, lint.Served{Kind: r.Kind, Resource: r.Resource.Resource})
	}
	for _, gap := range gathered.Gaps {
		read.unread = append(read.unread, errors.New(gap.Message))
	}
	read.complete = len(gathered.Gaps) == 0 // or what is not there may only be unread
	return read, nil
}
