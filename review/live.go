// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/plugin"
)

// kindsNotRead are kinds in the server's caches that are not read from a cluster: no verdict depends
// on them, or on what another cluster has of them, or they are secret.
var kindsNotRead = []schema.GroupKind{
	{Kind: "Secret"},
	{Kind: "Pod"}, // quotas say what they use
	// Read only if they matter, see kindsOfAllNamespaces.
	{Kind: "Service"}, {Group: "discovery.k8s.io", Kind: "EndpointSlice"},
	{Kind: "Event"}, {Group: "events.k8s.io", Kind: "Event"},
	{Group: "coordination.k8s.io", Kind: "Lease"},
	// A node's kubelet may read this, and it writes nothing that is reviewed.
	{Kind: "PersistentVolume"},
	{Group: "storage.k8s.io", Kind: "VolumeAttachment"},
	{Group: "resource.k8s.io", Kind: "ResourceSlice"},
	{Group: "certificates.k8s.io", Kind: "PodCertificateRequest"},
	// How the server serves, and what it has given out.
	{Group: "flowcontrol.apiserver.k8s.io", Kind: "FlowSchema"},
	{Group: "flowcontrol.apiserver.k8s.io", Kind: "PriorityLevelConfiguration"},
	{Group: "networking.k8s.io", Kind: "IPAddress"},
	{Group: "networking.k8s.io", Kind: "ServiceCIDR"}, // read in any case
}

var (
	// deviceClass is looked up by quotas, without a cache.
	deviceClass = schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceClass"}
	// service has IPs and node ports, which must be unique. endpointSlice has the addresses of
	// webhooks that are services.
	service       = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	endpointSlice = schema.GroupVersionKind{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"}
	definitions   = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"}
)

// decidingKinds returns the kinds that decide verdicts: those in the caches of the server and its plugins,
// those that only a plugin enforces, and those that quotas look up.
func (r *Reviewer) decidingKinds() []schema.GroupVersionKind {
	kinds := []schema.GroupVersionKind{}
	add := func(kind schema.GroupVersionKind) {
		if !slices.Contains(kindsNotRead, kind.GroupKind()) &&
			!slices.ContainsFunc(kinds, func(k schema.GroupVersionKind) bool {
				return k.GroupKind() == kind.GroupKind()
			}) {
			kinds = append(kinds, kind)
		}
	}
	for _, kind := range r.cluster.server.Cached() {
		add(kind)
	}
	for _, plugin := range r.cluster.server.Plugins() {
		for _, e := range plugin.Server.Enforces {
			if kind, err := r.cluster.mapper.KindFor(e.Resource.WithVersion("")); err == nil {
				add(kind)
			}
		}
	}
	add(deviceClass)
	add(claimTemplateKind)
	return kinds
}

// kindsOfAllNamespaces returns the kinds that decide about objects of all namespaces: services, if one is
// among the objects or webhooks are asked, and their endpoints.
func (r *Reviewer) kindsOfAllNamespaces(objects []*unstructured.Unstructured) []schema.GroupVersionKind {
	if r.options.Webhooks == plugin.WebhooksAsked {
		return []schema.GroupVersionKind{service, endpointSlice}
	}
	if slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().GroupKind() == service.GroupKind()
	}) {
		return []schema.GroupVersionKind{service}
	}
	return nil
}

// readLive reads from the cluster everything that decides about documents: cluster-scoped objects,
// those in the documents' namespaces, and the documents' own objects.
func (r *Reviewer) readLive(ctx context.Context, documents []input.Document) (*live.State, error) {
	in := []string{r.namespace()}
	for _, d := range documents {
		if d.Object.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
			in = append(in, d.Object.GetName())
		}
		if namespace := d.Object.GetNamespace(); namespace != "" {
			in = append(in, namespace)
		}
		if request, _ := requestOf(d); request != nil && request.Namespace != "" {
			in = append(in, request.Namespace)
		}
	}
	slices.Sort(in)
	objects := r.objects(documents)
	return r.options.Live.Read(ctx, live.Want{Kinds: r.decidingKinds(), Namespaces: slices.Compact(in),
		Everywhere: r.kindsOfAllNamespaces(objects), Objects: objects, Own: r.isBuiltIn})
}

