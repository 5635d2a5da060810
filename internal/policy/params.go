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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/internal/expression"
	"gatehouse.dev/plugin"
)

// paramKinds are the kinds of params that policies in force ask for, each with an informer. But for
// their params, only one goroutine uses them.
type paramKinds struct {
	client dynamic.Interface
	mapper meta.RESTMapper
	// retry is called a while after a kind could not be found.
	retry func()
	done  <-chan struct{}
	known map[schema.GroupVersionKind]*paramKind
	// missing are kinds that can't be found.
	missing map[schema.GroupVersionKind]error
}

// paramRetry is how long a kind is taken to be missing without looking again.
//
// Source: policyRefreshIntervalDefault in
// k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_source.go.
const paramRetry = time.Second

func newParamKinds(client dynamic.Interface, mapper meta.RESTMapper, retry func(), done <-chan struct{}) *paramKinds {
	return &paramKinds{client: client, mapper: mapper, retry: retry, done: done,
		known: map[schema.GroupVersionKind]*paramKind{}}
}

// retain begins to watch the kinds that aren't watched yet, and ends what isn't wanted any more.
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
			// In upstream's words, which don't say why.
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

// paramKind has the params of one kind. It is safe for concurrent use.
type paramKind struct {
	kind       schema.GroupVersionKind
	resource   schema.GroupResource
	namespaced bool
	informer   cache.SharedIndexInformer
	synced     <-chan struct{}
	stop       context.CancelFunc

	mu sync.Mutex
	// selected are the params that selectors select, in order of their names, as of the changes
	// that are counted in generation.
	selected   map[selection][]*expression.Params
	generation uint64
}

// selection is one question about the params of a kind.
type selection struct{ namespace, selector string }

// param is what the informer keeps.
type param struct {
	*unstructured.Unstructured
	params *expression.Params
}

func newParamKind(client dynamic.Interface, mapping *meta.RESTMapping, done <-chan struct{}) *paramKind {
	k := &paramKind{
		kind:       mapping.GroupVersionKind,
		resource:   mapping.Resource.GroupResource(),
		namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace,
		informer: dynamicinformer.NewFilteredDynamicInformer(client, mapping.Resource, metav1.NamespaceAll, 0,
			cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}, nil).Informer(),
		selected: map[selection][]*expression.Params{},
	}
	var ctx context.Context
	ctx, k.stop = context.WithCancel(context.Background())
	// An informer that hasn't run yet takes both.
	_ = k.informer.SetTransform(k.transform)
	_, _ = k.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { k.forget() },
		UpdateFunc: func(any, any) { k.forget() },
		DeleteFunc: func(any) { k.forget() },
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

// forget has selectors asked again.
func (k *paramKind) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.selected)
	k.generation++
}

// await returns once params are as they were written, or as they were later.
func (k *paramKind) await(ctx context.Context, written plugin.Written) error {
	err := plugin.Until(ctx, func() bool { return k.informer.HasSynced() && written.In(k.informer.GetStore()) })
	k.forget() // as the informer will have it do, a moment later
	return err
}

// transform makes params of an object, once.
func (k *paramKind) transform(object any) (any, error) {
	if u, ok := object.(*unstructured.Unstructured); ok {
		return &param{u, expression.NewParams(u, k.kind)}, nil
	}
	return object, nil
}

// paramSelector is a parsed selector, or why it can't be parsed.
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

// noParams are those of a policy or a binding without any.
var noParams = []*expression.Params{nil}

// paramsOf are the params that the binding names for a request in the namespace, in order of their
// names. Nil among them is no params; none says that the policy is not to be evaluated.
//
// Source: CollectParams in
// k8s.io/apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go.
func (p *inForce[E]) paramsOf(r *request, b *binding) ([]*expression.Params, error) {
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
	if !r.synced(p.params) {
		return nil, fmt.Errorf("paramKind kind `%v` not yet synced to use for admission", p.paramKind.String())
	}
	var found []*expression.Params
	switch {
	case ref.Namespace != "" && !p.params.namespaced:
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case ref.Name != "" && ref.Selector != nil:
		return nil, errors.New("paramRef.name and paramRef.selector are mutually exclusive")
	case ref.Name != "":
		if params := p.params.named(namespace, ref.Name); params != nil {
			found = []*expression.Params{params}
		}
	case ref.Selector == nil:
		return nil, errors.New("one of name or selector must be provided")
	case b.paramSelector.err != nil:
		return nil, b.paramSelector.err
	default:
		found = p.params.selectedBy(namespace, &b.paramSelector)
	}
	if len(found) == 0 && ref.ParameterNotFoundAction != nil &&
		*ref.ParameterNotFoundAction == admissionregistrationv1.DenyAction {
		return nil, &missingParams{p.paramKind.Kind, namespace, ref}
	}
	return found, nil
}

// missingParams is why a policy isn't evaluated: there are no params that its binding names.
type missingParams struct {
	kind, namespace string
	ref             *admissionregistrationv1.ParamRef
}

// Error is what upstream says.
func (*missingParams) Error() string {
	return "no params found for policy binding with `Deny` parameterNotFoundAction"
}

// which says which params there are none of.
func (m *missingParams) which() string {
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

// named returns the params with a name, nil where there are none.
func (k *paramKind) named(namespace, name string) *expression.Params {
	if namespace != "" {
		name = namespace + "/" + name
	}
	// A store's look-up by key doesn't fail.
	if object, exists, _ := k.informer.GetStore().GetByKey(name); exists {
		return object.(*param).params
	}
	return nil
}

// selectedBy returns the params that the selector selects.
func (k *paramKind) selectedBy(namespace string, s *paramSelector) []*expression.Params {
	question := selection{namespace, s.text}
	k.mu.Lock()
	answer, known := k.selected[question]
	generation := k.generation
	k.mu.Unlock()
	if known {
		return answer
	}
	var objects []any
	if namespace != "" {
		// The index is there.
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
	answer = make([]*expression.Params, len(found))
	for i, object := range found {
		answer[i] = object.(*param).params
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// What changed meanwhile may not be in it.
	if k.generation == generation && len(k.selected) < maxSelections {
		k.selected[question] = answer
	}
	return answer
}

// maxSelections bounds what is remembered of a kind that every namespace has params of.
const maxSelections = 10000
