// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/kindtypes"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/plugin"
	"gatehouse.dev/server"
)

// Options holds the options of a Reviewer.
type Options struct {
	// Config is the configuration of the server, as the flags of serve set it: its plugins, their
	// configuration, feature gates. The reviewer sets the directory, the port and the controllers.
	Config *server.Config
	// State holds the objects that exist from the start. They are stored without admission. It may
	// have snapshots of clusters, see Snapshot.
	State []input.Document
	// Live is a running cluster whose state is read for each Review, besides State; nil for none.
	Live *live.Cluster
	// Namespace is the namespace of objects that name none; empty for default.
	Namespace string
	// As is the user who writes the objects; nil for an administrator.
	As user.Info
	// Authorize refuses objects that the user has no right to write.
	Authorize bool
	// Operation is the operation for all objects. If it is empty, existing objects are updated, as
	// `kubectl apply` does, and others are created.
	Operation Operation
	// Pods follows workloads to their pods.
	Pods bool
	// Webhooks chooses how webhooks are treated: skipped, asked as for a dry run, or taken to be
	// down. They are never called as a cluster calls them.
	Webhooks plugin.WebhookCalls
	// LocalWebhooks are URLs at which webhooks are asked, as for a dry run, whatever Webhooks is. An empty one stands
	// for a webhook that is taken to be down; see plugin.Env.
	LocalWebhooks map[string]string
	// FieldValidation chooses how fields are treated that an object's kind doesn't have. It is one of
	// the values of Validations. Empty means Strict, which refuses them.
	FieldValidation string
	// AllowIncomplete accepts verdicts although something that bears on them isn't known of the
	// cluster. Notes name it. Otherwise such verdicts are Failed.
	AllowIncomplete bool
	// IgnoreUnknown leaves out objects of kinds that are not served.
	IgnoreUnknown bool
}

// Operation is an operation on an object.
type Operation string

// The operations.
const (
	Create  Operation = "create"
	Update  Operation = "update"
	Apply   Operation = "apply"
	Delete  Operation = "delete"
	Connect Operation = "connect"
)

// Operations are all operations.
var Operations = []Operation{Create, Update, Apply, Delete, Connect}

// A Reviewer judges objects one after the other. Later objects see the admitted ones.
type Reviewer struct {
	options Options
	cluster *cluster
	// notes are the notes about the state, gaps its unknown parts.
	notes []string
	gaps  []live.Gap
	// ofCluster reports whether the state was read from a cluster, now or for a snapshot. namespaces
	// are namespaces that the cluster doesn't have: they, and all objects in them, were created here.
	ofCluster  bool
	namespaces map[string]bool
	// types finds what is misspelt in policies.
	types *kindtypes.Types
	// subresource is the subresource that objects are sent to; empty for none.
	subresource string
	// notAsked are the webhooks that weren't asked about the objects made for the present workload.
	notAsked []string
	// manifests are the manifests that the state's objects were made from.
	manifests map[key]*unstructured.Unstructured
	// probe, if not nil, judges what controllers make, in place of storing it; see Trial.Audit.
	probe probe
}

// Start starts a server in the process, and stores the state. The caller must Close the Reviewer.
func Start(ctx context.Context, options Options) (*Reviewer, error) {
	if options.As == nil {
		options.As = admin
	}
	if options.Config.Webhooks = options.Webhooks; options.Webhooks == plugin.WebhooksCalled {
		options.Config.Webhooks = plugin.WebhooksSkipped
	}
	options.Config.LocalWebhooks = options.LocalWebhooks
	switch options.Config.Webhooks {
	case plugin.WebhooksSkipped:
		options.Config.API.NoConversion = errNoConversion
	case plugin.WebhooksDown:
		options.Config.API.NoConversion = plugin.ErrBackendDown
	}
	if err := options.takeServiceRanges(ctx); err != nil {
		return nil, err
	}
	cluster, err := startCluster(ctx, options.Config)
	if err != nil {
		return nil, err
	}
	r := &Reviewer{options: options, cluster: cluster, manifests: map[key]*unstructured.Unstructured{},
		namespaces: map[string]bool{}, types: kindtypes.NewForServer(cluster.discovery, cluster.mapper)}
	if note := EmulationNote(); note != "" {
		r.notes = append(r.notes, note)
	}
	if err := r.loadState(ctx); err != nil {
		return nil, errors.Join(err, cluster.stop())
	}
	return r, nil
}

// With returns a reviewer on the same server for objects that another user writes, or that are
// written by another operation. A nil user is an administrator. Only one of the reviewers may be
// used at a time.
func (r *Reviewer) With(as user.Info, operation Operation) *Reviewer {
	with := *r
	if with.options.As, with.options.Operation = as, operation; as == nil {
		with.options.As = admin
	}
	return &with
}

