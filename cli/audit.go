// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	embedded "gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/review/impact"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/plugin"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
)

func newAudit(plugins []plugin.Descriptor) *cobra.Command {
	log := &commandline.Logging{}
	flags, as := newCandidate(plugins), &reviewing{}
	c := &cobra.Command{
		Use:   "audit [FILE...]",
		Short: "Say which existing objects a policy or webhook would refuse",
		Long: `Say which existing objects a policy, a plugin or a webhook would refuse or change.

The objects come from the cluster of --context, or from files and directories as kubectl get -o yaml
or -o json writes them, snapshots, a backup of gatehouse backup, or - for the standard input. Of a
cluster only the kinds are listed on whose objects the candidate can act, in pages, with at most 50
requests a second. Nothing is written, and the data of a cluster's Secrets is never read.

Each object is judged as the requests that will come: its creation, without what servers and
controllers set, and the update that changes nothing. They are made by the controller that owns the
object, or by the user of --as. Workloads are followed to their pods. A real API server in the
process judges by the candidate, and another one by what the cluster has without it. What differs is
reported.

What can't be judged is counted by reason, and never guessed.

The exit code is 0 if nothing differs, 1 if something does, and 2 if a source, a part of it or the
candidate can't be read, if nothing of the candidate can act, if nothing is judged or less than
--min-judged asks for, or if the command is interrupted.`,
		Example: `  # Which objects of a cluster would a new policy refuse?
  gatehouse audit --context=production -f policy.yaml

  # From files, without the cluster
  kubectl get pods,deployments,namespaces -A -o yaml > objects.yaml
  gatehouse audit objects.yaml -f policies/

  # From a backup of a Gatehouse server
  gatehouse audit monday.backup -f policies/

  # If namespaces without a label enforced a Pod Security Standard
  gatehouse audit --context=production --pod-security=restricted

  # If another plugin ran
  gatehouse audit --context=production --enable-admission-plugins=` + offByDefault(plugins) + `

  # What a new version of the policies decides otherwise than the old one
  gatehouse audit objects.yaml -f policies/ --against=policies-before/

  # In CI: only what is new since the last report
  gatehouse audit objects.yaml -f policies/ -o json --baseline=last.json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			log.Apply(c.ErrOrStderr())
			embedded.ReserveLittle()
			return flags.finish(c, impact.Audit, flags.audit(c, args, as))
		},
	}
	var groups cliflag.NamedFlagSets
	fs := flags.addFlags(&groups, "audit")
	fs.StringVar(&as.as, "as", "", "The user who writes the objects that no controller owns; an administrator if empty.")
	fs.StringSliceVar(&as.asGroups, "as-group", nil, "Groups of the user.")
	fs.StringVar(&as.asServiceAccount, "as-service-account", "",
		"The service account that writes the objects that no controller owns, as namespace/name.")
	fs.StringSliceVar(&as.exclude, "exclude", nil, "Patterns of files and directories that are left out.")
	log.AddFlags(fs)
	commandline.GroupFlags(c, groups, "filename", "context", "pod-security", "against", "enable-admission-plugins", "like", "output",
		"show", "min-judged")
	flags.completions(c)
	return c
}

// audit judges existing objects, and prints the report.
func (f *candidate) audit(c *cobra.Command, paths []string, as *reviewing) error {
	if len(paths) == 0 && !f.cluster.isSet() {
		return commandline.Usage(errors.New("nothing to audit: name files or directories with objects, - for the standard " +
			"input, or a cluster with --context"))
	}
	if n := countStdin(paths, f.files, f.against, f.state); n > 1 {
		return commandline.Usage(errors.New("the standard input (-) can be read once, and is named more often"))
	}
	writer, err := as.user()
	if err != nil {
		return commandline.Usage(err)
	}
	progress := newProgress(c.ErrOrStderr())
	var files *review.AuditFiles
	isBackup, err := isBackup(paths)
	if err != nil {
		return commandline.Usage(err)
	}
	switch {
	case isBackup && f.cluster.isSet():
		return commandline.Usage(errors.New("a backup is audited by its own state: leave out --context and --kubeconfig"))
	case isBackup:
		opened := progress.during("opening the backup")
		cluster, stop, err := review.OpenBackup(c.Context(), server.NewConfig(f.plugins), paths[0])
		opened()
		if err != nil {
			return commandline.Usage(err)
		}
		defer stop()
		f.backup = cluster
	case len(paths) > 0:
		files = &review.AuditFiles{Paths: paths, Exclude: as.exclude, Streams: map[string]io.ReadSeeker{}}
		for _, path := range paths {
			spooled, err := spool(c, path)
			if err != nil {
				return commandline.Usage(err)
			}
			if spooled != nil {
				defer spooled.Close()
				files.Streams[path] = spooled
			}
		}
		f.source = func(candidate []input.Document) ([]input.Document, bool, error) {
			err := files.Scan(c.Context(), candidate)
			return files.State(), files.IsComplete(), err
		}
	}
	options, report, err := f.options(c, progress)
	if err != nil {
		return commandline.Usage(err)
	}
	started := progress.during("starting servers")
	trial, err := review.StartTrial(c.Context(), options)
	started()
	if err != nil {
		return commandline.Usage(err)
	}
	result, err := trial.Audit(c.Context(), review.AuditOptions{Files: files, As: writer, Report: report,
		Progress: progress.count("auditing", "objects")})
	progress.done()
	return f.write(c, result, err, trial.Close)
}

// isBackup reports whether the only path is a backup of gatehouse backup.
func isBackup(paths []string) (bool, error) {
	if len(paths) != 1 || paths[0] == stdioName {
		return false, nil
	}
	// A pipe isn't opened: its writer would end with its first reader.
	info, err := os.Stat(paths[0])
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	file, err := os.Open(paths[0])
	if err != nil {
		return false, err
	}
	defer file.Close()
	const magic, at = "ustar", 257 // of a tar archive
	found := make([]byte, len(magic))
	if _, err := file.ReadAt(found, at); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	return string(found) == magic, nil
}

// spool returns a file without a name that has all of the standard input or of a pipe, so that it can be read twice,
// and nil for other paths.
func spool(c *cobra.Command, path string) (*os.File, error) {
	in := c.InOrStdin()
	if path != stdioName {
		info, err := os.Stat(path)
		if err != nil || info.Mode()&fs.ModeNamedPipe == 0 {
			return nil, nil // the error shows when it is read
		}
		pipe, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer pipe.Close()
		in = pipe
	}
	file, err := os.CreateTemp("", "gatehouse-audit-*") // whose mode is 0600
	if err != nil {
		return nil, fmt.Errorf("keeping what %s sends in a file: %w", path, err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("keeping what %s sends in a file: %w", path, err), file.Close())
	}
	if _, err := io.Copy(file, input.Until(c.Context(), in)); err != nil {
		return nil, errors.Join(fmt.Errorf("reading %s: %w", path, err), file.Close())
	}
	return file, nil
}
