// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/count"
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

var namespaceKind = schema.GroupKind{Kind: "Namespace"}

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
	// isWhole reports whether the state is that of a cluster as a whole, and not of files with a part of it.
	isWhole bool
	// givesAccounts reports whether the plugin ServiceAccount runs, which gives every new pod an account.
	givesAccounts bool
	// types finds what is misspelt in policies. defined has the custom kinds that it knows.
	types   *kindtypes.Types
	defined *definedKinds
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
	options.As = withCredential(options.As)
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
	selected, err := options.Config.SelectPlugins()
	if err != nil {
		return nil, err
	}
	cluster, err := startCluster(ctx, options.Config)
	if err != nil {
		return nil, err
	}
	defined := &definedKinds{}
	r := &Reviewer{options: options, cluster: cluster, manifests: map[key]*unstructured.Unstructured{},
		givesAccounts: slices.ContainsFunc(selected, func(d plugin.Descriptor) bool { return d.Name == "ServiceAccount" }),
		namespaces:    map[string]bool{}, types: kindtypes.New(defined, cluster.mapper), defined: defined}
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
	if with.options.As, with.options.Operation = admin, operation; as != nil {
		with.options.As = withCredential(as)
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

// Plugins returns the plugins that the server runs, in order.
func (r *Reviewer) Plugins() []plugin.Descriptor { return r.cluster.server.Plugins() }

// Review judges documents. An object that can't be judged gets a Failed result. With IgnoreUnknown an
// object of an unknown kind is left out, with a note. If the context ends, the last result is Failed and says how
// many objects were not judged.
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
	documents, notes, err := r.order(ctx, documents)
	if err != nil {
		return nil, err
	}
	review := &Review{APIVersion: APIVersion, Kind: Kind, Notes: slices.Concat(r.notes, r.gapNotes(), notes),
		Results: []Result{}}
	type leftOut struct {
		*Result
		unknown unknownKindError
	}
	var left []leftOut
	for i, d := range documents {
		if progress != nil {
			progress(i, len(documents))
		}
		result, err := r.judge(ctx, d, review)
		var unknown unknownKindError
		if errors.As(err, &unknown) && unknown.isForeign && r.leavesOut(d.Object) {
			left = append(left, leftOut{result, unknown})
			continue
		}
		if ctx.Err() != nil {
			review.Fail(fmt.Errorf("interrupted: %d of %s were not judged", len(documents)-i, count.Of(len(documents), "object")))
			return review, nil
		}
		var unserved unservedKindError
		switch {
		case errors.As(err, &unserved):
			result.Verdict, result.Message = v1alpha1.Refused, err.Error()
		case err != nil:
			result.Verdict, result.Message, result.NotServed = v1alpha1.Failed, err.Error(), errors.As(err, &unknown)
		}
		r.failIfUnknown(result)
		result.findCauses()
		review.Results = append(review.Results, *result)
	}
	for _, l := range left {
		review.Notes = append(review.Notes, fmt.Sprintf("%s: left out: %s", l.Source, l.unknown.short()))
		if len(left) == len(documents) { // nothing is judged, and that is no success
			l.Verdict, l.Message, l.NotServed = v1alpha1.Failed, l.unknown.short()+", and nothing else is there to judge", true
			review.Results = append(review.Results, *l.Result)
		}
	}
	strangers, err := r.unmatchedWebhooks(ctx)
	if err != nil {
		return nil, err
	}
	review.Notes = append(review.Notes, strangers...)
	warnings, err := r.PolicyWarnings(ctx, slices.Concat(documents, r.options.State))
	if err != nil {
		return nil, err
	}
	review.Notes = append(review.Notes, warnings...)
	review.Notes = append(review.Notes, waitNotes(documents, review.Results)...)
	idle, err := r.findIdle(ctx, documents)
	if err != nil {
		return nil, err
	}
	review.Notes = append(review.Notes, idle.notes...)
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
		if c.before == nil && c.resource.GroupVersionKind.GroupKind() == namespaceKind {
			r.cluster.refusedNamespaces[object.GetName()] = d.Source
		}
		if at, ok := r.cluster.refusedNamespaces[c.namespace]; ok && a.code == http.StatusNotFound {
			result.RefusedNamespace = fmt.Sprintf("its Namespace at %s was refused", at)
		}
		if result.Message = a.message(); notTyped.MatchString(result.Message) {
			result.Verdict = v1alpha1.Refused
		}
		r.noteFields(result, c, a.code)
		nameField(result, a.code)
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
	review.Notes = append(review.Notes, lostBundleNotes(d.Source, d.Object, c.before, a.object)...)
	if c.query.Get("fieldValidation") == metav1.FieldValidationStrict { // else the field is dropped anyway
		result.NotStored = droppedFields(result.Sent, result.Stored)
	}
	if len(result.NotStored) > 0 {
		review.Notes = append(review.Notes, result.NotStoredNote())
	}
	if c.before == nil && object.GroupVersionKind().GroupKind() == namespaceKind {
		r.namespaces[object.GetName()] = true
	}
	if r.ofCluster && !r.namespaces[c.namespace] {
		review.Notes = append(review.Notes, uncountedNotes(c.before, a.object)...)
	}
	if err := r.settle(ctx, a.object); err != nil {
		return result, err
	}
	if _, ok := input.Defines(a.object); ok {
		if definition, ok := r.cluster.unserved[a.object.GetName()]; ok {
			result.Verdict, result.Message = v1alpha1.Refused, "it is stored, but "+definition.why
			return result, nil
		}
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

// objectOf names an object.
func objectOf(o *unstructured.Unstructured) Object {
	name := o.GetName()
	if name == "" {
		name = o.GetGenerateName()
	}
	return Object{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: name}
}
