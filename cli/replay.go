// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	embedded "gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/review/impact"
	"gatehouse.dev/plugin"
	"gatehouse.dev/review"
)

func newReplay(plugins []plugin.Descriptor) *cobra.Command {
	log := &commandline.Logging{}
	flags := newCandidate(plugins)
	c := &cobra.Command{
		Use:   "replay LOG...",
		Short: "Say which recorded requests a policy or webhook would refuse",
		Long: `Say which recorded requests a policy, a plugin or a webhook would refuse or change.

The requests come from audit logs of kube-apiserver at level Request or RequestResponse, from
AdmissionReviews as JSON lines, or from gatehouse serve --record and webhook --record: files, also
gzipped, directories with rotated ones, or - for the standard input. Each request is judged as it
was made, by a real API server in the process that has the candidate, and compared with how it
ended. Nothing is stored, and a cluster is only read.

What can't be judged is counted by reason, and never guessed. Quotas count only with
--state-at=start.

The exit code is 0 if nothing differs, 1 if something does, and 2 if a log or the candidate can't be
read, if nothing of the candidate can act, if a log has no recorded requests, if nothing is judged or
less than --min-judged asks for, or if the command is interrupted.`,
		Example: `  # Which requests of the last days would a new policy have refused?
  gatehouse replay /var/log/kubernetes/audit/ -f policy.yaml

  # With the namespaces, params and classes of the cluster, from it or from a snapshot
  gatehouse replay audit.log -f policies/ --context=production
  gatehouse replay audit.log -f policies/ --state=state.yaml

  # Which would a quota have refused? The state is that of the beginning of the log
  gatehouse replay audit.log -f quota.yaml --state=objects.yaml --state-at=start

  # If namespaces without a label enforced a Pod Security Standard
  gatehouse replay audit.log --pod-security=baseline --state=state.yaml

  # If another plugin ran
  gatehouse replay audit.log --enable-admission-plugins=` + offByDefault(plugins) + ` --state=state.yaml

  # What a new version of the policies decides otherwise than the old one
  gatehouse replay audit.log -f policies/ --against=policies-before/

  # In CI: only what is new since the last report, and an error if less than 95 % could be judged
  gatehouse replay audit.log -f policies/ --state=state.yaml -o json --baseline=last.json \
    --min-judged=95`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			log.Apply(c.ErrOrStderr())
			embedded.ReserveLittle()
			return flags.finish(c, impact.Replay, flags.replay(c, args))
		},
	}
	var groups cliflag.NamedFlagSets
	fs := flags.addFlags(&groups, "replay")
	fs.StringVar(&flags.stateAt, "state-at", "now",
		"The time of --state: now, or start for the beginning of the log. From there requests are applied in order, so that "+
			"quotas count.")
	fs.BoolVar(&flags.strict, "strict", false,
		"End at a line of a log that can't be read. By default it is named, and counts as not judged.")
	log.AddFlags(fs)
	commandline.GroupFlags(c, groups, "filename", "state", "state-at", "pod-security", "against", "enable-admission-plugins", "like",
		"output", "show", "baseline", "min-judged")
	flags.completions(c)
	complete(c, "state-at", "start", "now")
	return c
}

// replay judges recorded requests, and prints the report.
func (f *candidate) replay(c *cobra.Command, records []string) error {
	if len(records) == 0 {
		return commandline.Usage(errors.New("nothing to replay: name audit logs, directories with them, or - for the " +
			"standard input"))
	}
	if n := countStdin(records, f.files, f.against, f.state); n > 1 {
		return commandline.Usage(errors.New("the standard input (-) can be read once, and is named more often"))
	}
	progress := newProgress(c.ErrOrStderr())
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
	result, err := trial.Replay(c.Context(), review.ReplayOptions{Records: records, Stdin: standardInput(c), Strict: f.strict,
		Alone: len(f.against) > 0, Report: report, Progress: progress.bytes("replaying")})
	progress.done()
	return f.write(c, result, err, trial.Close)
}
