// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/quota"
	"gatehouse.dev/internal/review/impact"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/judge"
	"gatehouse.dev/internal/review/recorded"
	"gatehouse.dev/internal/review/usage"
)

// notMade means that the request would not have been made like this, by the candidate's earlier verdicts.
const notMade = "not-made"

// A sequence has what recorded requests leave behind, as far as quotas count it: on the candidate's side what the
// candidate admits, and on the other side what was admitted when it was made.
type sequence struct {
	*meter
	judges            judge.Trial
	candidate, before *side // before is nil if there is none
	alone             bool
	// strangers counts the objects that were changed or removed, and that neither the state nor the records show
	// before; stranger is the first one.
	strangers int
	stranger  string
}

// A side is one side of a sequence.
type side struct {
	*usage.Ledger
	meter *meter
	// own has the quotas of this side's candidate, which no request changes.
	own map[types.NamespacedName]bool
	// missing has the objects that were created when the requests were made, and not on this side.
	missing map[usage.Key]bool

	// key, object and old are the present request's; cost is what its object costs, if it came to the quotas.
	key         usage.Key
	object, old []byte
	cost        *quota.Cost
}

// never is the time of a meter that takes pods to be there until they are removed.
func never() time.Time { return time.Time{} }

// newSequence returns a sequence that begins with a trial's state, and notes about what that lacks.
func newSequence(ctx context.Context, t *Trial, alone bool) (*sequence, []string, error) {
	if t.options.Live != nil {
		return nil, nil, errors.New("applying requests in order needs the state at the beginning of the records, and the " +
			"cluster has the present one")
	}
	m, err := t.candidate.reviewer.newMeter(never)
	if err != nil {
		return nil, nil, err
	}
	seq := &sequence{meter: m, judges: t.Trial, alone: alone, candidate: newSide(m)}
	seq.judges.Candidate = t.Trial.Candidate.WithQuotas(seq.candidate.decide)
	if t.before != nil {
		seq.before = newSide(m)
		seq.judges.Before = t.Trial.Before.WithQuotas(seq.before.decide)
	}
	for _, d := range t.given {
		if err := seq.add(ctx, d.Object); err != nil {
			return nil, nil, &input.Error{Source: d.Source, Object: d.Object,
				Err: fmt.Errorf("%s: counting it: %w", input.Named(d.Object), err)}
		}
	}
	if err := seq.candidate.addQuotas(ctx, t.candidate, t.options.Candidate); err != nil {
		return nil, nil, err
	}
	if t.before != nil {
		if err := seq.before.addQuotas(ctx, t.before, t.options.Against); err != nil {
			return nil, nil, err
		}
	}
	notes, err := seq.compareStated(t.given)
	return seq, notes, err
}

func newSide(m *meter) *side {
	return &side{Ledger: usage.NewLedger(), meter: m, own: map[types.NamespacedName]bool{}, missing: map[usage.Key]bool{}}
}

// sides returns the sides that there are.
func (seq *sequence) sides() []*side {
	if seq.before == nil {
		return []*side{seq.candidate}
	}
	return []*side{seq.candidate, seq.before}
}

// add adds an object of the state on all sides.
func (seq *sequence) add(ctx context.Context, object *unstructured.Unstructured) error {
	if isHeaderKind(object.GroupVersionKind()) {
		return nil
	}
	resource, mapping := seq.reviewer.resourceOf(object)
	key := usage.Key{Resource: quota.StoredAs(resource.GroupResource()), Name: object.GetName()}
	if mapping == nil || mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		key.Namespace = seq.reviewer.namespaceOf(object)
	}
	if quota.IsIgnored(key.Resource) {
		return nil
	}
	data, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	cost, err := seq.measure(ctx, key.Resource, data)
	if err != nil {
		return err
	}
	for _, s := range seq.sides() {
		s.Set(key, cost)
	}
	return nil
}

// addQuotas adds the quotas that a side's server has. Those of its candidate stay as they are.
func (s *side) addQuotas(ctx context.Context, of *Judge, candidate []input.Document) error {
	quotas, err := of.quotasOf(ctx)
	if err != nil {
		return err
	}
	for i := range quotas {
		s.PutQuota(&quotas[i])
	}
	for _, d := range candidate {
		if d.Object.GroupVersionKind().GroupKind() == quotaKind {
			s.own[types.NamespacedName{Namespace: of.reviewer.namespaceOf(d.Object), Name: d.Object.GetName()}] = true
		}
	}
	return nil
}

