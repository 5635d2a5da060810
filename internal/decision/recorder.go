// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/admission"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/plugin"
)

// A Recorder makes a decision of each request that passes the chain, and of each write that was
// refused before the chain. It is an Observer of the chain, which knows the steps of the plugins,
// and a filter around the request, which sees the answer.
type Recorder struct {
	store  *Store
	values Values
	// observers are called with every decision. The decision log is one.
	observers []func(*v1alpha1.Decision)
}

// NewRecorder returns a recorder that keeps its decisions in the store and calls each observer with
// them. values says which values of objects are shown.
func NewRecorder(store *Store, values Values, observers ...func(*v1alpha1.Decision)) *Recorder {
	return &Recorder{store: store, values: values, observers: observers}
}

var _ plugin.Observer = &Recorder{}

// Wants asks for changes and calls: a decision has both.
func (r *Recorder) Wants() plugin.Wants { return plugin.Wants{Changes: true, Calls: true} }

// PhaseBegins puts the recording at the top of the context. Each step looks it up twice, and by now
// the context has about thirty other values.
func (r *Recorder) PhaseBegins(ctx context.Context, _ plugin.PhaseStep) context.Context {
	if recording := recordingOf(ctx); recording != nil {
		return withRecording(ctx, recording)
	}
	return ctx
}

// StepBegins records which plugin is called, since the request may end before the plugin returns.
func (r *Recorder) StepBegins(ctx context.Context, step plugin.Step) context.Context {
	if recording := recordingOf(ctx); recording != nil {
		recording.stepBegins(&step)
	}
	return ctx
}

// StepDone records a step. If the plugin left its decision to the storage, the result is added when
// the storage reports it.
func (r *Recorder) StepDone(ctx context.Context, step plugin.Step) {
	recording := recordingOf(ctx)
	if recording == nil {
		return
	}
	recording.stepDone(&step)
	if step.Enforcement != nil {
		late := step // so that the steps of other plugins don't escape to the heap
		late.Enforcement.Then(func(err error, calls []plugin.Call) {
			late.Err, late.Calls, late.Duration = err, calls, 0
			recording.enforced(&late)
		})
	}
}

// PhaseDone records the end of a phase. It ends the recording of an admitted connection: the
// connection may stay open for hours, and its use is no part of the decision.
func (r *Recorder) PhaseDone(ctx context.Context, phase plugin.PhaseStep) {
	recording := recordingOf(ctx)
	if recording == nil {
		return
	}
	decided, other := recording.phaseDone(&phase)
	switch {
	case recording.apart:
	case other != nil:
		r.keepOther(ctx, recording, other)
	case decided && phase.Err == nil && phase.Attributes.GetOperation() == admission.Connect:
		r.finish(ctx, recording, http.StatusOK, nil)
	}
}

// keepOther makes a decision of the attempt of one object of a collection. The request isn't over yet.
func (r *Recorder) keepOther(ctx context.Context, recording *recording, a *attempt) {
	code := int32(http.StatusOK)
	if a.err != nil {
		_, code = plugin.VerdictOf(a.err)
	}
	record := newRecord(ctx, recording, a, int(code), nil)
	record.rename() // the audit ID is the name of the request's decision
	r.keep(record)
}

// Filter records the requests that next handles. It belongs behind authorization, so that requests
// without the right to ask leave no decision.
func (r *Recorder) Filter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		info, ok := request.RequestInfoFrom(req.Context())
		if !ok || !MaySeeChain(info) {
			next.ServeHTTP(w, req)
			return
		}
		recording := r.newRecording(info, req.UserAgent())
		recording.clientsID = req.Header.Get(auditinternal.HeaderAuditID) != ""
		r.record(req.Context(), recording, func(ctx context.Context) (int, *metav1.Status) {
			return Serve(next, w, req.WithContext(ctx))
		})
	})
}

// Record records a request while handle handles it. handle returns the code of the answer, and the
// status if the answer is an error. Filter calls Record for the requests of an API server; a server
// that gets its requests in another way calls Record itself. The user is the one in the context.
func (r *Recorder) Record(ctx context.Context, info *request.RequestInfo, userAgent string,
	handle func(context.Context) (code int, status *metav1.Status)) {
	r.record(ctx, r.newRecording(info, userAgent), handle)
}

func (r *Recorder) newRecording(info *request.RequestInfo, userAgent string) *recording {
	return &recording{start: time.Now(), info: info, userAgent: userAgent, values: r.values}
}

func (r *Recorder) record(ctx context.Context, recording *recording,
	handle func(context.Context) (code int, status *metav1.Status)) {
	ctx = withRecording(ctx, recording)
	var code int // stays 0 if handle panics
	var status *metav1.Status
	defer func() { r.finish(ctx, recording, code, status) }()
	code, status = handle(ctx)
}

// Decide records a request while handle handles it, as Record does, and returns the decision, which no
// store keeps. The chain that handle calls must have a Recorder among its observers.
func Decide(ctx context.Context, info *request.RequestInfo, userAgent string, values Values,
	handle func(context.Context) (code int, status *metav1.Status)) *v1alpha1.Decision {
	recording := &recording{start: time.Now(), info: info, userAgent: userAgent, values: values, apart: true}
	ctx = withRecording(ctx, recording)
	code, status := handle(ctx)
	attempt, _ := recording.end(code)
	return newRecord(ctx, recording, attempt, code, status).made()
}

// connects holds the subresources to which a client may connect with any verb.
var connects = map[string]bool{"exec": true, "attach": true, "portforward": true, "proxy": true}

