// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/count"
	"gatehouse.dev/internal/review/impact"
	"gatehouse.dev/internal/review/judge"
	"gatehouse.dev/internal/review/recorded"
)

// Replay judges recorded requests, and reports what the candidate would change. The report's results are those
// that differ, or all if collected says so.
//
// A request is compared with how it ended when it was made. If something refuses it even without the candidate, or
// something refused it that is not known here, it counts as not judged. Requests that failed for
// another reason than admission are left out.
//
// If quotas count, the requests are applied one after the other: on the candidate's side those that it admits, on the
// other side those that were admitted. A request for an object that the candidate has not admitted before counts as
// not judged.
//
// If the records can't be read to their end, or ctx ends, Replay returns the error with a report that
// says that it is partial, or alone if nothing was judged until then.
func (t *Trial) Replay(ctx context.Context, o ReplayOptions) (*impact.Report, error) {
	reading, stop := context.WithCancel(ctx) // which ends reading, too, if a result can't be kept
	defer stop()
	reader, err := recorded.Open(reading, o.Records, recorded.Options{Stdin: o.Stdin, Lookup: t.lookup(reading), Strict: o.Strict})
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	within, err := t.scopeOf(ctx)
	if err != nil {
		return nil, err
	}
	p := &replaying{Trial: t, known: newNamespaceLoader(t), alone: o.Alone, within: within}
	workers := 0
	var incomplete []string
	if t.options.Quotas {
		workers = 1 // in order
		if p.sequence, incomplete, err = newSequence(ctx, t, o.Alone); err != nil {
			return nil, err
		}
	}
	collector, err := impact.NewCollector(impact.Replay, o.Report)
	if err != nil {
		return nil, err
	}
	shown, judged := time.Now(), 0
	err = judge.Each(reading, workers, p.records(reading, reader), p.judge, func(r *impact.Result) error {
		judged++
		if o.Progress != nil && time.Since(shown) > progressInterval {
			shown = time.Now()
			o.Progress(reader.Progress())
		}
		err := collector.Add(r)
		if err != nil {
			stop()
		}
		return err
	})
	counts := reader.Counts()
	if err == nil && counts.Records == counts.Others+counts.Unreadable {
		err = fmt.Errorf("no recorded requests in %s: %s", strings.Join(o.Records, ", "),
			cmp.Or(strings.Join(reader.Notes(), "; "), "there is nothing in it"))
	}
	if err != nil && judged == 0 && ctx.Err() == nil {
		return nil, errors.Join(err, collector.Close())
	}
	ending := impact.Ending{Interrupted: ctx.Err() != nil, Describe: describeUnjudged,
		Nothing: fmt.Sprintf("none of %s is of a write that admission decided", count.Of(counts.Records-counts.Others, "record"))}
	if err != nil && ctx.Err() == nil {
		ending.Problems = []impact.Problem{{Message: err.Error()}}
	}
	ending.Notes = slices.Concat(t.notes, incomplete, reader.Notes(), p.notes(counts))
	report, finishErr := collector.Finish(ending)
	if err := t.checkAssumed(p.known.namespaces); err != nil && report != nil {
		return nil, errors.Join(err, report.Close())
	}
	return report, errors.Join(err, finishErr)
}

// ReplayOptions are the options of Replay.
type ReplayOptions struct {
	// Records are files with audit logs of kube-apiserver or AdmissionReviews, directories with rotated ones,
	// and "-" for Stdin.
	Records []string
	Stdin   io.Reader
	// Strict says that a line that can't be read ends the replay. Otherwise it isn't judged.
	Strict bool
	// Alone says that the two sides are compared with each other alone, and not with how requests ended.
	Alone bool
	// Report says what the report has.
	Report impact.Options
	// Progress, if not nil, is called now and then with the number of bytes that were read, and of all; 0 if
	// that isn't known.
	Progress func(read, all int64)
}

// progressInterval is the time between two calls of ReplayOptions.Progress.
const progressInterval = 100 * time.Millisecond

// The reasons why a replayed request isn't judged, besides those of recorded and judge.
const (
	// unknownNamespace means that the candidate depends on labels of a namespace that isn't there any more.
	unknownNamespace = "unknown-namespace"
	// unknownState means that the cluster has something that bears on the verdict and that isn't known.
	unknownState = "unknown-state"
	// webhookNotAsked means that a webhook of the candidate wasn't asked.
	webhookNotAsked = "webhook-not-asked"
)

