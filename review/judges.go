// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"errors"
	"slices"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/judge"
)

// A Judge judges requests by a server in the process. Unlike a Reviewer it stores nothing, and may be
// used concurrently.
type Judge struct {
	*judge.Judge
	reviewer *Reviewer
}

// StartJudge starts a server in the process, stores the state of the options, and then the candidate. A
// candidate's object replaces the state's object of the same kind, namespace and name. The caller must
// Close the Judge.
//
// Each judge needs an Options.Config of its own. The options that concern Reviews don't matter, such as
// As and Pods. ResourceQuotas limit nothing, because nothing is stored that could count. Decisions hide
// values as Config.Decisions says. Options.Live is not read, see StartTrial.
func StartJudge(ctx context.Context, options Options, candidate []input.Document) (*Judge, error) {
	j, err := startJudge(ctx, options, false)
	if err != nil {
		return nil, err
	}
	if err := j.reviewer.Load(ctx, candidate); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// startJudge starts a judge with the state alone. If quotas count, what it judges must be judged WithQuotas.
func startJudge(ctx context.Context, options Options, quotas bool) (*Judge, error) {
	own := *options.Config
	own.Warn = false // the server's own advice is none of the cluster's
	if !quotas {
		own.Admission = withoutQuota(own.Admission)
	}
	options.Config = &own
	values := own.Decisions.Values
	r, err := Start(ctx, options)
	if err != nil {
		return nil, err
	}
	return &Judge{judge.New(r.cluster.server, judge.Options{Values: values}), r}, nil
}

// Notes returns the notes about the state, such as what differs between the cluster's version of
// Kubernetes and the one that judges, and what could not be stored.
func (j *Judge) Notes() []string { return slices.Concat(j.reviewer.notes, j.reviewer.gapNotes()) }

// Close ends the server.
func (j *Judge) Close() error { return j.reviewer.Close() }

// withoutQuota returns a choice of plugins without the one that charges quotas.
func withoutQuota(o config.Options) config.Options {
	without := func(names []string) []string {
		if names == nil {
			return nil // which differs from none
		}
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == quotaKind.Kind })
	}
	o.Exact, o.Only, o.Enable = without(o.Exact), without(o.Only), without(o.Enable)
	if o.Exact == nil && o.Only == nil && !slices.Contains(o.Disable, quotaKind.Kind) {
		o.Disable = append(slices.Clone(o.Disable), quotaKind.Kind)
	}
	return o
}
