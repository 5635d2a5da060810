// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/quota"
	"gatehouse.dev/internal/review/impact"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/judge"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/internal/review/recorded"
)

// AuditOptions are the options of Audit.
type AuditOptions struct {
	// Files have the objects, and were scanned; nil for the objects of the cluster that the trial's options name.
	Files *AuditFiles
	// As is the user who writes the objects that no controller writes; nil for an administrator.
	As user.Info
	// Report says what the report has.
	Report impact.Options
	// Progress, if not nil, is called now and then with the number of objects that were judged.
	Progress func(objects int)
}

// auditAgent is what the clients of judged requests call themselves.
const auditAgent = "gatehouse-audit"

// Audit judges existing objects, and reports what the candidate would change. Each object of a kind that the
// candidate can act on is judged as its creation and as an update that changes nothing, by the controller that owns
// it or by the user of the options. Of workloads it judges what their controllers make of them, up to the
// first pod. The report has the results that differ, or all if the options say so.
//
// If quotas count, all objects are read once before, and what they use is added up. A creation is judged as if it took
// the place of the object that exists.
//
// If the objects can't be read to their end, or ctx ends, Audit returns the error with a report that says
// that it is partial, or alone if nothing was judged until then. Its memory doesn't depend on the number of objects, except for one list that
// is read from a cluster: of that it keeps the names.
func (t *Trial) Audit(ctx context.Context, o AuditOptions) (*impact.Report, error) {
	within, err := t.scopeOf(ctx)
	if err != nil {
		return nil, err
	}
	onlyAdds, err := t.isAddition(ctx)
	if err != nil {
		return nil, err
	}
	if o.As == nil {
		o.As = admin
	}
	a := &auditing{Trial: t, asked: &o, onlyAdds: onlyAdds, within: within, owners: owners{cronJobs: map[string]string{}},
		known: newNamespaceLoader(t), seen: map[string]bool{}}
	if t.options.Quotas {
		if a.totals, err = a.countAll(ctx); err != nil {
			return nil, fmt.Errorf("counting what quotas limit: %w", err)
		}
	}
	collector, err := impact.NewCollector(impact.Audit, o.Report)
	if err != nil {
		return nil, err
	}
	reading, stop := context.WithCancel(ctx) // which ends reading, too, if a result can't be kept
	defer stop()
	shown, n := time.Now(), 0
	err = judge.Each(reading, 0, a.objects(reading), a.judge, func(r *impact.Result) error {
		n++
		if o.Progress != nil && time.Since(shown) > progressInterval {
			shown = time.Now()
			o.Progress(n)
		}
		a.countRefused(r)
		err := collector.Add(r)
		if err != nil {
			stop()
		}
		return err
	})
	if err != nil && n == 0 && ctx.Err() == nil {
		return nil, errors.Join(err, collector.Close())
	}
	ending := impact.Ending{Interrupted: ctx.Err() != nil, Describe: describeUnjudged, Problems: a.problems(),
		Nothing: a.nothing()}
	if err != nil && ctx.Err() == nil {
		ending.Problems = append(ending.Problems, impact.Problem{Message: err.Error()})
	}
	ending.Notes = slices.Concat(t.notes, a.notes(), a.known.notes())
	report, finishErr := collector.Finish(ending)
	if err := t.checkAssumed(a.seen); err != nil && report != nil {
		return nil, errors.Join(err, report.Close())
	}
	return report, errors.Join(err, finishErr)
}

// An auditing is one audit.
type auditing struct {
	*Trial
	asked  *AuditOptions
	within *scope
	// onlyAdds is true if the candidate refuses whatever is refused without it.
	onlyAdds bool
	owners   owners
	known    namespaceLoader
	// seen are the namespaces of all objects.
	seen map[string]bool
	// totals is nil if quotas don't count.
	totals *totals
	// unread is what could not be read of what is asked about, and more the number of further parts of it.
	unread []impact.Problem
	more   int
	// gaps are what could not be read of other things, leftOut the files that were left out.
	gaps    []live.Gap
	leftOut []string
	// read counts the objects that were read.
	read int
	// refused counts the objects that are refused even without the candidate; first is the first one.
	refused int
	first   *impact.Result
}

