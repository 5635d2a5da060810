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

	"gatehouse.dev/chain"
	"gatehouse.dev/review/input"
	"gatehouse.dev/review/live"
)

// unread are kinds that the server has caches of and that no verdict depends on, or not on what
// they hold in another cluster, or that hold what nobody may read.
var unread = []schema.GroupKind{
	{Kind: "Secret"},
	{Kind: "Pod"}, // quotas say what they use
	// Read where they matter, see everywhere.
	{Kind: "Service"}, {Group: "discovery.k8s.io", Kind: "EndpointSlice"},
	{Kind: "Event"}, {Group: "events.k8s.io", Kind: "Event"},
	{Group: "coordination.k8s.io", Kind: "Lease"},
	// What a node's kubelet may read, which writes nothing that is reviewed.
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
	// deviceClass is what quotas look up, without a cache.
	deviceClass = schema.GroupVersionKind{Group: "resource.k8s.io", Version: "v1", Kind: "DeviceClass"}
	// service is what has IPs and node ports, which no other service can have, and endpointSlice
	// where webhooks are that are services.
	service       = schema.GroupVersionKind{Version: "v1", Kind: "Service"}
	endpointSlice = schema.GroupVersionKind{Group: "discovery.k8s.io", Version: "v1", Kind: "EndpointSlice"}
)

// kinds are those that decide a verdict: what the server and its plugins have caches of, what only
// a plugin enforces, and what quotas look up.
func (r *Reviewer) kinds() []schema.GroupVersionKind {
	kinds := []schema.GroupVersionKind{}
	add := func(kind schema.GroupVersionKind) {
		if !slices.Contains(unread, kind.GroupKind()) &&
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
		for _, e := range plugin.Enforces {
			if kind, err := r.cluster.mapper.KindFor(e.Resource.WithVersion("")); err == nil {
				add(kind)
			}
		}
	}
	add(deviceClass)
	return kinds
}

// everywhere are kinds that decide about objects of all namespaces: services, where there is one
// among the objects or webhooks are asked, and where the latter are.
func (r *Reviewer) everywhere(objects []*unstructured.Unstructured) []schema.GroupVersionKind {
	if r.options.Webhooks == chain.WebhooksAsked {
		return []schema.GroupVersionKind{service, endpointSlice}
	}
	if slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().GroupKind() == service.GroupKind()
	}) {
		return []schema.GroupVersionKind{service}
	}
	return nil
}

// readLive reads of a cluster what decides about documents: what is in their namespaces and in
// none, and the objects themselves.
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
	return r.options.Live.Read(ctx, live.Want{Kinds: r.kinds(), Namespaces: slices.Compact(in),
		Everywhere: r.everywhere(objects), Objects: objects, Own: r.own})
}

// objects are those of documents, each with the namespace that it is in.
func (r *Reviewer) objects(documents []input.Document) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, d := range documents {
		object := d.Object.DeepCopy()
		if request, err := requestOf(d); request != nil || err != nil {
			if object = r.named(request); object == nil {
				continue
			}
		}
		if object.GetNamespace() == "" {
			object.SetNamespace(r.namespace()) // of those without one nobody asks for it
		}
		all = append(all, object)
	}
	return all
}

// named is the object that a request is about, where the request doesn't have it; else nil.
func (r *Reviewer) named(request *admissionv1.AdmissionRequest) *unstructured.Unstructured {
	if request == nil || request.Operation == admissionv1.Create && request.SubResource == "" ||
		len(request.OldObject.Raw) > 0 && request.SubResource == "" {
		return nil
	}
	kind := schema.GroupVersionKind(request.Kind)
	if request.SubResource != "" {
		mapping, err := r.cluster.serves(schema.GroupVersionResource(request.Resource))
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

// own tells whether the server has a kind without a definition.
func (r *Reviewer) own(kind schema.GroupVersionKind) bool {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	_, err := r.cluster.find(object)
	return err == nil
}

// Snapshot reads of a cluster all that could decide a verdict of a server with these options, and
// besides it those of the documents' objects that the cluster has. It reads all namespaces.
func Snapshot(ctx context.Context, options Options, documents []input.Document) (_ *live.State, err error) {
	cluster := options.Live
	r, err := Start(ctx, options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	kinds := append(r.kinds(), service, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"})
	state, err := cluster.Read(ctx, live.Want{Kinds: kinds, Objects: r.objects(documents), Own: r.own})
	if err != nil {
		return nil, err
	}
	// What every server has by itself is no news.
	state.Objects = slices.DeleteFunc(state.Objects, func(o *unstructured.Unstructured) bool {
		return r.isOwn(ctx, o)
	})
	return state, nil
}

// isOwn tells whether the server has just this object by itself.
func (r *Reviewer) isOwn(ctx context.Context, object *unstructured.Unstructured) bool {
	mapping, err := r.cluster.find(object)
	if err != nil || live.IsServiceRange(object) { // it is the cluster's that the server has
		return false
	}
	stored, err := r.stored(ctx, mapping, object.GetNamespace(), object.GetName())
	return err == nil && stored != nil && live.Same(stored, object)
}

// loadCluster gives the server what was read of a cluster. What it can't store it notes.
func (r *Reviewer) loadCluster(ctx context.Context, state *live.State) error {
	r.ofCluster = true
	r.notes = append(r.notes, state.Notes...)
	for _, object := range state.Objects {
		r.notes = append(r.notes, uncounted(object, object)...)
	}
	r.notes = append(r.notes, r.otherVersion(state.Version)...)
	return r.store(ctx, state.Documents(), r.putOfCluster, func(d input.Document, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.notes = append(r.notes, fmt.Sprintf("%s: the cluster has it, but it can't be stored here: %s: judged as if "+
			"it weren't there", input.Named(d.Object), strings.ReplaceAll(err.Error(), "\n", "; ")))
		return nil
	})
}

// otherVersion notes that a cluster is of another minor version than the server.
func (r *Reviewer) otherVersion(theirs string) []string {
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
		return []string{fmt.Sprintf("the cluster is Kubernetes %s, and this judges as %s does: what differs between "+
			"them is judged as the latter", theirs, ours)}
	}
	return nil
}
