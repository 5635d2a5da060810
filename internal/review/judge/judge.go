// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/apiserver"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/quota"
)

// A Server has the chain that judges. It is a server.Server that is ready.
type Server interface {
	Admission() apiserver.Admission
	Writes(ctx context.Context, resource schema.GroupVersionResource, subresource string) (*apiserver.Writes, error)
}

// Options holds the options of a Judge.
type Options struct {
	// Timeout bounds the time that a request may take; 0 is DefaultTimeout.
	Timeout time.Duration
	// Values says which values the decisions show. Empty is decision.ValuesHidden.
	Values decision.Values
}

// DefaultTimeout is the time that a server gives a request.
const DefaultTimeout = 34 * time.Second

// A Judge judges requests by the chain of a server. It is safe for concurrent use.
type Judge struct {
	server  Server
	options Options
	lookups *lookups
	// quotas decides in place of the storage; nil if the server's chain has no quotas.
	quotas func(*quota.Enforcement) error
}

// lookups holds how resources are served, as far as they were asked for.
type lookups struct {
	mu     sync.Mutex
	served map[served]*lookup
}

// served is a resource or a subresource.
type served struct {
	resource    schema.GroupVersionResource
	subresource string
}

// A lookup finds the Writes of a resource once.
type lookup struct {
	once   sync.Once
	writes *apiserver.Writes
	err    error
}

// maxLookups bounds the resources that are held, of requests about any number that aren't served.
const maxLookups = 1000

// New returns a judge by the chain of a server. The server must record decisions. If a plugin of it leaves
// decisions to the storage, as the one of quotas does, requests must be judged WithQuotas. Its kinds must
// not change any more.
func New(server Server, options Options) *Judge {
	if options.Timeout == 0 {
		options.Timeout = DefaultTimeout
	}
	return &Judge{server: server, options: options, lookups: &lookups{served: map[served]*lookup{}}}
}

// WithQuotas returns a judge by the same server in which decide takes the place of the storage, which
// decides by quotas. It is called last, for each write that moves the usage of quotas, also if it is a dry
// run. It must report its decision. An error refuses the write, unless it is one of Unjudged.
func (j *Judge) WithQuotas(decide func(*quota.Enforcement) error) *Judge {
	with := *j
	with.quotas = decide
	return &with
}

// WithTimeout returns a judge by the same server with another timeout.
func (j *Judge) WithTimeout(timeout time.Duration) *Judge {
	with := *j
	with.options.Timeout = timeout
	return &with
}

// A Verdict is the answer to a request that was judged.
type Verdict struct {
	// Decision is what a server would have recorded. Its verdict is Failed if Err is set.
	Decision *v1alpha1.Decision
	// Warnings are the warnings that the client would have got, each once.
	Warnings []string
	// Err is why the request could not be judged; nil if it was. Unjudged is its kind, a stable word such as
	// NotServed.
	Err      error
	Unjudged string
}

// The kinds of reasons why a request can't be judged.
const (
	// NotServed means that the server that judges doesn't serve the resource.
	NotServed = "not-served"
	// Undecodable means that the server can't read the request, or that a part of it is missing.
	Undecodable = "undecodable"
	// JudgingFailed means that judging took too long or panicked.
	JudgingFailed = "judging-failed"
)

// Judge judges a request. It doesn't write to the storage of the server.
func (j *Judge) Judge(ctx context.Context, r *Request) *Verdict {
	v := &Verdict{}
	warnings := &warnings{}
	ctx, cancel := context.WithTimeout(ctx, j.options.Timeout)
	defer cancel()
	ctx = audit.WithAuditContext(ctx)
	audit.WithAuditID(ctx, types.UID(r.AuditID))
	info := &request.RequestInfo{IsResourceRequest: true, Verb: verbs[r.Operation], APIGroup: r.Resource.Group,
		APIVersion: r.Resource.Version, Resource: r.Resource.Resource, Subresource: r.Subresource, Namespace: r.Namespace,
		Name: r.Name}
	ctx = request.WithRequestInfo(warning.WithWarningRecorder(ctx, warnings), info)
	if r.User != nil {
		ctx = request.WithUser(ctx, r.User)
	}
	v.Decision = decision.Decide(ctx, info, r.UserAgent, j.options.Values,
		func(ctx context.Context) (int, *metav1.Status) {
			err := within(ctx, func() error { return j.handle(ctx, r) })
			if unjudged := (unjudgedError{}); errors.As(err, &unjudged) {
				v.Err, v.Unjudged = unjudged, unjudged.kind
			}
			if err != nil {
				status := responsewriters.ErrorToAPIStatus(err)
				return int(status.Code), status
			}
			return codes[r.Operation], nil
		})
	v.Warnings = warnings.take()
	return v
}

