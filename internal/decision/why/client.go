// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision/client"
)

// A Client asks a server's API.
type Client struct {
	decisions rest.Interface
	// ofWebhook reports whether decisions is a replica of gatehouse webhook.
	ofWebhook bool
	warnings  *client.Warnings
	objects   dynamic.Interface
	core      kubernetes.Interface
	mapper    meta.RESTMapper
}

// Warnings returns what the server warned of since the last call when it was asked for decisions: for example, that
// another server doesn't answer, whose decisions are missing.
func (c *Client) Warnings() []string { return c.warnings.Take() }

// NewClient returns a client of the server. webhook, if it isn't nil, is where the decisions are
// instead: a replica of gatehouse webhook.
func NewClient(config, webhook *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.WarningHandlerWithContext = rest.NoWarnings{}
	config.QPS = -1
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	keeper := config
	if webhook != nil {
		keeper = webhook
	}
	said := &client.Warnings{}
	keeper = rest.CopyConfig(keeper)
	keeper.WarningHandler, keeper.WarningHandlerWithContext = said, nil
	decisions, err := client.New(keeper)
	if err != nil {
		return nil, err
	}
	discovery := memory.NewMemCacheClient(core.Discovery())
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(discovery), discovery, nil)
	return &Client{decisions, webhook != nil, said, objects, core, mapper}, nil
}