// takeServiceRanges configures the server with the service IP ranges of the cluster whose state it
// gets.
func (o *Options) takeServiceRanges(ctx context.Context) error {
	var ranges string
	for _, d := range o.State {
		ranges = cmp.Or(live.ServiceRanges([]*unstructured.Unstructured{d.Object}), ranges)
	}
	if o.Live != nil {
		read, err := o.Live.Read(ctx, live.Want{})
		if err != nil {
			return err
		}
		ranges = cmp.Or(live.ServiceRanges(read.Objects), ranges)
	}
	o.Config.API.ServiceClusterIPRanges = cmp.Or(ranges, o.Config.API.ServiceClusterIPRanges)
	return nil
}

// namespace returns the namespace of objects that name none.
func (r *Reviewer) namespace() string { return cmp.Or(r.options.Namespace, "default") }

// namespaceOf returns the namespace of a namespaced object.
func (r *Reviewer) namespaceOf(o *unstructured.Unstructured) string {
	return cmp.Or(o.GetNamespace(), r.namespace())
}

// scopedNamespace returns the namespace of an object, or "" if its kind is not namespaced. Kinds that
// aren't served yet are taken to be namespaced.
func (r *Reviewer) scopedNamespace(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		if mapping, err := r.cluster.findKind(o); err == nil && mapping.Scope.Name() == meta.RESTScopeNameRoot {
			return ""
		}
	}
	return r.namespaceOf(o)
}

// Close ends the server.
func (r *Reviewer) Close() error { return r.cluster.stop() }

// Review judges documents. An object that can't be judged gets a Failed result. With IgnoreUnknown an
// object of an unknown kind is left out, with a note.
func (r *Reviewer) Review(ctx context.Context, documents []input.Document, progress func(done, all int)) (*Review,
	error) {
	if r.options.Live != nil {
		state, err := r.readLive(ctx, documents)
		if err != nil {
			return nil, err
		}
		if err := r.loadCluster(ctx, state); err != nil {
			return nil, err
		}
	}
	documents, notes := input.Ordered(documents, r.scopedNamespace)
	review := &Review{APIVersion: APIVersion, Kind: Kind, Notes: slices.Concat(r.notes, r.gapNotes(), notes),
		Results: []Result{}}
	for i, d := range documents {
		if progress != nil {
			progress(i, len(documents))
		}
		result, err := r.judge(ctx, d, review)
		var unknown unknownKindError
		if errors.As(err, &unknown) && r.leavesOut(d.Object) {
			review.Notes = append(review.Notes, fmt.Sprintf("%s: left out: %s", d.Source, unknown.short()))
			continue
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			result.Verdict, result.Message, result.NotServed = v1alpha1.Failed, err.Error(), errors.As(err, &unknown)
		}
		r.failIfUnknown(result)
		review.Results = append(review.Results, *result)
	}
	strangers, err := r.unmatchedWebhooks(ctx)
	if err != nil {
		return nil, err
	}
	review.Notes = append(review.Notes, strangers...)
	review.Notes = append(review.Notes, r.PolicyWarnings(slices.Concat(documents, r.options.State))...)
	review.summarize()
	return review, nil
}

// judge writes one object and returns the result. It adds notes to the review.
func (r *Reviewer) judge(ctx context.Context, d input.Document, review *Review) (*Result, error) {
	object := d.Object.DeepCopy()
	result := &Result{Source: d.Source, Object: objectOf(object), Sent: d.Object}
	c, err := r.callOf(ctx, d, object, result)
	if err != nil {
		return result, err
	}
	result.Object.Namespace = c.namespace
	// Roles come many in a row, and an administrator has all rights.
	if c.resource.GroupVersionKind.GroupKind() != clusterRoleKind.GroupKind() || c.as != user.Info(admin) {
		if err := r.aggregateRoles(ctx); err != nil {
			return result, err
		}
	}
	if err := r.awaitParamKind(ctx, object); err != nil {
		return result, err
	}
	a, err := r.cluster.do(ctx, *c)
	if err != nil {
		return result, err
	}
	result.Warnings, result.Decision = a.warnings, a.decision
	if early := notYetDeprecated(c.resource.GroupVersionKind); early != "" {
		result.Warnings = slices.DeleteFunc(result.Warnings, func(w string) bool { return w == early })
	}
	result.Verdict = v1alpha1.Verdict(plugin.VerdictOfCode(int32(a.code)))
	if result.Decision != nil {
		// The code of an admitted connection is that of the connection, which fails: there is no node.
		result.Verdict = result.Decision.Verdict
	}
	if d := a.decision; result.Verdict == v1alpha1.Failed && d != nil && r.refusesAsDown(d) {
		result.Verdict = v1alpha1.Refused // by the webhook's failurePolicy
	}
	if result.Verdict != v1alpha1.Admitted {
		if kind, ok := input.Defines(object); ok {
			r.cluster.refused[kind] = d.Source
		}
		result.Message = a.message()
		r.noteUnknownFields(result, c, a.code)
		return result, nil
	}
	if r.options.Operation == "" && !input.IsRequest(d.Object) {
		review.Notes = append(review.Notes, applyNotes(d.Source, object)...)
	}
	switch {
	case c.dryRun:
		return result, nil
	case c.verb == http.MethodDelete:
		return result, r.settleDeleted(ctx, c)
	case c.subresource != "":
		if a.object != nil && a.object.GroupVersionKind() == object.GroupVersionKind() {
			result.Stored = a.object
		}
		return result, nil
	}
	result.Stored = a.object
	if c.query.Get("fieldValidation") == metav1.FieldValidationStrict { // else the field is dropped anyway
		result.NotStored = droppedFields(result.Sent, result.Stored)
	}
	if len(result.NotStored) > 0 {
		review.Notes = append(review.Notes, result.NotStoredNote())
	}
	if c.before == nil && object.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		r.namespaces[object.GetName()] = true
	}
	if r.ofCluster && !r.namespaces[c.namespace] {
		review.Notes = append(review.Notes, uncountedNotes(c.before, a.object)...)
	}
	if err := r.settle(ctx, a.object); err != nil {
		return result, err
	}
	result.Pods, err = r.follow(ctx, a.object, c.before)
	return result, err
}

