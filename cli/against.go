// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/review"
)

// A process can't emulate another version once a server has run in it: validation keeps its CEL
// compiler, for example. So review --against-version judges as the first version itself, and runs the
// program once more for the other version. The second process gets the same arguments and, on its
// standard input, a task. It prints an Outcome in place of a review. The end of its standard input
// interrupts it, so it ends with the first process.

// asSecond is the environment variable of the second process.
const asSecond = "GATEHOUSE_REVIEW_SECOND"

// task is what the second process does apart from its arguments.
type task struct {
	// Version is the version to judge as.
	Version string `json:"version"`
	// Input is what the arguments mean by the standard input.
	Input []byte `json:"input"`
}

// programArguments is the key of the program's arguments in the context of a command.
type programArguments struct{}

// stopTime bounds how long an interrupted second process may take to stop.
const stopTime = 10 * time.Second

// compare judges as two versions, and prints what differs.
func (r *reviewing) compare(c *cobra.Command) error {
	against, err := r.checkAgainst(c)
	if err != nil {
		return commandline.Usage(err)
	}
	var stdin []byte
	if countStdin(r.files, r.state) > 0 {
		// Larger input is refused by both.
		if stdin, err = io.ReadAll(io.LimitReader(standardInput(c), input.MaxFile+1)); err != nil {
			return commandline.Usage(err)
		}
		c.SetIn(bytes.NewReader(stdin))
	}
	if err := r.applyChain(c.Flags()); err != nil {
		return commandline.Usage(err)
	}
	if judged := review.JudgedVersion(); judged == against {
		return commandline.Usage(fmt.Errorf("--against-version: the review judges as Kubernetes %s already: name "+
			"another version", judged))
	}
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	second, err := startSecond(ctx, task{Version: against, Input: stdin})
	if err != nil {
		return err
	}
	from, err := r.outcome(c)
	if err != nil {
		cancel()
		_, _ = second.wait()
		return err
	}
	to, err := second.wait()
	if err := c.Context().Err(); err != nil {
		return err
	}
	if err != nil {
		return commandline.Usage(fmt.Errorf("judging as Kubernetes %s: %w", against, err))
	}
	if _, err := second.stderr.WriteTo(c.ErrOrStderr()); err != nil { // the log, with -v
		return err
	}
	comparison := review.Compare(from, to)
	if err := comparison.Write(c.OutOrStdout(), r.output); err != nil {
		return err
	}
	if code := comparison.ExitCode(); code != review.ExitAdmitted {
		return commandline.ExitCode(code)
	}
	return nil
}

// checkAgainst returns the version to compare with. It refuses flags that are for a single review.
func (r *reviewing) checkAgainst(c *cobra.Command) (string, error) {
	against, err := review.CheckKubernetesVersion(r.against)
	if err != nil {
		return "", fmt.Errorf("--against-version: %w", err)
	}
	if c.Flags().Changed("emulated-version") {
		return "", errors.New("--against-version and --emulated-version: name the first version with " +
			"--kubernetes-version")
	}
	for _, flag := range []string{"only", "show-changes", "explain"} {
		if c.Flags().Changed(flag) {
			return "", fmt.Errorf("--%s and --against-version: only one can be given, for the output has what differs "+
				"between the versions", flag)
		}
	}
	if r.output != "" && !slices.Contains(review.ComparisonFormats, r.output) {
		return "", fmt.Errorf("--output: %q is none of %s, the formats with --against-version", r.output,
			strings.Join(review.ComparisonFormats, ", "))
	}
	return against, nil
}

// outcome judges the objects as one version.
func (r *reviewing) outcome(c *cobra.Command) (*review.Outcome, error) {
	judged, stop, err := r.judge(c)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.Context().Err(), stop()); err != nil { // what was judged can't be compared
		return nil, commandline.Usage(err)
	}
	return review.NewOutcome(judged, r.flags.Config)
}

// second is the second process.
type second struct {
	command        *exec.Cmd
	stdout, stderr bytes.Buffer
}

// startSecond starts the program with the same arguments. The process is interrupted when ctx ends.
func startSecond(ctx context.Context, t task) (*second, error) {
	args, ok := ctx.Value(programArguments{}).([]string)
	if !ok {
		return nil, errors.New("--against-version works in a program that calls cli.Main: it runs the program again")
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("--against-version: finding the program to run it again: %w", err)
	}
	s := &second{command: exec.CommandContext(ctx, program, args...)}
	s.command.Env = append(os.Environ(), asSecond+"=1")
	s.command.Stdout, s.command.Stderr = &s.stdout, &s.stderr
	stdin, err := s.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	s.command.Cancel, s.command.WaitDelay = stdin.Close, stopTime
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("--against-version: running the program again: %w", err)
	}
	go func() {
		_ = json.NewEncoder(stdin).Encode(t) // if it can't read, it says why
	}()
	return s, nil
}

// wait returns the outcome that the process prints, or its error.
func (s *second) wait() (*review.Outcome, error) {
	err := s.command.Wait()
	if err != nil {
		said := strings.TrimSpace(s.stderr.String())
		return nil, errors.New(cmp.Or(strings.ReplaceAll(said, "gatehouse: ", ""), err.Error()))
	}
	outcome := &review.Outcome{}
	if err := json.Unmarshal(s.stdout.Bytes(), outcome); err != nil {
		return nil, fmt.Errorf("reading the outcome: %w", err)
	}
	if outcome.Review == nil || len(outcome.Objects) != len(outcome.Review.Results) {
		return nil, errors.New("reading the outcome: it has no object for each result")
	}
	return outcome, nil
}

// runSecond is what the second process does.
func (r *reviewing) runSecond(c *cobra.Command) error {
	stdin := c.InOrStdin()
	decoder := json.NewDecoder(stdin)
	var t task
	if err := decoder.Decode(&t); err != nil {
		return fmt.Errorf("%s is set: reading the task of a second review: %w", asSecond, err)
	}
	ctx, cancel := context.WithCancel(c.Context())
	go func() {
		_, _ = io.Copy(io.Discard, stdin) // until the first process closes it, or is gone
		cancel()
	}()
	c.SetContext(ctx)
	c.SetIn(bytes.NewReader(t.Input))
	if err := c.Flags().Set("kubernetes-version", t.Version); err != nil {
		return err
	}
	if err := r.applyChain(c.Flags()); err != nil {
		return commandline.Usage(err)
	}
	outcome, err := r.outcome(c)
	if err != nil {
		return err
	}
	return json.NewEncoder(c.OutOrStdout()).Encode(outcome)
}
