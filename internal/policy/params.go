// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/internal/timeshare"
	"gatehouse.dev/plugin"
)

// paramKinds holds the kinds of params that policies in force use, each with an informer. It is for
// one goroutine; each paramKind in it is safe for concurrent use.
type paramKinds struct {
	client dynamic.Interface
	mapper meta.RESTMapper
	// retry is called some time after a kind could not be found.
	retry func()
	done  <-chan struct{}
	known map[schema.GroupVersionKind]*paramKind
	// missing holds the kinds that can't be found, each with the error.
	missing map[schema.GroupVersionKind]error
}

// paramRetry is how long to wait before looking for a missing kind again.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_source.go#policyRefreshIntervalDefault eabe8828
const paramRetry = time.Second

func newParamKinds(client dynamic.Interface, mapper meta.RESTMapper, retry func(), done <-chan struct{}) *paramKinds {
	return &paramKinds{client: client, mapper: mapper, retry: retry, done: done,
		known: map[schema.GroupVersionKind]*paramKind{}}
}

// retain starts informers for the kinds that have none and stops those of all other kinds.
func (k *paramKinds) retain(kinds []schema.GroupVersionKind) {
	for kind, watched := range k.known {
		if !slices.Contains(kinds, kind) {
			watched.stop()
			delete(k.known, kind)
		}
	}
	k.missing = map[schema.GroupVersionKind]error{}
	for _, kind := range kinds {
		if k.known[kind] != nil {
			continue
		}
		mapping, err := k.mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			// The words are upstream's, which don't say why.
			k.missing[kind] = fmt.Errorf("failed to find resource referenced by paramKind: '%v'", kind)
			continue
		}
		k.known[kind] = newParamKind(k.client, mapping, k.done)
	}
	if len(k.missing) > 0 {
		time.AfterFunc(paramRetry, k.retry)
	}
}

func (k *paramKinds) get(kind schema.GroupVersionKind) (*paramKind, error) {
	return k.known[kind], k.missing[kind]
}

// paramKind holds the params of one kind. It is safe for concurrent use.
type paramKind struct {
	kind       schema.GroupVersionKind
	resource   schema.GroupResource
	namespaced bool
	client     dynamic.NamespaceableResourceInterface
	informer   cache.SharedIndexInformer
	synced     <-chan struct{}
	stop       context.CancelFunc

	mu sync.Mutex
	// selections caches the params that each selector selects, in order of their names. It is
	// emptied, and generation incremented, at every change.
	selections map[selectionKey][]*expression.Params
	generation uint64
}

// selectionKey is what a selection depends on: a namespace, or "" for all, and a selector.
type selectionKey struct{ namespace, selector string }

// param is an object as the informer keeps it.
type param struct {
	*unstructured.Unstructured
	params *expression.Params
}

func newParamKind(client dynamic.Interface, mapping *meta.RESTMapping, done <-chan struct{}) *paramKind {
	k := &paramKind{
		kind:       mapping.GroupVersionKind,
		resource:   mapping.Resource.GroupResource(),
		namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
		client:     client.Resource(mapping.Resource),
		informer: dynamicinformer.NewFilteredDynamicInformer(client, mapping.Resource, metav1.NamespaceAll, 0,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil).Informer(),
		selections: map[selectionKey][]*expression.Params{},
	}
	var ctx context.Context
	ctx, k.stop = context.WithCancel(context.Background())
	// Neither fails before the informer runs.
	_ = k.informer.SetTransform(k.transform)
	_, _ = k.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { k.forgetSelections() },
		UpdateFunc: func(any, any) { k.forgetSelections() },
		DeleteFunc: func(any) { k.forgetSelections() },
	})
	k.synced = k.informer.HasSyncedChecker().Done()
	go func() {
		select {
		case <-done:
			k.stop()
		case <-ctx.Done():
		}
	}()
	go k.informer.Run(ctx.Done())
	return k
}

// forgetSelections empties the cache of selections.
func (k *paramKind) forgetSelections() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.selections)
	k.generation++
}

// await returns once the informer holds params as they were written, or a later version.
func (k *paramKind) await(ctx context.Context, written plugin.Written) error {
	err := plugin.Until(ctx, func() bool { return k.informer.HasSynced() && written.In(k.informer.GetStore()) })
	k.forgetSelections() // the informer's handler would do it, but a moment later
	return err
}

// transform converts an object to a param, once for all requests.
func (k *paramKind) transform(object any) (any, error) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return &param{u, expression.NewParams(u, k.kind)}, nil
	}
	return object, nil
}

// paramSelector is a parsed selector or, if it can't be parsed, the error.
type paramSelector struct {
	labels.Selector
	text string
	err  error
}

func newParamSelector(stated *metav1.LabelSelector) paramSelector {
	parsed, err := metav1.LabelSelectorAsSelector(stated)
	if err != nil {
		return paramSelector{err: err}
	}
	return paramSelector{Selector: parsed, text: parsed.String()}
}