// objects returns the objects of documents, each with its namespace set.
func (r *Reviewer) objects(documents []input.Document) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, d := range documents {
		object := d.Object.DeepCopy()
		if request, err := requestOf(d); request != nil || err != nil {
			if object = r.objectNamedBy(request); object == nil {
				continue
			}
		}
		if object.GetNamespace() == "" {
			object.SetNamespace(r.namespace()) // ignored if the kind isn't namespaced
		}
		all = append(all, object)
	}
	return all
}

// objectNamedBy returns an object with the kind and the name of the object that a request is about.
// It returns nil if the request has the object itself.
func (r *Reviewer) objectNamedBy(request *admissionv1.AdmissionRequest) *unstructured.Unstructured {
	if request == nil || request.Operation == admissionv1.Create && request.SubResource == "" ||
		len(request.OldObject.Raw) > 0 && request.SubResource == "" {
		return nil
	}
	kind := schema.GroupVersionKind(request.Kind)
	if request.SubResource != "" {
		mapping, err := r.cluster.findResource(schema.GroupVersionResource(request.Resource))
		if err != nil {
			return nil
		}
		kind = mapping.GroupVersionKind
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetName(request.Name)
	object.SetNamespace(request.Namespace)
	return object
}

// isBuiltIn reports whether the server has a kind without a CustomResourceDefinition.
func (r *Reviewer) isBuiltIn(kind schema.GroupVersionKind) bool {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	_, err := r.cluster.findKind(object)
	return err == nil
}

// Snapshot reads everything from a cluster that could decide a verdict of a server with these
// options, and the documents' objects if the cluster has them. It reads all namespaces. If some of
// it can't be read, it returns an IncompleteError, unless the options allow that.
func Snapshot(ctx context.Context, options Options, documents []input.Document) (_ *live.State, err error) {
	cluster := options.Live
	r, err := Start(ctx, options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	state, err := readEverything(ctx, cluster, live.Want{Objects: r.objects(documents)}, r)
	if err != nil {
		return nil, err
	}
	if len(state.Gaps) > 0 && !options.AllowIncomplete {
		return nil, &IncompleteError{state.Gaps}
	}
	// Objects that every server has by itself are left out.
	state.Objects = slices.DeleteFunc(state.Objects, func(o *unstructured.Unstructured) bool {
		return r.hasByItself(ctx, o)
	})
	return state, nil
}

// An IncompleteError lists parts of a cluster that bear on verdicts and could not be read.
type IncompleteError struct{ Gaps []live.Gap }

// Error has a line for each gap.
func (e *IncompleteError) Error() string {
	lines := []string{"the cluster is known in part only, and reviews by the snapshot would fail " +
		"(--allow-incomplete writes it all the same):"}
	for _, gap := range e.Gaps {
		lines = append(lines, gap.Message)
	}
	return strings.Join(lines, "\n")
}

// hasByItself reports whether the server has exactly this object by itself.
func (r *Reviewer) hasByItself(ctx context.Context, object *unstructured.Unstructured) bool {
	mapping, err := r.cluster.findKind(object)
	if err != nil || live.IsServiceRange(object) { // the server has the cluster's
		return false
	}
	stored, err := r.getStored(ctx, mapping, object.GetNamespace(), object.GetName())
	return err == nil && stored != nil && live.Same(stored, object)
}

// loadCluster gives the server what was read of a cluster. Objects that it can't store become gaps.
func (r *Reviewer) loadCluster(ctx context.Context, state *live.State) error {
	r.ofCluster, r.isWhole = true, r.isWhole || state.Version != ""
	r.notes = append(r.notes, state.Notes...)
	r.gaps = append(r.gaps, state.Gaps...)
	for _, object := range state.Objects {
		r.notes = append(r.notes, uncountedNotes(object, object)...)
	}
	r.notes = append(r.notes, r.versionNotes(state.Version)...)
	everywhere := map[schema.GroupKind]bool{service.GroupKind(): true, endpointSlice.GroupKind(): true}
	for kind := range live.ParamKinds(state.Objects) {
		everywhere[kind.GroupKind()] = true
	}
	return r.store(ctx, state.Documents(), r.putOfCluster, func(d input.Document, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		gap := r.gapFor(d.Object, everywhere)
		gap.Message = fmt.Sprintf("%s: the cluster has it, but it can't be stored here as it is: %s",
			input.Named(d.Object), strings.ReplaceAll(err.Error(), "\n", "; "))
		r.gaps = append(r.gaps, gap)
		return nil
	})
}

// gapFor returns the gap that an unknown object of the cluster leaves. An object of a kind that
// decides about others bears on those in its namespace, or on all, and a definition on those of the kind that it
// defines. Any other bears only on itself.
func (r *Reviewer) gapFor(object *unstructured.Unstructured, everywhere map[schema.GroupKind]bool) live.Gap {
	kind := object.GroupVersionKind().GroupKind()
	switch {
	case everywhere[kind]:
		return live.Gap{}
	case kind == definitionKind:
		group, _, _ := unstructured.NestedString(object.Object, "spec", "group")
		name, _, _ := unstructured.NestedString(object.Object, "spec", "names", "kind")
		return live.Gap{Group: group, Kind: name}
	case slices.ContainsFunc(r.decidingKinds(), func(k schema.GroupVersionKind) bool {
		return k.GroupKind() == kind
	}):
		return live.Gap{Namespace: object.GetNamespace()}
	}
	return live.Gap{Object: live.ObjectName(object.GetKind(), object.GetNamespace(), object.GetName())}
}

// gapNotes returns notes about the gaps that bear on a verdict.
func (r *Reviewer) gapNotes() []string {
	var notes []string
	for _, gap := range r.gaps {
		notes = append(notes, gap.Message)
	}
	return notes
}

// failIfUnknown makes a verdict Failed if something unknown bears on it, unless the options allow
// that.
func (r *Reviewer) failIfUnknown(result *Result) {
	if result.Verdict == v1alpha1.Failed {
		return
	}
	result.Unknown = r.unknown(result.Object.groupKind(), result.Object.Namespace, result.Object.Name)
	if result.Unknown != nil {
		result.Verdict = v1alpha1.Failed
	}
}

// unknown returns why a verdict about an object isn't certain. A definition that isn't there bears on all objects if
// policies have params of its kind.
func (r *Reviewer) unknown(kind schema.GroupKind, namespace, name string) []string {
	if r.options.AllowIncomplete {
		return nil
	}
	var unknown []string
	for _, gap := range r.gaps {
		defines := gap.Kind != "" && r.cluster.params[schema.GroupKind{Group: gap.Group, Kind: gap.Kind}]
		if defines || gap.BearsOn(kind, namespace, name) {
			unknown = append(unknown, gap.Message)
		}
	}
	return unknown
}

// leavesOut reports whether an object of an unknown kind is left out. It isn't if the cluster may
// have the kind, and only couldn't be asked about it.
func (r *Reviewer) leavesOut(object *unstructured.Unstructured) bool {
	return r.options.IgnoreUnknown && (r.options.AllowIncomplete ||
		!slices.ContainsFunc(r.gaps, func(gap live.Gap) bool {
			kind := object.GroupVersionKind().GroupKind()
			return (gap.Object != "" || gap.Kind != "") && (gap.BearsOn(kind, "", object.GetName()) ||
				gap.BearsOn(kind, r.namespaceOf(object), object.GetName()))
		}))
}

// versionNotes returns a note if the cluster's minor version isn't the server's.
func (r *Reviewer) versionNotes(theirs string) []string {
	info, err := r.cluster.discovery.ServerVersion()
	if err != nil {
		return nil
	}
	major, minor := info.EmulationMajor, info.EmulationMinor
	if major == "" {
		major, minor = info.Major, info.Minor
	}
	their, err := utilversion.ParseGeneric(theirs)
	if ours := major + "." + minor; err == nil && fmt.Sprintf("%d.%d", their.Major(), their.Minor()) != ours {
		note := fmt.Sprintf("the cluster is Kubernetes %s, and this judges as %s does: what differs between "+
			"them is judged as the latter", theirs, ours)
		if v := fmt.Sprintf("%d.%d", their.Major(), their.Minor()); slices.Contains(KubernetesVersions(), v) {
			note += ", unless --kubernetes-version=" + v + " is given"
		}
		return []string{note}
	}
	return nil
}