// MaySeeChain reports whether a request may reach the chain.
func MaySeeChain(info *request.RequestInfo) bool {
	switch info.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return info.IsResourceRequest
	}
	return info.IsResourceRequest && connects[info.Subresource]
}

// finish makes a decision of the recording, once. code is 0 if there was no answer.
func (r *Recorder) finish(ctx context.Context, recording *recording, code int, status *metav1.Status) {
	attempt, over := recording.end(code)
	if over || attempt == nil && code != 0 && code < http.StatusBadRequest {
		return
	}
	record := newRecord(ctx, recording, attempt, code, status)
	if isAudited(ctx) { // the event is written when this handler returns
		if by := record.decision.By; by != "" {
			audit.AddAuditAnnotation(ctx, "admission.gatehouse.dev/refused-by", by)
		}
		if by := record.changedBy(); len(by) > 0 {
			audit.AddAuditAnnotation(ctx, "admission.gatehouse.dev/changed-by", strings.Join(by, ","))
		}
	}
	r.keep(record)
}

// keep stores a record, and shows the observers its decision.
func (r *Recorder) keep(record *record) {
	decisionsTotal[record.decision.Verdict].Inc()
	record.complete()
	r.store.add(record)
	if len(r.observers) == 0 {
		return
	}
	d := record.made()
	for _, observe := range r.observers {
		observe(d)
	}
}

// isAudited reports whether the request has an event in the audit log.
func isAudited(ctx context.Context) bool {
	event := audit.AuditContextFrom(ctx)
	if event == nil {
		return false
	}
	level := event.GetEventLevel() // empty without a policy
	return level != "" && level != auditinternal.LevelNone
}

// newRecord returns the record of a request that is over. a is nil if the chain wasn't called.
func newRecord(ctx context.Context, recording *recording, a *attempt, code int, status *metav1.Status) *record {
	info := recording.info
	r := &record{values: recording.values, clientsID: recording.clientsID, decision: v1alpha1.Decision{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "Decision"},
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(recording.start.Truncate(time.Second))},
		Time:       metav1.NewMicroTime(recording.start.Truncate(time.Microsecond)),
		Duration:   metav1.Duration{Duration: time.Since(recording.start)},
		Verdict:    v1alpha1.Verdict(plugin.VerdictOfCode(int32(code))),
		Code:       int32(code),
	}}
	d := &r.decision
	if a != nil {
		d.Request = a.request
		r.steps, r.changes, d.OmittedSteps = a.steps, a.changes, int32(a.dropped)
		if d.Verdict != v1alpha1.Admitted {
			d.By = a.by
		}
	} else {
		d.Request = v1alpha1.Request{Operation: operationOf[info.Verb], Group: info.APIGroup, Version: info.APIVersion,
			Resource: info.Resource, Subresource: info.Subresource, Namespace: info.Namespace, Name: info.Name}
	}
	if status == nil && a != nil && a.err != nil && d.Verdict != v1alpha1.Admitted {
		// It was too large to be kept until here.
		status = &metav1.Status{Reason: apierrors.ReasonForError(a.err), Message: a.err.Error()}
	}
	if status != nil {
		d.Reason, d.Message = status.Reason, r.secrets().ofStatus(status, d.By, &d.Request)
		for i := range r.steps {
			s := &r.steps[i]
			if text := s.message(); s.plugin == d.By && (text == ofSecretParams || text == ofSecretObject) {
				d.Message = text
			}
		}
		if d.Request.Name == "" && status.Details != nil {
			d.Request.Name = status.Details.Name
		}
	}
	if user, ok := request.UserFrom(ctx); ok {
		d.Request.User = v1alpha1.User{Username: user.GetName(), Groups: user.GetGroups()}
	}
	if real := requesterOf(ctx); real != nil {
		d.Request.ImpersonatedBy = &v1alpha1.User{Username: real.GetName(), Groups: real.GetGroups()}
	}
	d.Request.UserAgent = recording.userAgent
	if d.Request.Group == "" && d.Request.Resource == "namespaces" {
		d.Request.Namespace = "" // the library sets it to the object's own name
	}
	cutRequest(&d.Request)
	d.Reason = metav1.StatusReason(cutAt(string(d.Reason), maxName))
	if d.Namespace = d.Request.Namespace; d.Namespace == "" || strings.HasSuffix(d.Namespace, "…") {
		d.Namespace = metav1.NamespaceDefault
	}
	r.setName(audit.GetAuditIDTruncated(ctx))
	return r
}

// operationOf maps verbs to the chain's names of operations.
var operationOf = map[string]string{"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE",
	"deletecollection": "DELETE"}

// setName makes the audit ID the decision's name. A client may have sent any text as audit ID.
func (r *record) setName(auditID string) {
	r.decision.Name, r.decision.UID = auditID, types.UID(auditID)
	if !isLabel(auditID) && len(validation.IsDNS1123Subdomain(auditID)) > 0 {
		r.rename()
	}
}

// rename gives the decision a new name. An annotation keeps the audit ID.
func (r *record) rename() {
	d := &r.decision
	if d.Annotations == nil {
		d.Annotations = map[string]string{v1alpha1.AuditIDAnnotation: d.Name}
	}
	d.Name = newName()
	d.UID = types.UID(d.Name)
}

// isLabel reports whether a text is a DNS label, and so a valid name. The server's own audit IDs
// are labels. The library's regular expression would take longer than all other checks of a
// request.
func isLabel(text string) bool {
	for i := range len(text) {
		c, inside := text[i], i > 0 && i < len(text)-1
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && (c != '-' || !inside) {
			return false
		}
	}
	return text != "" && len(text) <= validation.DNS1123LabelMaxLength
}
