// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"

	"gatehouse.dev/internal/decision"
	"gatehouse.dev/plugin"
)

// A Recorder records the writes of a server. It is an Observer of the chain, which shows the objects
// and the verdict, and a filter around the request, which sees the answer.
type Recorder struct{ log *Log }

// NewRecorder returns a recorder that writes to the log.
func NewRecorder(log *Log) *Recorder { return &Recorder{log} }

var _ plugin.Observer = &Recorder{}

type recordingKey struct{}

func recordingOf(ctx context.Context) *recording {
	r, _ := ctx.Value(recordingKey{}).(*recording)
	return r
}

// Filter records the requests that next handles. It belongs behind authorization.
func (r *Recorder) Filter(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := req.Context()
		info, ok := request.RequestInfoFrom(ctx)
		if !ok || !decision.MaySeeChain(info) {
			next.ServeHTTP(w, req)
			return
		}
		received, ok := request.ReceivedTimestampFrom(ctx)
		if !ok {
			received = time.Now()
		}
		recording := &recording{log: r.log, id: types.UID(audit.GetAuditIDTruncated(ctx)),
			received: metav1.NewMicroTime(received), verb: info.Verb, userAgent: req.UserAgent()}
		code := 0 // if next panics
		defer func() { recording.finish(code) }()
		code, _ = decision.Serve(next, w, req.WithContext(context.WithValue(ctx, recordingKey{}, recording)))
	})
}

// Wants asks for objects, and for calls because of the secrets in their messages.
func (r *Recorder) Wants() plugin.Wants { return plugin.Wants{Objects: true, Calls: true} }

// PhaseBegins keeps the objects as the mutating phase begins with them.
func (r *Recorder) PhaseBegins(ctx context.Context, phase plugin.PhaseStep) context.Context {
	if recording := recordingOf(ctx); recording != nil && phase.Shown != nil {
		recording.begin(phase.Shown)
	}
	return ctx
}

// StepBegins returns ctx.
func (r *Recorder) StepBegins(ctx context.Context, _ plugin.Step) context.Context { return ctx }

// StepDone keeps why a plugin refused. If the plugin left its decision to the storage, the result
// comes when the storage reports it.
func (r *Recorder) StepDone(ctx context.Context, step plugin.Step) {
	if step.Err == nil && step.Enforcement == nil {
		return
	}
	recording := recordingOf(ctx)
	if recording == nil {
		return
	}
	if step.Err != nil {
		recording.decide(step.Attributes, step.Err, step.Calls)
		return
	}
	attributes := step.Attributes
	step.Enforcement.Then(func(err error, calls []plugin.Call) { recording.decide(attributes, err, calls) })
}

// PhaseDone records what needs no answer: an admitted connection, which may stay open for hours, and
// each object of a collection's deletion.
func (r *Recorder) PhaseDone(ctx context.Context, phase plugin.PhaseStep) {
	recording := recordingOf(ctx)
	if recording == nil {
		return
	}
	if phase.Err != nil {
		recording.fail(phase.Attributes, phase.Err)
	}
	switch isOver := phase.Err != nil || phase.Phase == plugin.Validating; {
	case isOver && recording.isCollection():
		recording.finishItem(phase.Attributes)
	case isOver && phase.Err == nil && phase.Attributes.GetOperation() == admission.Connect:
		recording.finish(http.StatusOK)
	}
}
