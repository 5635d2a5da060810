// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"

	"gatehouse.dev/internal/review/input"
)

const (
	// concurrent is the number of lists that are read at a time, pageSize the number of objects in
	// a page.
	concurrent = 8
	pageSize   = 500
)

// Want says what to read from a cluster.
type Want struct {
	// Kinds are the kinds of which all objects are read, in these versions.
	Kinds []schema.GroupVersionKind
	// Namespaces are the namespaces to read; nil for all.
	Namespaces []string
	// Everywhere are kinds that are read in all namespaces, whatever Namespaces are.
	Everywhere []schema.GroupVersionKind
	// Objects are read if the cluster has them.
	Objects []*unstructured.Unstructured
	// Policies are policies and bindings that the cluster need not have: their params are read, too. So are those of
	// Objects.
	Policies []*unstructured.Unstructured
	// Own reports whether the caller's server has a kind by itself. For other kinds the cluster's
	// CustomResourceDefinition is read.
	Own func(schema.GroupVersionKind) bool
}

// State is what was read from a cluster.
type State struct {
	// Version is the cluster's release of Kubernetes.
	Version string
	// Notes are notes about the state.
	Notes []string
	// Gaps are what could not be read although it bears on verdicts.
	Gaps []Gap
	// Objects are sorted by kind, namespace and name.
	Objects []*unstructured.Unstructured
}

var (
	secrets     = schema.GroupKind{Kind: "Secret"}
	services    = schema.GroupKind{Kind: "Service"}
	namespaces  = schema.GroupKind{Kind: "Namespace"}
	definitions = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
		Kind: "CustomResourceDefinition"}
	serviceRanges = schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "ServiceCIDR"}
)

// reading is one reading of a cluster.
type reading struct {
	*Cluster
	want Want

	mu        sync.Mutex
	found     map[string]*unstructured.Unstructured
	notes     map[string]bool
	gaps      map[Gap]bool
	done, all int
}

func (c *Cluster) newReading(want Want) *reading {
	return &reading{Cluster: c, want: want, found: map[string]*unstructured.Unstructured{}, notes: map[string]bool{},
		gaps: map[Gap]bool{}}
}

// Read reads the wanted objects, the params of policies among them, and the CustomResourceDefinitions
// of all these, besides the ServiceCIDRs as of the first Read. It returns an error if the cluster stops
// answering. It must not be called concurrently.
func (c *Cluster) Read(ctx context.Context, want Want) (*State, error) {
	if c.ranges == nil {
		ranges := c.newReading(Want{})
		if err := ranges.run(ctx, ranges.tasksOf(serviceRanges, nil, false)); err != nil {
			return nil, err
		}
		c.ranges = ranges
	}
	r := c.newReading(want)
	for key, object := range c.ranges.found {
		r.found[key] = object.DeepCopy()
	}
	maps.Copy(r.notes, c.ranges.notes)
	maps.Copy(r.gaps, c.ranges.gaps)
	var tasks []func(context.Context) error
	for _, kind := range want.Kinds {
		if kind.GroupKind() == serviceRanges.GroupKind() {
			continue
		}
		tasks = append(tasks, r.tasksOf(kind, want.Namespaces, false)...)
	}
	for _, kind := range want.Everywhere {
		tasks = append(tasks, r.tasksOf(kind, nil, false)...)
	}
	for _, object := range want.Objects {
		tasks = append(tasks, func(ctx context.Context) error { return r.readNamed(ctx, object) })
	}
	if err := r.run(ctx, tasks); err != nil {
		return nil, err
	}
	// The policies determine which params to read.
	tasks = nil
	policies := slices.Concat(slices.Collect(maps.Values(r.found)), want.Objects, want.Policies)
	params, elsewhere := ParamKinds(policies), paramNamespaces(policies)
	for _, kind := range slices.SortedFunc(maps.Keys(params), func(a, b schema.GroupVersionKind) int {
		return strings.Compare(a.String(), b.String())
	}) {
		in := want.Namespaces
		if in != nil {
			in = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(in), elsewhere...))))
		}
		tasks = append(tasks, r.tasksOf(kind, in, true)...)
		tasks = append(tasks, func(ctx context.Context) error { return r.readDefinition(ctx, kind, nil) })
	}
	for _, object := range want.Objects {
		tasks = append(tasks, func(ctx context.Context) error {
			return r.readDefinition(ctx, object.GroupVersionKind(), object)
		})
	}
	if err := r.run(ctx, tasks); err != nil {
		return nil, err
	}
	r.keepNewestDefault()
	s := &State{Version: c.Version, Notes: slices.Sorted(maps.Keys(r.notes)),
		Gaps: slices.SortedFunc(maps.Keys(r.gaps), func(a, b Gap) int {
			return cmp.Or(strings.Compare(a.Message, b.Message), strings.Compare(a.Object, b.Object))
		})}
	for _, key := range slices.Sorted(maps.Keys(r.found)) {
		s.Objects = append(s.Objects, r.found[key])
	}
	return s, nil
}

