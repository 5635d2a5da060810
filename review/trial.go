// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/judge"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/plugin"
	"gatehouse.dev/server"
)

// A Trial finds what a candidate would change for requests, by a server that has the candidate and one that
// hasn't. It stores nothing, and may be used concurrently.
type Trial struct {
	judge.Trial
	candidate *Judge
	before    *Judge // nil if there is none
	options   TrialOptions
	// given is the state of the options, with what the servers don't get of it.
	given []input.Document
	notes []string
	// namespaceLabels is true if the candidate depends on labels of namespaces. ownWebhooks are the names of
	// its webhook configurations.
	namespaceLabels bool
	ownWebhooks     map[string]bool
	// deciders are the policies, bindings and webhook configurations of both sides.
	deciders []*unstructured.Unstructured
	// assumed are the namespaces of the options' PodSecurity that the state doesn't have.
	assumed []string
}

// TrialOptions are the options of a Trial.
type TrialOptions struct {
	// Options are those of the server with the candidate. Its State and the cluster that Live is, of which everything is
	// read that bears on verdicts, are the state on both sides.
	Options
	// Candidate holds the objects that are tried. They replace the state's objects of the same names.
	Candidate []input.Document
	// Before is the configuration of the server that the candidate is compared with; nil if there is none. It must
	// be another than Options.Config. Against holds the objects that this server has in place of the candidate.
	Before  *server.Config
	Against []input.Document
	// Quotas says that quotas count: in Audit what all audited objects use, in Replay what the requests use from the
	// State on, which must be that of the beginning of the records. Without it quotas limit nothing, and one of the
	// Candidate or Against is an error.
	Quotas bool
	// OtherPlugins says that the two configurations differ in their plugins, or in the plugins' configuration.
	OtherPlugins bool
	// PodSecurity has Pod Security Standards that the candidate enforces, by namespace: privileged, baseline or
	// restricted. The empty namespace stands for all that have no label for it. The plugin PodSecurity must run.
	PodSecurity map[string]string
	// PodSecurityOverride says that the level of the empty namespace is for all namespaces, whatever their labels are.
	PodSecurityOverride bool
}

// StartTrial starts the servers of a trial, and gives them their state. The caller must Close the Trial.
func StartTrial(ctx context.Context, options TrialOptions) (_ *Trial, err error) {
	if err := checkQuotas(&options); err != nil {
		return nil, err
	}
	t := &Trial{given: options.State}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
		}
	}()
	without := options.bearsOnNothing()
	options.State = slices.DeleteFunc(slices.Clone(options.State), func(d input.Document) bool { return without(d.Object) })
	if t.candidate, err = startCandidate(ctx, &options); err != nil {
		return nil, err
	}
	t.inspect(&options)
	t.options = options
	t.Trial.Candidate = t.candidate.Judge
	if err := t.candidate.checkQuotaPlugin(options.Candidate); err != nil {
		return nil, err
	}
	if options.Before != nil {
		before := options.Options
		before.Config, before.LocalWebhooks = options.Before, nil
		if t.before, err = startJudge(ctx, before, options.Quotas); err != nil {
			return nil, err
		}
		t.Before = t.before.Judge
		if err := t.before.checkQuotaPlugin(options.Against); err != nil {
			return nil, err
		}
	}
	if options.Live != nil {
		var kinds []*Reviewer
		for _, side := range t.sides() {
			kinds = append(kinds, side.reviewer)
		}
		want := live.Want{}
		for _, d := range slices.Concat(options.Candidate, options.Against) {
			want.Policies = append(want.Policies, d.Object)
		}
		state, err := readEverything(ctx, options.Live, want, kinds...)
		if err != nil {
			return nil, err
		}
		state.Objects = slices.DeleteFunc(state.Objects, without)
		for _, side := range t.sides() {
			if err := side.reviewer.loadCluster(ctx, state); err != nil {
				return nil, err
			}
		}
	}
	if err := t.candidate.reviewer.Load(ctx, options.Candidate); err != nil {
		return nil, err
	}
	warnings, err := t.candidate.reviewer.PolicyWarnings(ctx, options.Candidate)
	if err != nil {
		return nil, err
	}
	t.notes = append(t.candidate.Notes(), warnings...)
	if err := t.labelNamespaces(ctx, &options); err != nil {
		return nil, err
	}
	if t.before != nil {
		if err := t.before.reviewer.Load(ctx, options.Against); err != nil {
			return nil, err
		}
	}
	if err := t.addNamespaces(ctx, &options); err != nil {
		return nil, err
	}
	return t, t.checkActs(ctx)
}