// describeUnjudged explains a reason to users.
func describeUnjudged(reason string) string {
	switch reason {
	case unknownNamespace:
		return "the candidate depends on labels of a namespace that isn't known: kubectl get namespaces -o yaml > " +
			"namespaces.yaml, and name that file beside the objects, or with --state for a replay"
	case unknownState:
		return "the cluster has something that bears on them and that could not be read or stored; see the notes"
	case webhookNotAsked:
		return "a webhook of the candidate was not asked: name its URL with --webhook, or use --webhooks=ask"
	case unknownUsage:
		return "it isn't known what quotas count already; see the notes"
	case notMade:
		return "the candidate's earlier verdicts leave out the objects that they are for, or that their objects belong to, or " +
			"have those that they create"
	case judge.StateChanged:
		return "they were admitted, and the present state refuses them even without the candidate"
	case judge.RefusedElsewhere:
		return "they were refused by something that is not known here"
	case judge.NotServed:
		return "the server that judges doesn't serve the resource, for example because its CustomResourceDefinition " +
			"is missing"
	case judge.Undecodable:
		return "the server that judges can't read them"
	case judge.JudgingFailed:
		return "judging them took too long or failed"
	}
	return recorded.Reason(reason).Describe()
}

// A replaying is one replay.
type replaying struct {
	*Trial
	alone bool
	known namespaceLoader
	// within holds the resources about which requests may end otherwise.
	within *scope
	// sequence is nil if requests are judged by themselves.
	sequence *sequence
}

// A question is a record to be judged.
type question struct {
	record *recorded.Record
	// unknown is true if the labels of its namespace are not known.
	unknown bool
}

// records returns the records that are to be judged. It makes sure that the namespace of each is there.
func (p *replaying) records(ctx context.Context, reader *recorded.Reader) iter.Seq2[question, error] {
	return func(yield func(question, error) bool) {
		for {
			record, err := reader.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil && record.Outcome() == recorded.NoNews {
				continue
			}
			q := question{record: record}
			if err == nil && !record.CreatesNamespace() {
				q.unknown, err = p.known.prepare(ctx, record.Namespace())
			}
			if !yield(q, err) || err != nil {
				return
			}
			if record.CreatesNamespace() {
				if err := p.addNamespace(ctx, record.Decode()); err != nil {
					yield(question{}, err)
					return
				}
			}
		}
	}
}

// addNamespace stores a namespace that a recorded request created, if the state lacks it.
func (p *replaying) addNamespace(ctx context.Context, created *recorded.Request) error {
	unknown, ok := p.known.namespaces[created.Name]
	if ok && !unknown {
		return nil
	}
	if !ok {
		stored, err := p.namespace(ctx, created.Name)
		if stored != nil || err != nil {
			return err
		}
	}
	object, err := recorded.Parse(created.Object)
	if object == nil || err != nil {
		return err
	}
	namespace := newNamespace(created.Name)
	namespace.SetLabels(object.GetLabels())
	namespace.SetAnnotations(object.GetAnnotations())
	p.known.namespaces[created.Name] = false
	return p.known.load(ctx, namespace)
}

// judge judges a record.
func (p *replaying) judge(ctx context.Context, of question) *impact.Result {
	q := of.record.Decode()
	result := &impact.Result{AuditID: q.ID, Source: &impact.Source{File: q.Source.File, Line: q.Source.Line},
		Request: requestOfRecord(q), Object: objectOfRecord(q), Recorded: v1alpha1.Verdict(q.Recorded.Outcome)}
	if !q.Time.IsZero() {
		result.Time = &metav1.Time{Time: q.Time}
	}
	beyond := q.Resource.Resource != "" &&
		!p.within.in(q.Namespace).matchesRequest(q.Resource.GroupResource(), q.Subresource, string(q.Operation))
	switch {
	case q.Unjudged == recorded.Unreadable:
		result.Unjudged = string(q.Unjudged)
		return result
	case beyond && p.sequence == nil:
		result.Beyond = true
		return result // it ends as it did
	case p.sequence == nil:
		p.decide(ctx, &p.Trial.Trial, of, q, result)
		return result
	case p.sequence.begin(q):
		p.decide(ctx, &p.sequence.judges, of, q, result)
	default:
		result.Unjudged = notMade
	}
	p.sequence.end(ctx, q, result)
	if beyond && !result.Differs && result.Unjudged != notMade { // it may need what the candidate refuses
		result.Beyond, result.Unjudged, result.Message = true, "", ""
	}
	return result
}

// decide judges the request of a record by both sides.
func (p *replaying) decide(ctx context.Context, by *judge.Trial, of question, q *recorded.Request, result *impact.Result) {
	switch {
	case q.Unjudged != "":
		result.Unjudged = string(q.Unjudged)
		return
	case of.unknown && p.namespaceLabels:
		result.Unjudged = unknownNamespace
		return
	}
	if unknown := p.Unknown(q.Kind.GroupKind(), q.Namespace, q.Name); unknown != nil {
		result.Unjudged, result.Message = unknownState, unknown[0]
		return
	}
	was := result.Recorded
	if p.alone {
		was = ""
	}
	judged := by.Judge(ctx, &judge.Request{AuditID: q.ID, User: q.User, UserAgent: q.UserAgent, Operation: q.Operation,
		Resource: q.Resource, Subresource: q.Subresource, Namespace: q.Namespace, Name: q.Name, Object: q.Object,
		OldObject: q.OldObject, Options: q.Options, DryRun: q.DryRun}, was)
	p.take(result, &judged)
}