// countRefused counts a result that is refused on both sides.
func (a *auditing) countRefused(r *impact.Result) {
	if r.Unjudged != "" || r.Differs || r.Verdict == v1alpha1.Admitted {
		return
	}
	if a.refused++; a.first == nil {
		a.first = r
	}
}

// notes returns notes about the objects.
func (a *auditing) notes() []string {
	notes := a.leftOut
	for _, gap := range a.gaps {
		notes = append(notes, gap.Message)
	}
	if a.refused > 0 {
		notes = append(notes, fmt.Sprintf("objects that are refused even without the candidate, which may hide that it "+
			"refuses them, too: %d, such as %s: %s", a.refused, Object(a.first.Object), a.first.Message))
	}
	return notes
}

// An existing is an object that exists.
type existing struct {
	input.Document
	// mapping is how the server that judges serves it; nil if it doesn't.
	mapping *meta.RESTMapping
	// owner is the topmost known owner; nil if it has none.
	owner *impact.Object
	// unlabelled is true if the labels of its namespace are not known.
	unlabelled bool
	// redacted is true if it is a Secret whose data was not read.
	redacted bool
}

// judge judges an object.
func (a *auditing) judge(ctx context.Context, e existing) *impact.Result {
	result := &impact.Result{}
	if e.Source.Line > 0 {
		result.Source = &impact.Source{File: e.Source.File, Line: e.Source.Line}
	}
	result.Object, result.Owner = impactObject(e.Object), e.owner
	result.Managers = managersOf(e.Object)
	fail := func(reason, message string) *impact.Result {
		result.Unjudged, result.Message = reason, message
		return result
	}
	switch {
	case e.redacted:
		return fail(string(recorded.RedactedSecret), "")
	case e.unlabelled && a.namespaceLabels:
		return fail(unknownNamespace, "")
	}
	if unknown := a.Unknown(e.Object.GroupVersionKind().GroupKind(), result.Object.Namespace, result.Object.Name); unknown != nil {
		return fail(unknownState, unknown[0])
	}
	object, err := a.candidate.reviewer.convertToServed(e.Object)
	if err != nil {
		return fail(judge.NotServed, err.Error())
	}
	if e.mapping, err = a.candidate.reviewer.cluster.findKind(object); err != nil {
		return fail(judge.NotServed, err.Error())
	}
	create, update, err := a.requestsOf(object, e.mapping)
	if err != nil {
		return fail(judge.Undecodable, err.Error())
	}
	created := a.judgeRequest(ctx, create, a.totals.existing(ctx, object))
	updated := a.judgeRequest(ctx, update, nil)
	of := a.combine(result, create, &created, update, &updated)
	made, err := a.followExisting(ctx, object)
	if err != nil {
		return fail(judge.JudgingFailed, err.Error())
	}
	if made != nil {
		a.takePods(result, of, made)
	}
	return result
}

// judgeRequest judges a request by both sides. If the candidate only adds refusals, the other side isn't asked
// about a request that the candidate admits. A creation takes the place of what costs quotas that much, or if that is
// nil of an object like it.
func (a *auditing) judgeRequest(ctx context.Context, r *judge.Request, existing *quota.Cost) judge.Result {
	by := &a.Trial.Trial
	if a.totals != nil {
		by = a.totals.by(ctx, r, existing)
	}
	if !a.onlyAdds {
		return by.Judge(ctx, r, "")
	}
	result := by.Judge(ctx, r, v1alpha1.Admitted)
	if result.Unjudged == judge.StateChanged { // it is refused by both sides
		result.Unjudged = ""
	}
	return result
}

// requestsOf returns the requests that an object would come with: its creation, and the update that changes
// nothing.
func (a *auditing) requestsOf(object *unstructured.Unstructured, mapping *meta.RESTMapping) (create,
	update *judge.Request, err error) {
	create = &judge.Request{User: askerOf(object, a.asked.As), UserAgent: auditAgent, Operation: admission.Create,
		Resource: mapping.Resource, Name: object.GetName()}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		create.Namespace = a.candidate.reviewer.namespaceOf(object)
	}
	if create.Object, err = asCreated(object).MarshalJSON(); err != nil {
		return nil, nil, err
	}
	again := *create
	again.Operation = admission.Update
	if again.Object, err = object.MarshalJSON(); err != nil {
		return nil, nil, err
	}
	again.OldObject = again.Object
	return create, &again, nil
}