// compareStated compares the usage that quotas of the state state with the objects that it has. If there are too few,
// it isn't known what is used.
func (seq *sequence) compareStated(state []input.Document) (notes []string, _ error) {
	for _, d := range state {
		if d.Object.GroupVersionKind().GroupKind() != quotaKind {
			continue
		}
		limits, err := asQuota(d.Object)
		if err != nil {
			return nil, err
		}
		limits.Namespace = seq.reviewer.namespaceOf(d.Object)
		total := seq.candidate.Total(limits)
		var lacking []string
		for name, stated := range limits.Status.Used {
			counted := total[name]
			if stated.Cmp(counted) <= 0 {
				continue
			}
			lacking = append(lacking, fmt.Sprintf("%s=%s, not %s", name, counted.String(), stated.String()))
			of := &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{name: stated}}}
			for _, resource := range quota.Resources(of) {
				for _, s := range seq.sides() {
					s.Forget(limits.Namespace, resource)
				}
			}
		}
		if len(lacking) > 0 {
			slices.Sort(lacking)
			notes = append(notes, fmt.Sprintf("%s in namespace %s: the objects of the state use %s as its status says: "+
				"requests that use more of it aren't judged; gatehouse snapshot --objects saves the objects",
				input.Named(d.Object), limits.Namespace, strings.Join(lacking, ", ")))
		}
	}
	return notes, nil
}

// begin begins a request, and reports whether it would have been made like this on the candidate's side.
func (seq *sequence) begin(q *recorded.Request) bool {
	key := usage.Key{Resource: quota.StoredAs(q.Resource.GroupResource()), Namespace: q.Namespace, Name: q.StoredName}
	if key.Resource == namespaces {
		key.Namespace = ""
	}
	if key.Name == "" {
		key.Name = usage.Unnamed + q.ID
	}
	for _, s := range seq.sides() {
		s.key, s.object, s.old, s.cost = key, q.Object, q.OldObject, nil
	}
	missing := seq.candidate.missing
	switch {
	case len(missing) > 0 && (missing[usage.Key{Resource: namespaces, Name: q.Namespace}] && key.Resource != namespaces):
		return false
	case !isCreation(q):
		return !missing[key]
	case len(missing) > 0 && seq.lacksOwner(q):
		return false
	}
	// If both sides have the object, its removal isn't recorded.
	return seq.candidate.Cost(key) == nil || seq.before == nil || seq.before.Cost(key) != nil
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// isCreation reports whether a request creates an object of its own.
func isCreation(q *recorded.Request) bool {
	return q.Operation == admission.Create && q.Subresource == ""
}

// lacksOwner reports whether the object's controller is missing on the candidate's side.
func (seq *sequence) lacksOwner(q *recorded.Request) bool {
	object, err := recorded.Parse(q.Object)
	if err != nil || object == nil {
		return false
	}
	owner := metav1.GetControllerOf(object)
	if owner == nil {
		return false
	}
	kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	mapping, err := seq.reviewer.cluster.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return false
	}
	return seq.candidate.missing[usage.Key{Resource: mapping.Resource.GroupResource(), Namespace: q.Namespace, Name: owner.Name}]
}

// decide decides the present request by the side's quotas.
func (s *side) decide(e *quota.Enforcement) error {
	change := quota.Change{Resource: e.Resource, Old: e.Old, New: e.New}
	if e.New == nil { // its cost depends on other objects
		var err error
		if change.New, err = s.meter.measure(context.Background(), e.Resource, s.object); err == nil && s.old != nil {
			change.Old, err = s.meter.measure(context.Background(), e.Resource, s.old)
		}
		if err != nil {
			return judge.Unjudged(judge.JudgingFailed, fmt.Sprintf("measuring it for quotas: %v", err))
		}
	}
	s.cost = change.New
	if known := s.Cost(s.key); known != nil && change.Old != nil {
		change.Old = known
	}
	quotas := s.Quotas(e.Namespace)
	if change.NeedsUnknown(quotas) {
		return judge.Unjudged(unknownUsage, fmt.Sprintf("it isn't known what objects of %s use in namespace %s", e.Resource,
			e.Namespace))
	}
	return usage.Decide(e, change, quotas)
}