// noParams are the params of a policy or a binding without any: a single nil.
var noParams = []*expression.Params{nil}

// findParams returns the params that the binding names for a request in the namespace, in order of
// their names. A nil element means: evaluate the policy without params. An empty list means: don't
// evaluate it.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go#CollectParams 9f1c3aa9
func (p *boundPolicy[E]) findParams(ctx context.Context, r *request, b *binding) ([]*expression.Params, error) {
	ref := b.paramRef
	if p.paramKind == nil || ref == nil {
		return noParams, nil
	}
	namespace := ""
	if p.params.namespaced {
		namespace = r.GetNamespace()
		if ref.Namespace != "" {
			namespace = ref.Namespace
		}
		if namespace == "" {
			return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped " +
				"resources")
		}
	}
	if !r.waitForParams(ctx, p.params) {
		return nil, fmt.Errorf("paramKind kind `%v` not yet synced to use for admission", p.paramKind.String())
	}
	var found []*expression.Params
	switch {
	case ref.Namespace != "" && !p.params.namespaced:
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case ref.Name != "" && ref.Selector != nil:
		return nil, errors.New("paramRef.name and paramRef.selector are mutually exclusive")
	case ref.Name != "":
		params, err := p.params.getByName(ctx, namespace, ref.Name)
		if err != nil {
			return nil, err
		}
		if params != nil {
			found = []*expression.Params{params}
		}
	case ref.Selector == nil:
		return nil, errors.New("one of name or selector must be provided")
	case b.paramSelector.err != nil:
		return nil, b.paramSelector.err
	default:
		found = p.params.listBySelector(namespace, &b.paramSelector)
	}
	if len(found) == 0 && ref.ParameterNotFoundAction != nil &&
		*ref.ParameterNotFoundAction == admissionregistrationv1.DenyAction {
		return nil, &missingParams{p.paramKind.Kind, namespace, ref}
	}
	return found, nil
}

// missingParams is the error if the params that a binding names don't exist.
type missingParams struct {
	kind, namespace string
	ref             *admissionregistrationv1.ParamRef
}

// Error returns upstream's message.
func (*missingParams) Error() string {
	return "no params found for policy binding with `Deny` parameterNotFoundAction"
}

// describe returns which params are missing.
func (m *missingParams) describe() string {
	in := ""
	if m.namespace != "" {
		in = fmt.Sprintf(" in namespace %q", m.namespace)
	}
	if m.ref.Name != "" {
		return fmt.Sprintf("%s %q%s", m.kind, m.ref.Name, in)
	}
	return fmt.Sprintf("a %s%s with labels that its selector selects (%s)", m.kind, in,
		metav1.FormatLabelSelector(m.ref.Selector))
}

// readTimeout is how long a request waits for params that are read live.
//
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go#getParamDirectly 29f5215b
const readTimeout = time.Second

// getByName returns the params with a name, nil if there are none. Those that the cache doesn't show
// may just have been created through another server, so they are read from the API. If the kind isn't
// served any more, there are none.
func (k *paramKind) getByName(ctx context.Context, namespace, name string) (*expression.Params, error) {
	key := cache.ObjectName{Namespace: namespace, Name: name}.String()
	// A look-up by key doesn't fail.
	if object, exists, _ := k.informer.GetStore().GetByKey(key); exists {
		return object.(*param).params, nil
	}
	ctx, cancel := timeshare.Limit(ctx)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, readTimeout)
	defer stop()
	object, err := k.client.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return expression.NewParams(object, k.kind), nil
}

// listBySelector returns the params that the selector selects.
func (k *paramKind) listBySelector(namespace string, s *paramSelector) []*expression.Params {
	key := selectionKey{namespace, s.text}
	k.mu.Lock()
	cached, ok := k.selections[key]
	generation := k.generation
	k.mu.Unlock()
	if ok {
		return cached
	}
	var objects []any
	if namespace != "" {
		// The indexer has this index, so there is no error.
		objects, _ = k.informer.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	} else {
		objects = k.informer.GetIndexer().List()
	}
	found := slices.DeleteFunc(objects, func(object any) bool {
		return !s.Matches(labels.Set(object.(*param).GetLabels()))
	})
	slices.SortFunc(found, func(a, b any) int {
		return strings.Compare(a.(*param).GetName(), b.(*param).GetName())
	})
	selected := make([]*expression.Params, len(found))
	for i, object := range found {
		selected[i] = object.(*param).params
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// If something changed meanwhile, the selection may be outdated.
	if k.generation == generation && len(k.selections) < maxSelections {
		k.selections[key] = selected
	}
	return selected
}

// maxSelections bounds the cache of a kind with params in every namespace.
const maxSelections = 10000