// combine makes one result of the verdicts on two requests, and returns the graver one.
func (a *auditing) combine(result *impact.Result, create *judge.Request, created *judge.Result,
	update *judge.Request, updated *judge.Result) *judge.Result {
	shown, of, other := create, created, updated
	if gravity(updated) > gravity(created) {
		shown, of, other = update, updated, created
	}
	a.take(result, of)
	result.Request = requestShown(shown)
	if result.Unjudged != "" {
		return of
	}
	if other.Unjudged != "" && of.Effect != judge.NewlyRefused {
		result.Unjudged, result.Message = other.Unjudged, other.Why
		return of
	}
	result.Operations = &impact.Operations{Create: verdictOf(created), Update: verdictOf(updated)}
	if before := (impact.Operations{Create: verdictBefore(created), Update: verdictBefore(updated)}); before != (impact.Operations{}) {
		result.OperationsBefore = &before
	}
	if of.Effect == other.Effect && of.Effect == judge.NewlyRefused {
		addPolicies(result, impact.PoliciesOf(other.Candidate.Decision))
	}
	return of
}

// gravity orders results by how much they matter.
func gravity(r *judge.Result) int {
	if r.Unjudged != "" {
		return 1
	}
	return map[judge.Effect]int{judge.NoEffect: 0, judge.Warns: 2, judge.Changes: 3, judge.NewlyAdmitted: 4,
		judge.NewlyRefused: 5}[r.Effect]
}

func verdictOf(r *judge.Result) v1alpha1.Verdict {
	if r.Unjudged != "" {
		return ""
	}
	return r.Candidate.Decision.Verdict
}

// verdictBefore returns the verdict of what the candidate is compared with; empty if it was not asked.
func verdictBefore(r *judge.Result) v1alpha1.Verdict {
	if r.Unjudged != "" || r.Before == nil {
		return ""
	}
	return r.Before.Decision.Verdict
}

// addPolicies adds policies to a result, each once.
func addPolicies(result *impact.Result, policies []impact.Policy) {
	for _, p := range policies {
		if !slices.Contains(result.Policies, p) {
			result.Policies = append(result.Policies, p)
		}
	}
}

// takePods takes what was judged of a workload's pods into its result, if they matter more than what was judged of the
// workload itself. A workload that isn't admitted makes no pods.
func (a *auditing) takePods(result *impact.Result, own *judge.Result, m *makeResult) {
	isNew := result.Verdict != v1alpha1.Admitted && result.Differs // it is refused by the candidate alone
	switch {
	case result.Unjudged != "":
		return
	case m.unjudged != "" && !isNew:
		result.Unjudged, result.Message = m.unjudged, m.why
		result.Verdict, result.Differs = "", false
		return
	case m.judged == nil || gravity(m.judged) < gravity(own) || result.Verdict != v1alpha1.Admitted && !isNew:
		return
	}
	pods := &impact.Result{}
	a.take(pods, m.judged)
	result.Pods = &impact.Pods{Object: m.object, Message: pods.Message, Decision: pods.Decision}
	if gravity(m.judged) == gravity(own) {
		addPolicies(result, pods.Policies)
		return
	}
	result.Verdict, result.Before, result.Differs, result.Message = pods.Verdict, pods.Before, true, pods.Message
	result.Policies, result.Changes, result.Warnings = pods.Policies, pods.Changes, pods.Warnings
}

// requestShown returns a request as decisions have it.
func requestShown(r *judge.Request) v1alpha1.Request {
	return v1alpha1.Request{Operation: string(r.Operation), Group: r.Resource.Group, Version: r.Resource.Version,
		Resource: r.Resource.Resource, Namespace: r.Namespace, Name: r.Name, UserAgent: r.UserAgent,
		User: v1alpha1.User{Username: r.User.GetName(), Groups: r.User.GetGroups()}}
}