// run runs tasks, several at a time.
func (r *reading) run(ctx context.Context, tasks []func(context.Context) error) error {
	r.mu.Lock()
	r.all += len(tasks)
	r.mu.Unlock()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrent)
	for _, task := range tasks {
		group.Go(func() error {
			err := task(ctx)
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.done++; r.Progress != nil {
				r.Progress(r.done, r.all)
			}
			if err != nil {
				return fmt.Errorf("the cluster at %s can't be read any more: %w", r.Host, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// tasksOf returns the tasks that read all objects of a kind in some namespaces; nil means all. params
// reports whether the objects are params of policies, which bear on objects of all namespaces.
func (r *reading) tasksOf(kind schema.GroupVersionKind, in []string, params bool) []func(context.Context) error {
	if kind.GroupKind() == secrets {
		r.addGap(Gap{}, "Secrets: their data is never read: policies whose params they are judge as if there were none")
		return nil
	}
	mapping, err := r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) { // an older cluster may have another version
		mapping, err = r.mapper.RESTMapping(kind.GroupKind())
	}
	if err != nil {
		return []func(context.Context) error{func(context.Context) error { return r.noteUnserved(kind, Gap{}, err) }}
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot || in == nil {
		if kind.GroupKind() == namespaces && in != nil {
			var tasks []func(context.Context) error
			for _, name := range in {
				tasks = append(tasks, func(ctx context.Context) error { return r.readNamespace(ctx, mapping, name) })
			}
			return tasks
		}
		in = []string{metav1.NamespaceAll}
	}
	var tasks []func(context.Context) error
	for _, namespace := range in {
		bears := Gap{Namespace: namespace}
		if params {
			bears = Gap{}
		}
		tasks = append(tasks, func(ctx context.Context) error { return r.readList(ctx, mapping, namespace, bears) })
	}
	return tasks
}

// readList reads all objects of a resource, in a namespace or in all.
func (r *reading) readList(ctx context.Context, mapping *meta.RESTMapping, namespace string, bears Gap) error {
	err := eachObject(ctx, r.pages(mapping.Resource, namespace), func(object *unstructured.Unstructured) error {
		object.SetGroupVersionKind(mapping.GroupVersionKind)
		r.add(object, false)
		return nil
	})
	return r.noteUnreadable(mapping, namespace, "", bears, err)
}

// readNamespace reads one namespace. If it may not be read, it is assumed to exist: users who may not
// read namespaces often may write in them.
func (r *reading) readNamespace(ctx context.Context, mapping *meta.RESTMapping, name string) error {
	object, err := r.objects.Resource(mapping.Resource).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		r.add(object, false)
	case apierrors.IsNotFound(err):
	case apierrors.IsForbidden(err):
		r.addGap(Gap{Namespace: name}, "namespace %s: there is no right to read it: taken to be there, without labels: "+
			"what goes by those, as Pod Security, is judged as if there were none", name)
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(mapping.GroupVersionKind)
		object.SetName(name)
		r.add(object, false)
	default:
		return r.noteUnreadable(mapping, "", name, Gap{Namespace: name}, err)
	}
	return nil
}

// readNamed reads an object for which there is a manifest. For a Secret it returns the manifest's
// content with the existing metadata.
func (r *reading) readNamed(ctx context.Context, like *unstructured.Unstructured) error {
	kind := like.GroupVersionKind()
	mapping, err := r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) || err == nil && like.GetName() == "" {
		return nil // it isn't there
	} else if err != nil {
		return r.noteUnserved(kind, Gap{}, err)
	}
	namespace := ""
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace = input.NamespaceOf(like)
	}
	var object *unstructured.Unstructured
	if kind.GroupKind() == secrets {
		var found *metav1.PartialObjectMetadata
		found, err = r.names.Resource(mapping.Resource).Namespace(namespace).Get(ctx, like.GetName(),
			metav1.GetOptions{})
		if err == nil {
			r.addNote("secret %s in namespace %s: its data is never read: taken to have that of the manifest, with other "+
				"values", like.GetName(), namespace)
			if object, err = hideData(like, found); err != nil {
				return err
			}
		}
	} else {
		object, err = r.objects.Resource(mapping.Resource).Namespace(namespace).Get(ctx, like.GetName(),
			metav1.GetOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return r.noteUnreadable(mapping, namespace, like.GetName(), gapOf(like, namespace), err)
	}
	r.add(object, true)
	return nil
}

// readDefinition reads the CustomResourceDefinition of a kind. object is the object that has the kind;
// nil if it is the kind of policies' params.
func (r *reading) readDefinition(ctx context.Context, kind schema.GroupVersionKind,
	object *unstructured.Unstructured) error {
	if r.want.Own(kind) || slices.Contains(r.want.Kinds, definitions) {
		return nil
	}
	mapping, err := r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil // the cluster doesn't serve it
	}
	bears := Gap{}
	if object != nil {
		bears = gapOf(object, "")
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			bears = gapOf(object, input.NamespaceOf(object))
		}
	}
	of, err := r.mapper.RESTMapping(definitions.GroupKind(), definitions.Version)
	if err != nil {
		return r.noteUnserved(definitions, bears, err)
	}
	name := mapping.Resource.GroupResource().String()
	found, err := r.objects.Resource(of.Resource).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && scheme.Scheme.Recognizes(kind):
		r.addGap(bears, "%s: the cluster serves %s, and the version of Kubernetes that judges doesn't: they can't be judged",
			name, kind.GroupVersion())
	case apierrors.IsNotFound(err):
		r.addGap(bears, "%s: they have no CustomResourceDefinition, but an API server of their own: they can't be judged",
			name)
	case apierrors.IsForbidden(err):
		r.addGap(bears, "customresourcedefinition %s: there is no right to read it: its resources can't be judged", name)
	case err != nil:
		return r.noteUnreadable(of, "", name, bears, err)
	default:
		r.add(found, false)
	}
	return nil
}