// Fail adds a Failed result to the review for each error of reading the input.
func (r *Review) Fail(errs ...error) {
	for _, err := range errs {
		result := Result{Verdict: v1alpha1.Failed, Message: err.Error()}
		if of := (*input.Error)(nil); errors.As(err, &of) {
			result.Source, result.Message = of.Source, of.Err.Error()
			if of.Object != nil {
				result.Object, result.Sent = objectOf(of.Object), of.Object
			}
		}
		r.Results = append(r.Results, result)
	}
	r.summarize()
}

// callOf returns the call that judges a document: the request that it describes, or the write of its
// object.
func (r *Reviewer) callOf(ctx context.Context, d input.Document, object *unstructured.Unstructured, result *Result) (
	*call, error) {
	request, err := requestOf(d)
	if err != nil {
		return nil, err
	}
	switch {
	case request == nil && r.subresource != "":
		return r.callSubresource(ctx, object)
	case request == nil:
		return r.call(ctx, object)
	case r.subresource != "":
		return nil, errSubresourceOfRequest
	}
	c, object, err := r.replay(ctx, request)
	if err == nil {
		result.Object, result.Sent = objectOf(object), object
	}
	return c, err
}

// call returns the call that writes an object.
func (r *Reviewer) call(ctx context.Context, object *unstructured.Unstructured) (*call, error) {
	mapping, err := r.cluster.findKind(object)
	if err != nil {
		return nil, err
	}
	c := &call{resource: *mapping, as: r.options.As, authorize: r.options.Authorize, body: object,
		query: url.Values{"fieldValidation": {cmp.Or(r.options.FieldValidation, metav1.FieldValidationStrict)}}}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		c.namespace = r.namespaceOf(object)
	}
	operation := r.options.Operation
	if operation == "" || operation == Update || operation == Apply {
		stored, err := r.getStored(ctx, mapping, c.namespace, object.GetName())
		if err != nil {
			return nil, err
		}
		c.before = stored
		switch {
		case stored != nil && operation == "":
			c.verb, c.name, c.body = http.MethodPatch, object.GetName(), nil
			return c, c.update(object, stored, r.manifests[r.keyOf(object)])
		case stored != nil && operation == Update:
			object.SetResourceVersion(stored.GetResourceVersion())
			object.SetUID(stored.GetUID())
		case operation == "":
			operation = Create
		}
	}
	switch operation {
	case Create:
		c.verb = http.MethodPost
		object.SetResourceVersion("")
	case Update:
		c.verb, c.name = http.MethodPut, object.GetName()
	case Apply:
		c.name = object.GetName()
		c.apply()
	case Delete:
		c.verb, c.name, c.body, c.query = http.MethodDelete, object.GetName(), nil, nil
	case Connect:
		if mapping.Resource.Resource != "pods" {
			return nil, fmt.Errorf("connect is for pods, not for %s", mapping.Resource.Resource)
		}
		c.verb, c.name, c.subresource, c.body = http.MethodPost, object.GetName(), "exec", nil
		c.query = url.Values{"command": {"sh"}, "stdin": {"true"}, "stdout": {"true"}, "tty": {"true"}}
	default:
		return nil, fmt.Errorf("operation %q: it is one of %s", operation, strings.Trim(fmt.Sprint(Operations), "[]"))
	}
	return c, nil
}

// getStored returns a stored object, or nil if there is none.
func (r *Reviewer) getStored(ctx context.Context, mapping *meta.RESTMapping, namespace, name string) (
	*unstructured.Unstructured, error) {
	if name == "" {
		return nil, nil
	}
	a, err := r.cluster.do(ctx, call{verb: http.MethodGet, resource: *mapping, namespace: namespace, name: name,
		as: admin})
	switch {
	case err != nil:
		return nil, err
	case a.ok():
		return a.object, nil
	case a.code == http.StatusNotFound || a.code == http.StatusMethodNotAllowed:
		return nil, nil
	}
	return nil, errors.New(a.message())
}

// objectOf names an object.
func objectOf(o *unstructured.Unstructured) Object {
	name := o.GetName()
	if name == "" {
		name = o.GetGenerateName()
	}
	return Object{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: name}
}
