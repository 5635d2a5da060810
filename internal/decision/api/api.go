// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package api serves the decisions of a server as the resource decisions of the API group
// decisions.gatehouse.dev: they can be got, listed and watched, by namespace, and selected by
// fields and labels. They are read-only.
package api

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/duration"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/server"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision"
	"gatehouse.dev/internal/negotiation"
	"gatehouse.dev/internal/peers"
)

var (
	// Scheme has the kinds of the group.
	Scheme = runtime.NewScheme()
	// A list is sent while it is encoded, as Kubernetes' own are.
	codecs         = serializer.NewCodecFactory(Scheme, serializer.WithStreamingCollectionEncodingToJSON())
	parameterCodec = runtime.NewParameterCodec(Scheme)
)

func init() {
	utilruntime.Must(v1alpha1.AddToScheme(Scheme))
	metav1.AddToGroupVersion(Scheme, schema.GroupVersion{Version: "v1"})
	utilruntime.Must(Scheme.SetVersionPriority(v1alpha1.SchemeGroupVersion))
}

// Group returns the API group over a store, and over those of the other servers if peers isn't nil.
//
// Decisions about objects without a namespace are in the namespace default. A right in that
// namespace alone doesn't show them: the authorizer is asked whether the user has the right in all
// namespaces.
func Group(store *decision.Store, authorizer authorizer.UnconditionalAuthorizer,
	peers *peers.Peers) *server.APIGroupInfo {
	info := server.NewDefaultAPIGroupInfo(v1alpha1.SchemeGroupVersion.Group, Scheme, parameterCodec, codecs)
	info.NegotiatedSerializer = negotiation.WithoutProtobuf(codecs)
	var decisions rest.Storage = &storage{store, authorizer}
	if peers != nil {
		decisions = &merged{&storage{store, authorizer}, peers}
	}
	info.VersionedResourcesStorageMap[v1alpha1.SchemeGroupVersion.Version] = map[string]rest.Storage{
		v1alpha1.Decisions.Resource: decisions,
	}
	return &info
}

type storage struct {
	store      *decision.Store
	authorizer authorizer.UnconditionalAuthorizer
}

var (
	_ rest.Getter               = &storage{}
	_ rest.Lister               = &storage{}
	_ rest.Watcher              = &storage{}
	_ rest.Scoper               = &storage{}
	_ rest.SingularNameProvider = &storage{}
)

// New implements rest.Storage.
func (*storage) New() runtime.Object { return &v1alpha1.Decision{} }

// Destroy implements rest.Storage.
func (*storage) Destroy() {}

// NewList implements rest.Lister.
func (*storage) NewList() runtime.Object { return &v1alpha1.DecisionList{} }

// NamespaceScoped implements rest.Scoper.
func (*storage) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider.
func (*storage) GetSingularName() string { return "decision" }

// Get implements rest.Getter.
func (s *storage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	want := s.filter(ctx, nil)
	if d := s.store.Get(want.Namespace, name); d != nil && want.Matches(d) {
		return d, nil
	}
	return nil, apierrors.NewNotFound(v1alpha1.Decisions.GroupResource(), name)
}

// List implements rest.Lister.
func (s *storage) List(ctx context.Context, options *internalversion.ListOptions) (runtime.Object, error) {
	if options == nil {
		options = &internalversion.ListOptions{}
	}
	return s.store.List(s.filter(ctx, options), options.Limit, options.Continue)
}

// Watch implements rest.Watcher.
func (s *storage) Watch(ctx context.Context, options *internalversion.ListOptions) (watch.Interface, error) {
	var revision string
	initial := false
	if options != nil {
		revision = options.ResourceVersion
		if options.SendInitialEvents != nil && *options.SendInitialEvents {
			// A client that asks for no bookmarks gets none after the initial events. The
			// library asks for initial events in any watch from nothing.
			revision, initial = "", options.AllowWatchBookmarks
		}
	}
	return s.store.Watch(s.filter(ctx, options), revision, initial)
}

// filter returns what the request may see, and asks for.
func (s *storage) filter(ctx context.Context, options *internalversion.ListOptions) decision.Filter {
	f := decision.Filter{Namespace: request.NamespaceValue(ctx)}
	f.Namespaced = f.Namespace == metav1.NamespaceDefault && !s.allowedInAll(ctx)
	if options != nil {
		f.Labels, f.Fields = options.LabelSelector, options.FieldSelector
	}
	return f
}

// allowedInAll reports whether the user may do in all namespaces what the request does in one.
func (s *storage) allowedInAll(ctx context.Context) bool {
	info, ok := request.RequestInfoFrom(ctx)
	user, known := request.UserFrom(ctx)
	if !ok || !known {
		return false
	}
	decided, _, _ := s.authorizer.Authorize(ctx, authorizer.AttributesRecord{User: user, Verb: info.Verb,
		APIGroup: info.APIGroup, APIVersion: info.APIVersion, Resource: info.Resource, Name: info.Name,
		ResourceRequest: true, Path: info.Path})
	return decided == authorizer.DecisionAllow
}

// columns are the columns of kubectl get. A row with names of usual lengths fits 120 columns.
var columns = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string", Format: "name", Description: "The request's audit ID."},
	{Name: "Age", Type: "string", Description: "How long ago the request was made."},
	{Name: "Verdict", Type: "string", Description: "Admitted, Refused or Failed; NotFound, Conflict or " +
		"AlreadyExists if the API itself answered so."},
	{Name: "Operation", Type: "string", Description: "CREATE, UPDATE, DELETE or CONNECT, of a dry run with a mark."},
	{Name: "Object", Type: "string", Description: "The object, as resource/name and, of a subresource, its name."},
	{Name: "By", Type: "string", Description: "The plugin that refused it."},
	{Name: "User", Type: "string", Priority: 1, Description: "The user who made the request."},
	{Name: "Changed By", Type: "string", Priority: 1, Description: "The plugins that changed the object."},
	{Name: "Took", Type: "string", Priority: 1, Description: "The time to the answer."},
	{Name: "Message", Type: "string", Priority: 1, Description: "What the client was told."},
}

// ConvertToTable implements rest.TableConvertor.
func (*storage) ConvertToTable(_ context.Context, object, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		table.ColumnDefinitions = columns
	}
	now := time.Now()
	row := func(d *v1alpha1.Decision) {
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			d.Name, duration.HumanDuration(now.Sub(d.Time.Time)), v1alpha1.Outcome(d), operation(&d.Request),
			decision.Object(&d.Request), orNone(d.By), d.Request.User.Username,
			orNone(strings.Join(d.ChangedBy, ",")), decision.Took(d.Duration.Duration), d.Message,
		}, Object: runtime.RawExtension{Object: d}})
	}
	switch object := object.(type) {
	case *v1alpha1.Decision:
		row(object)
	case *v1alpha1.DecisionList:
		for i := range object.Items {
			row(&object.Items[i])
		}
	default:
		return nil, fmt.Errorf("no table of %T", object)
	}
	if list, err := meta.ListAccessor(object); err == nil {
		table.ResourceVersion = list.GetResourceVersion()
	} else if object, err := meta.Accessor(object); err == nil {
		table.ResourceVersion = object.GetResourceVersion()
	}
	return table, nil
}

// operation returns the operation, with a mark for a dry run.
func operation(r *v1alpha1.Request) string {
	if r.DryRun {
		return r.Operation + " (dry)"
	}
	return r.Operation
}

// orNone returns what kubectl shows for nothing.
func orNone(text string) string {
	if text == "" {
		return "<none>"
	}
	return text
}