// end applies a request that was judged.
func (seq *sequence) end(ctx context.Context, q *recorded.Request, result *impact.Result) {
	key := seq.candidate.key
	if q.DryRun || q.Operation == admission.Connect || quota.IsIgnored(key.Resource) {
		return
	}
	was, known := q.Recorded.Outcome == recorded.Admitted, q.Recorded.Outcome != recorded.Unknown
	seq.countStrangers(q, was)
	admits, admitted := result.Verdict == v1alpha1.Admitted, was
	switch {
	case result.Unjudged == notMade:
		admits = false
	case result.Unjudged != "":
		// The side ends as the request did. If that isn't known, nothing is.
		if admits = was; !known {
			for _, s := range seq.sides() {
				s.Forget(key.Namespace, key.Resource)
			}
		}
	case seq.alone || !known:
		admitted = result.Before == v1alpha1.Admitted || result.Before == "" && admits
	case !was:
		admits = admits && result.Differs
	}
	if seq.before != nil {
		if seq.before.cost == nil { // it was not asked, because it changes objects as the candidate does
			seq.before.cost = seq.candidate.cost
		}
		seq.before.apply(ctx, q, was, admitted)
	}
	seq.candidate.apply(ctx, q, was, admits)
	if result.Unjudged == notMade && was && q.Removes {
		delete(seq.candidate.missing, key)
	}
}

// apply applies the present request to a side, if it is admitted there. was says whether it was when it was made.
func (s *side) apply(ctx context.Context, q *recorded.Request, was, admitted bool) {
	if !admitted {
		if was && isCreation(q) && s.Cost(s.key) == nil {
			s.missing[s.key] = true
		}
		return
	}
	switch {
	case q.Removes:
		delete(s.missing, s.key)
		s.Set(s.key, nil)
	case isCreation(q):
		delete(s.missing, s.key)
		s.update(ctx, q)
	case q.Operation == admission.Update && isWhole(q.Subresource):
		s.update(ctx, q)
	}
	if s.key.Resource != (schema.GroupResource{Resource: "resourcequotas"}) || q.Subresource != "" {
		return
	}
	if s.own[types.NamespacedName{Namespace: s.key.Namespace, Name: s.key.Name}] {
		return
	}
	if q.Removes {
		s.RemoveQuota(s.key.Namespace, s.key.Name)
		return
	}
	limits := &corev1.ResourceQuota{}
	if q.Object != nil && json.Unmarshal(q.Object, limits) == nil {
		limits.Namespace, limits.Name = s.key.Namespace, s.key.Name
		s.PutQuota(limits)
	}
}

// isWhole reports whether a request for a subresource has the whole object.
func isWhole(subresource string) bool {
	return slices.Contains([]string{"", "status", "resize", "ephemeralcontainers"}, subresource)
}

// update takes over what the present request's object costs.
func (s *side) update(ctx context.Context, q *recorded.Request) {
	now := s.cost
	if now == nil {
		if q.Object == nil && quota.DependsOnContent(s.key.Resource) {
			s.Forget(s.key.Namespace, s.key.Resource)
			return
		}
		var err error
		if now, err = s.meter.measure(ctx, s.key.Resource, q.Object); err != nil {
			s.Forget(s.key.Namespace, s.key.Resource)
			return
		}
		// What this side's plugins changed when the object was created stays as it is.
		if q.OldObject != nil && s.Cost(s.key) != nil {
			old, err := s.meter.measure(ctx, s.key.Resource, q.OldObject)
			if err == nil && !(quota.Change{Resource: s.key.Resource, Old: old, New: now}).MovesUsage() {
				return
			}
		}
	}
	s.Set(s.key, now)
}

// countStrangers counts a request for an object that nothing has shown before.
func (seq *sequence) countStrangers(q *recorded.Request, was bool) {
	s := seq.sides()[len(seq.sides())-1]
	if !was || q.Operation == admission.Create || !isWhole(q.Subresource) || s.Cost(s.key) != nil || s.missing[s.key] ||
		len(s.Quotas(s.key.Namespace))+len(seq.candidate.Quotas(s.key.Namespace)) == 0 {
		return
	}
	if seq.strangers++; seq.stranger == "" {
		seq.stranger = Object(objectOfRecord(q)).String()
	}
	if s.HasUnnamed(s.key.Namespace, s.key.Resource) {
		// It may be the object whose name wasn't recorded when it was created.
		for _, s := range seq.sides() {
			s.Forget(s.key.Namespace, s.key.Resource)
		}
	}
}

// notes returns a note about what the state lacks.
func (seq *sequence) notes() []string {
	if seq.strangers == 0 {
		return nil
	}
	return []string{fmt.Sprintf("requests for objects that neither the state nor the records show before, which quotas "+
		"count from then on: %d, such as %s", seq.strangers, seq.stranger)}
}