// addNamespaces adds the namespaces that one side alone has, because the state lacks them, to the other, without labels.
func (t *Trial) addNamespaces(ctx context.Context, o *TrialOptions) error {
	for _, d := range slices.Concat(o.Candidate, o.Against) {
		if d.Object.GroupVersionKind().GroupKind() != (schema.GroupKind{Kind: "Namespace"}) {
			continue
		}
		for _, side := range t.sides() {
			stored, err := side.reviewer.objectNamed(ctx, newNamespace(d.Object.GetName()))
			if stored == nil && err == nil {
				err = side.reviewer.Load(ctx, []input.Document{{Object: newNamespace(d.Object.GetName())}})
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// PolicyPlugins returns the names of the plugins that enforce policies and webhook configurations.
func PolicyPlugins(list []plugin.Descriptor) []string {
	return enforcing(list, func(e plugin.Enforced) bool { return e.Resource.Group == admissionregistrationv1.GroupName })
}

// enforcing returns the names of the plugins that enforce certain objects.
func enforcing(list []plugin.Descriptor, is func(plugin.Enforced) bool) []string {
	var names []string
	for _, d := range list {
		if slices.ContainsFunc(d.Server.Enforces, is) {
			names = append(names, d.Name)
		}
	}
	return names
}

// newNamespace returns a namespace without labels.
func newNamespace(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	o.SetName(name)
	return o
}

// inspect finds out what the two sides can differ in.
func (t *Trial) inspect(options *TrialOptions) {
	t.OnlyRefuses, t.ownWebhooks = !options.OtherPlugins, map[string]bool{}
	t.namespaceLabels = options.OtherPlugins || options.PodSecurity[""] != "" && !options.PodSecurityOverride
	for _, d := range slices.Concat(options.Candidate, options.Against) {
		kind := d.Object.GroupVersionKind()
		if kind.GroupKind() == quotaKind {
			continue // it only refuses
		}
		if kind.Group != admissionregistrationv1.GroupName {
			// A param, a LimitRange or a class may be what a plugin changes objects by.
			t.OnlyRefuses = false
			t.namespaceLabels = t.namespaceLabels || kind.Kind == "Namespace"
			continue
		}
		t.OnlyRefuses = t.OnlyRefuses && strings.HasPrefix(kind.Kind, "Validating")
		t.namespaceLabels = t.namespaceLabels || usesNamespaceLabels(d.Object)
		if strings.HasSuffix(kind.Kind, "WebhookConfiguration") {
			t.ownWebhooks[d.Object.GetName()] = true
		}
	}
}

// usesNamespaceLabels reports whether a policy, a binding or a webhook configuration selects by labels of
// namespaces, or reads them.
func usesNamespaceLabels(o *unstructured.Unstructured) bool {
	data, err := o.MarshalJSON()
	if err != nil || bytes.Contains(data, []byte("namespaceObject")) {
		return true
	}
	uses := false
	var look func(value any)
	look = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			selector, ok := value["namespaceSelector"].(map[string]any)
			uses = uses || ok && len(selector) > 0
			for _, field := range value {
				look(field)
			}
		case []any:
			for _, item := range value {
				look(item)
			}
		}
	}
	look(o.Object)
	return uses
}

// namespace returns a namespace of the state, or nil if the state has none of the name.
func (t *Trial) namespace(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	return t.candidate.reviewer.objectNamed(ctx, newNamespace(name))
}

// objectNamed returns the stored object without a namespace that has the kind and the name of another one, or nil.
func (r *Reviewer) objectNamed(ctx context.Context, like *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	mapping, err := r.cluster.findKind(like)
	if err != nil {
		return nil, err
	}
	return r.getStored(ctx, mapping, "", like.GetName())
}

// readEverything reads what is wanted from a cluster, and everything that could decide a verdict of the
// reviewers' servers. It reads all namespaces.
func readEverything(ctx context.Context, cluster *live.Cluster, want live.Want, of ...*Reviewer) (*live.State, error) {
	kinds := append(of[0].decidingKinds(), service, definitions)
	for _, r := range of[1:] {
		for _, kind := range r.decidingKinds() {
			if !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	want.Kinds, want.Own = kinds, of[0].isBuiltIn
	return cluster.Read(ctx, want)
}

// Notes returns the notes about the state and the candidate.
func (t *Trial) Notes() []string { return t.notes }

// Unknown returns why a verdict about an object isn't certain: parts of the cluster that bear on it and that are
// not known. It returns nil if all is known, or if the options allow that it isn't.
func (t *Trial) Unknown(kind schema.GroupKind, namespace, name string) []string {
	unknown := t.candidate.reviewer.unknown(kind, namespace, name)
	if unknown == nil && t.before != nil {
		return t.before.reviewer.unknown(kind, namespace, name)
	}
	return unknown
}

// Load stores objects on both sides, as if they had been there from the start. It must not be called
// concurrently.
func (t *Trial) Load(ctx context.Context, documents []input.Document) error {
	if t.before != nil {
		if err := t.before.reviewer.Load(ctx, documents); err != nil {
			return err
		}
	}
	return t.candidate.reviewer.Load(ctx, documents)
}

// Close ends the servers.
func (t *Trial) Close() error {
	var errs []error
	for _, side := range []*Judge{t.candidate, t.before} {
		if side != nil {
			errs = append(errs, side.Close())
		}
	}
	return errors.Join(errs...)
}