// verbs are the verbs of operations, codes the codes with which a server answers them.
var (
	verbs = map[admission.Operation]string{admission.Create: "create", admission.Update: "update",
		admission.Delete: "delete", admission.Connect: "create"}
	codes = map[admission.Operation]int{admission.Create: http.StatusCreated, admission.Update: http.StatusOK,
		admission.Delete: http.StatusOK, admission.Connect: http.StatusOK}
)

// handle judges a request, and returns the error with which a server would answer it.
func (j *Judge) handle(ctx context.Context, r *Request) error {
	writes, err := j.writes(ctx, served{r.Resource, r.Subresource})
	if err != nil {
		return unjudged(NotServed, http.StatusInternalServerError, fmt.Sprintf("the request can't be judged: %v", err))
	}
	a, err := decode(r, writes)
	if err != nil {
		return unjudged(Undecodable, http.StatusInternalServerError, fmt.Sprintf("the request can't be judged: %v", err))
	}
	if j.quotas == nil {
		return a.admit(ctx, j.server.Admission())
	}
	ctx = quota.WithDecider(ctx)
	if err := a.admit(ctx, j.server.Admission()); err != nil {
		return err
	}
	e := quota.TakeEnforcement(ctx, quota.StoredAs(r.Resource.GroupResource()), a.namespace, a.name)
	if e == nil || ctx.Err() != nil { // after its time nobody waits for the answer
		return ctx.Err()
	}
	return j.quotas(e)
}

// writes returns the Writes of a resource. It asks the server once.
func (j *Judge) writes(ctx context.Context, of served) (*apiserver.Writes, error) {
	j.lookups.mu.Lock()
	l := j.lookups.served[of]
	if l == nil {
		if len(j.lookups.served) >= maxLookups {
			clear(j.lookups.served)
		}
		l = &lookup{}
		j.lookups.served[of] = l
	}
	j.lookups.mu.Unlock()
	// Other requests use the result, so it must not depend on how long this one may take.
	l.once.Do(func() { l.writes, l.err = j.server.Writes(context.WithoutCancel(ctx), of.resource, of.subresource) })
	return l.writes, l.err
}

// admit passes a request through both phases, with what a server does between them. It returns the error
// with which a server would answer the request.
func (a *attempt) admit(ctx context.Context, chain apiserver.Admission) error {
	ctx = request.WithNamespace(ctx, a.namespace)
	attributes := a.attributes()
	if err := chain.Admit(ctx, attributes, a.writes.Interfaces); err != nil {
		return err
	}
	var err error
	switch a.Operation {
	case admission.Create:
		err = a.writes.PrepareCreate(ctx, a.object)
		if accessor, failed := meta.Accessor(a.object); failed == nil && a.name == "" {
			a.name = accessor.GetName()
		}
		attributes = a.attributes()
	case admission.Update:
		err = a.writes.PrepareUpdate(ctx, a.object, a.old)
		attributes = a.attributes()
	}
	if err != nil {
		return err
	}
	return chain.Validate(ctx, attributes, a.writes.Interfaces)
}

// An unjudgedError says why a request could not be judged.
type unjudgedError struct {
	*apierrors.StatusError
	kind string
}

// Unjudged returns an error with which the function of WithQuotas says that a request can't be judged.
func Unjudged(kind, why string) error {
	return unjudged(kind, http.StatusInternalServerError, "the request can't be judged: "+why)
}

func unjudged(kind string, code int32, message string) error {
	return unjudgedError{kind: kind, StatusError: &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code,
		Message: message}}}
}

// within calls a function that is to return before the context ends. If it doesn't, or panics, within
// returns an unjudgedError. A result that comes later is dropped.
func within(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				klog.ErrorS(nil, "Judging a request panicked", "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
				done <- unjudged(JudgingFailed, http.StatusInternalServerError, fmt.Sprintf("judging the request panicked: %v", cause))
			}
		}()
		done <- call()
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return unjudged(JudgingFailed, http.StatusGatewayTimeout, fmt.Sprintf("judging the request took too long: %v", ctx.Err()))
	}
}

// warnings collects the warnings of a request.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

// AddWarning implements warning.Recorder.
func (w *warnings) AddWarning(_, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.texts, text) {
		w.texts = append(w.texts, text)
	}
}

// take returns the warnings. Later ones are dropped.
func (w *warnings) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.texts)
}