// add adds an object to those that were found. With whole it keeps all of the status.
func (r *reading) add(object *unstructured.Unstructured, whole bool) {
	class := object.GroupVersionKind().GroupKind()
	if IsAPIServer(object) {
		return
	}
	created := object.GetCreationTimestamp()
	clean(object, whole)
	if slices.Contains(classes, class) {
		object.SetCreationTimestamp(created) // until it is known which one is the default
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := keyOf(object)
	if _, ok := r.found[key]; !ok || whole {
		r.found[key] = object
	}
}

// keyOf returns what identifies an object in all versions of its kind.
func keyOf(object *unstructured.Unstructured) string {
	kind := object.GroupVersionKind()
	return strings.Join([]string{kind.Group, kind.Kind, object.GetNamespace(), object.GetName()}, "\x00")
}

// addNote adds a note, once.
func (r *reading) addNote(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes[fmt.Sprintf(format, args...)] = true
}

// gitVersion returns the version in the answer of /version.
func gitVersion(data []byte) (string, error) {
	var info version.Info
	if err := json.Unmarshal(data, &info); err != nil {
		return "", err
	}
	if info.GitVersion == "" {
		return "", errors.New("it names no version")
	}
	return info.GitVersion, nil
}

// ServiceRanges returns the ranges of services' cluster IPs, in the form of
// --service-cluster-ip-range, or "" if they are not among the objects.
func ServiceRanges(objects []*unstructured.Unstructured) string {
	i := slices.IndexFunc(objects, IsServiceRange)
	if i < 0 {
		return ""
	}
	ranges, _, _ := unstructured.NestedStringSlice(objects[i].Object, "spec", "cidrs")
	return strings.Join(ranges, ",")
}

// IsServiceRange reports whether an object has the ranges of services' cluster IPs.
func IsServiceRange(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == serviceRanges.GroupKind() && o.GetName() == "kubernetes"
}

// compareAge orders objects as admission does to find the default class: the newest first, and those
// of the same second by name.
func compareAge(a, b *unstructured.Unstructured) int {
	at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return cmp.Or(bt.Compare(at.Time), strings.Compare(a.GetName(), b.GetName()))
}