// notes returns notes about what the records have and what they were judged by.
func (p *replaying) notes(counts recorded.Counts) []string {
	var notes []string
	if counts.Panics > 0 {
		notes = append(notes, fmt.Sprintf("requests in which the server panicked, left out: %d", counts.Panics))
	}
	if counts.Others > 0 {
		notes = append(notes, fmt.Sprintf("lines that are neither audit events nor AdmissionReviews, left out: %d",
			counts.Others))
	}
	if p.sequence != nil {
		notes = append(notes, p.sequence.notes()...)
	}
	return append(notes, p.known.notes()...)
}

// take takes what was judged into a result.
func (t *Trial) take(result *impact.Result, judged *judge.Result) {
	candidate := judged.Candidate
	result.Unjudged = judged.Unjudged
	if result.Unjudged == "" && t.asksOwnWebhook(candidate.Decision) {
		result.Unjudged = webhookNotAsked
	}
	if result.Unjudged != "" {
		result.Message = judged.Why
		return
	}
	result.Verdict, result.Message = candidate.Decision.Verdict, candidate.Decision.Message
	result.Decision = candidate.Decision
	result.Differs = judged.Effect != judge.NoEffect
	var before *v1alpha1.Decision
	var warnings []string
	if judged.Before != nil {
		before, warnings = judged.Before.Decision, judged.Before.Warnings
		result.Before = before.Verdict
	}
	for _, warning := range candidate.Warnings {
		if !slices.Contains(warnings, warning) {
			result.Warnings = append(result.Warnings, warning)
		}
	}
	switch judged.Effect {
	case judge.NewlyRefused:
		result.Policies = impact.PoliciesOf(candidate.Decision)
	case judge.NewlyAdmitted:
		result.Policies, result.Message = impact.PoliciesOf(before), before.Message
	case judge.Changes:
		result.Changes = impact.ChangesBeside(candidate.Decision, before, t.valuesOf(judged.Request))
		addPolicies(result, impact.ChangersBeside(candidate.Decision, before))
		addPolicies(result, impact.ChangersBeside(before, candidate.Decision))
	case judge.Warns:
		addPolicies(result, impact.WarnersBeside(candidate.Decision, before))
		addPolicies(result, impact.WarnersBeside(before, candidate.Decision))
	}
}

// asksOwnWebhook reports whether a webhook of the candidate would have been asked, and wasn't.
func (t *Trial) asksOwnWebhook(d *v1alpha1.Decision) bool {
	if t.candidate.reviewer.options.AllowIncomplete {
		return false
	}
	for i := range d.Steps {
		for _, call := range d.Steps[i].Calls {
			if isNotAsked(&call) && t.ownWebhooks[call.Configuration] {
				return true
			}
		}
	}
	return false
}

// requestOfRecord returns a recorded request as decisions have it.
func requestOfRecord(q *recorded.Request) v1alpha1.Request {
	r := v1alpha1.Request{Operation: string(q.Operation), Group: q.Resource.Group, Version: q.Resource.Version,
		Resource: q.Resource.Resource, Subresource: q.Subresource, Namespace: q.Namespace, Name: q.Name, DryRun: q.DryRun,
		UserAgent: q.UserAgent}
	if q.User != nil {
		r.User = v1alpha1.User{Username: q.User.GetName(), Groups: q.User.GetGroups()}
	}
	if q.Name == "" {
		var named struct {
			Metadata struct{ Name, GenerateName string }
		}
		if json.Unmarshal(q.Object, &named) == nil {
			r.Name, r.GenerateName = named.Metadata.Name, named.Metadata.GenerateName
		}
	}
	return r
}

// objectOfRecord names the object of a recorded request. If the server made the name, it is the prefix.
func objectOfRecord(q *recorded.Request) impact.Object {
	r := requestOfRecord(q)
	o := impact.Object{APIVersion: q.Kind.GroupVersion().String(), Kind: q.Kind.Kind, Namespace: q.Namespace, Name: r.Name}
	if o.Name == "" {
		o.Name = r.GenerateName
	}
	if o.Kind == "" { // the record doesn't show it
		o.APIVersion, o.Kind = q.Resource.GroupVersion().String(), q.Resource.Resource
	}
	return o
}