// Resource returns the resource that kubectl means by a word: the name of a resource, plural,
// singular or short, or a kind, each with or without its group. meta.IsNoMatchError reports whether
// an error means that there is no such resource.
func (c *Client) Resource(word string) (*meta.RESTMapping, error) {
	full, short := schema.ParseResourceArg(word)
	var kind schema.GroupVersionKind
	if full != nil {
		kind, _ = c.mapper.KindFor(*full)
	}
	if kind.Empty() {
		var err error
		if kind, err = c.mapper.KindFor(short.WithVersion("")); err != nil && !meta.IsNoMatchError(err) {
			return nil, err
		}
	}
	if !kind.Empty() {
		return c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	return c.mapper.RESTMapping(schema.ParseGroupKind(word))
}

// Unavailable is the reason why no decisions can be read although there were requests.
type Unavailable string

// The reasons.
const (
	// NotServed: the server isn't Gatehouse, or it records no decisions.
	NotServed Unavailable = "the server doesn't record decisions"
	// Forbidden: the user has no right to decisions.
	Forbidden Unavailable = "you may not see the server's decisions"
)

// Error implements error.
func (u Unavailable) Error() string { return string(u) }

// list returns the decisions in a namespace, empty for all, the newest first. The error is an
// Unavailable if they can't be read.
func (c *Client) list(ctx context.Context, namespace string, want fields.Selector) ([]v1alpha1.Decision, error) {
	all, err := c.listAll(ctx, namespace, metav1.ListOptions{FieldSelector: want.String()})
	switch {
	case c.notServed(ctx, err):
		return nil, NotServed
	case apierrors.IsForbidden(err):
		return nil, Forbidden
	}
	slices.Reverse(all)
	return all, err
}

func (c *Client) listAll(ctx context.Context, namespace string, options metav1.ListOptions) (
	[]v1alpha1.Decision, error) {
	if c.ofWebhook {
		return client.ListOfWebhook(ctx, c.decisions, namespace, options)
	}
	return client.List(ctx, c.decisions, namespace, options)
}

// notServed reports whether an error means that there are no decisions.
func (c *Client) notServed(ctx context.Context, err error) bool {
	if c.ofWebhook {
		return apierrors.IsNotFound(err)
	}
	return client.NotServed(ctx, c.decisions, err)
}

// Decision returns the decision about the request with an audit ID, nil if there is none. The
// namespace may be empty for all. The error is an Unavailable if decisions can't be read.
func (c *Client) Decision(ctx context.Context, namespace, auditID string) (*v1alpha1.Decision, error) {
	found, err := c.list(ctx, namespace, fields.OneTermEqualSelector("metadata.name", auditID))
	if err == nil && len(found) == 0 {
		// An ID that isn't a valid name, or was in use already, is in an annotation.
		found, err = c.list(ctx, namespace, fields.Everything())
		found = slices.DeleteFunc(found, func(d v1alpha1.Decision) bool {
			return d.Annotations[v1alpha1.AuditIDAnnotation] != auditID
		})
	}
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// LastRefused returns the last request in a namespace, empty for all, that was refused or failed;
// nil if there is none. Everyday answers such as NotFound don't count, and neither does what controllers
// are refused in a namespace that is being deleted.
func (c *Client) LastRefused(ctx context.Context, namespace string) (*v1alpha1.Decision, error) {
	found, err := c.refused(ctx, namespace)
	if len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// refused returns the requests in a namespace, empty for all, that were refused or failed, the newest first.
func (c *Client) refused(ctx context.Context, namespace string) ([]v1alpha1.Decision, error) {
	found, err := c.list(ctx, namespace, fields.OneTermNotEqualSelector("verdict", string(v1alpha1.Admitted)))
	return slices.DeleteFunc(found, func(d v1alpha1.Decision) bool {
		return v1alpha1.Everyday(&d) || isTooLate(&d)
	}), err
}

// isTooLate reports whether a controller was refused because the namespace is being deleted. That is so until the
// controller has noticed, and nobody need do anything about it.
func isTooLate(d *v1alpha1.Decision) bool {
	user := d.Request.User.Username
	return strings.Contains(d.Message, terminatingMessage) && (strings.HasPrefix(user, "system:serviceaccount:kube-system:") ||
		user == "system:kube-controller-manager" || user == "system:apiserver")
}

// terminatingMessage is part of NamespaceLifecycle's message about a namespace that is being deleted.
const terminatingMessage = "because it is being terminated"

// Found holds what the API has about an object.
type Found struct {
	Resource        schema.GroupResource
	Kind            string
	Namespace, Name string
	// Object is nil if it doesn't exist or may not be read.
	Object *unstructured.Unstructured
	// Gone reports whether it doesn't exist.
	Gone bool
	// Unreadable is the server's error if the object can't be read in any version, empty if it can be.
	Unreadable string
	// Inside has the refusals in a namespace that is being deleted, the newest first.
	Inside []v1alpha1.Decision
	// Decisions are about the object, the newest first.
	Decisions []v1alpha1.Decision
	// Dependents are about what its controllers make for it, the newest first.
	Dependents []v1alpha1.Decision
	// Unavailable is the reason why there are no decisions, empty if they could be read.
	Unavailable Unavailable
	// Events are about the object and what its controllers make pods with, the newest first. They
	// are read only if no decision says more.
	Events []corev1.Event
}

// Object finds what the API has about an object. The namespace is ignored if the resource has none.
func (c *Client) Object(ctx context.Context, mapping *meta.RESTMapping, namespace, name string) (*Found, error) {
	f := &Found{Resource: mapping.Resource.GroupResource(), Kind: mapping.GroupVersionKind.Kind, Name: name}
	in := metav1.NamespaceDefault // it has the decisions about objects without a namespace
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		f.Namespace, in = namespace, namespace
	}
	err := c.read(ctx, mapping, f)
	if err != nil {
		return nil, err
	}
	about := fields.SelectorFromSet(fields.Set{"request.resource": f.Resource.Resource, "request.name": name})
	f.Decisions, err = c.list(ctx, in, about)
	if err != nil && !errors.As(err, &f.Unavailable) {
		return nil, err
	}
	f.Decisions = slices.DeleteFunc(f.Decisions, func(d v1alpha1.Decision) bool {
		return d.Request.Group != f.Resource.Group || d.Request.Namespace != f.Namespace
	})
	if f.Resource == namespaces && f.Object != nil && f.Object.GetDeletionTimestamp() != nil && f.Unavailable == "" {
		if f.Inside, err = c.refused(ctx, name); err != nil && !errors.As(err, &f.Unavailable) {
			return nil, err
		}
		since := f.Object.GetDeletionTimestamp()
		f.Inside = slices.DeleteFunc(f.Inside, func(d v1alpha1.Decision) bool {
			return d.Time.Before(&metav1.MicroTime{Time: since.Time}) || d.Request.DryRun ||
				d.Request.Operation != "UPDATE" && d.Request.Operation != "DELETE"
		})
	}
	owners, err := c.dependents(ctx, f, in)
	if err != nil || len(f.Decisions)+len(f.Dependents) > 0 {
		return f, err
	}
	for _, owner := range owners {
		events, err := c.core.CoreV1().Events(in).List(ctx, metav1.ListOptions{
			FieldSelector: fields.Set{"involvedObject.kind": owner.Kind, "involvedObject.name": owner.Name}.String(),
		})
		if err == nil { // a user without the right to events gets the rest
			f.Events = append(f.Events, events.Items...)
		}
	}
	slices.SortStableFunc(f.Events, func(a, b corev1.Event) int { return lastTime(&b).Compare(lastTime(&a)) })
	return f, nil
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// read reads the object. If it can't be read in the preferred version, it tries the others: that in which it is stored
// needs no conversion.
func (c *Client) read(ctx context.Context, mapping *meta.RESTMapping, f *Found) error {
	versions := []*meta.RESTMapping{mapping}
	for i := 0; i < len(versions); i++ {
		var objects dynamic.ResourceInterface = c.objects.Resource(versions[i].Resource)
		if f.Namespace != "" {
			objects = c.objects.Resource(versions[i].Resource).Namespace(f.Namespace)
		}
		object, err := objects.Get(ctx, f.Name, metav1.GetOptions{})
		// a user who may not read it may still read the decisions
		switch answer := apierrors.APIStatus(nil); {
		case err == nil:
			f.Object, f.Unreadable = object, ""
			return nil
		case apierrors.IsNotFound(err):
			f.Gone, f.Unreadable = true, ""
			return nil
		case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
			return nil
		case !errors.As(err, &answer) || ctx.Err() != nil || apierrors.IsUnauthorized(err):
			return err
		}
		if i == 0 {
			f.Unreadable = err.Error()
			all, err := c.mapper.RESTMappings(mapping.GroupVersionKind.GroupKind())
			if err != nil {
				return err
			}
			versions = append(versions, slices.DeleteFunc(all, func(m *meta.RESTMapping) bool {
				return m.Resource.Version == mapping.Resource.Version
			})...)
		}
	}
	return nil
}

// Named returns the objects of a name about which there are decisions in a namespace, as TYPE/NAME.
func (c *Client) Named(ctx context.Context, namespace, name string) []string {
	found, _ := c.list(ctx, namespace, fields.OneTermEqualSelector("request.name", name))
	var all []string
	for i := range found {
		if object := found[i].Request.Resource + "/" + name; !slices.Contains(all, object) {
			all = append(all, object)
		}
	}
	return all
}

// intermediates are the objects that controllers of some kinds make, and whose own controllers make
// the pods.
var intermediates = map[schema.GroupKind]struct {
	resource schema.GroupVersionResource
	kind     string
}{
	{Group: "apps", Kind: "Deployment"}: {
		schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"}, "ReplicaSet",
	},
	{Group: "batch", Kind: "CronJob"}: {
		schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "Job",
	},
}

// dependents finds the decisions about what the object's controllers make for it. It returns the
// owners in those, the object first.
func (c *Client) dependents(ctx context.Context, f *Found, in string) ([]v1alpha1.Owner, error) {
	owners := []v1alpha1.Owner{{Kind: f.Kind, Name: f.Name}}
	next := intermediates[schema.GroupKind{Group: f.Resource.Group, Kind: f.Kind}]
	add := func(name string) {
		owner := v1alpha1.Owner{Kind: next.kind, Name: name}
		if name != "" && !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
	}
	if next.kind != "" && f.Object != nil {
		made, err := c.objects.Resource(next.resource).Namespace(in).List(ctx, metav1.ListOptions{})
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
		for i := 0; err == nil && i < len(made.Items); i++ {
			if metav1.IsControlledBy(&made.Items[i], f.Object) {
				add(made.Items[i].GetName())
			}
		}
	}
	for i := 0; i < len(owners) && f.Unavailable == ""; i++ {
		found, err := c.list(ctx, in, fields.SelectorFromSet(fields.Set{
			"request.owner.kind": owners[i].Kind, "request.owner.name": owners[i].Name,
		}))
		if err != nil {
			return nil, err
		}
		for j := range found {
			if found[j].Request.Resource == next.resource.Resource {
				add(found[j].Request.Name)
			}
		}
		f.Dependents = append(f.Dependents, found...)
	}
	slices.SortStableFunc(f.Dependents, func(a, b v1alpha1.Decision) int { return b.Time.Compare(a.Time.Time) })
	return owners, nil
}

// lastTime returns the time at which an event last happened.
func lastTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}
