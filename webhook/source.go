package webhook

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/webhook/backend"
	"gatehouse.dev/webhook/manifest"
)

// source keeps the snapshot of all configurations of one kind.
type source[T manifest.Configuration] struct {
	compiler *compiler
	// list returns the configurations that the API has.
	list func(labels.Selector) ([]T, error)
	// manifests are those that it doesn't have; nil without staticManifestsDir.
	manifests *manifest.Set[T]

	current atomic.Pointer[snapshot]
	// synced is closed once current has what the API had at the start.
	synced chan struct{}

	changed chan struct{}
	// compiled is what current was compiled from, by name and whether it is static; only refresh
	// uses it.
	compiled map[configurationKey]compiledConfiguration[T]
}

type configurationKey struct {
	name   string
	static bool
}

type compiledConfiguration[T manifest.Configuration] struct {
	object T
	hooks  []*hook
}

// newSource returns a source that has the manifests in force.
func newSource[T manifest.Configuration](c *compiler, list func(labels.Selector) ([]T, error),
	manifests *manifest.Set[T]) *source[T] {
	s := &source[T]{compiler: c, list: list, manifests: manifests, synced: make(chan struct{}),
		changed: make(chan struct{}, 1)}
	s.current.Store(newSnapshot(nil))
	s.refresh(nil)
	return s
}

// watch follows the informer, and the manifests, until done is closed.
func (s *source[T]) watch(informer cache.SharedIndexInformer, done <-chan struct{}) error {
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.notify() },
		UpdateFunc: func(any, any) { s.notify() },
		DeleteFunc: func(any) { s.notify() },
	})
	if err != nil {
		return err
	}
	if s.manifests != nil {
		go s.manifests.Run(wait.ContextForChannel(done), s.notify)
	}
	go s.run(registration.HasSyncedChecker().Done(), done)
	return nil
}

// notify has a new snapshot made. Changes that come while one is being made are in the next,
// together.
func (s *source[T]) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// run follows what changes, until done is closed. cached is closed when the cache has what the API
// had at the start.
func (s *source[T]) run(cached, done <-chan struct{}) {
	for {
		select {
		case <-cached:
			cached = nil // nothing comes from nil: this case is for once
			s.refreshFromAPI()
			close(s.synced)
		case <-s.changed:
			s.refreshFromAPI()
		case <-done:
			// Another server may go on in this process.
			s.compiler.backends.Retain(nil)
			return
		}
	}
}

func (s *source[T]) refreshFromAPI() {
	configurations, err := s.list(labels.Everything())
	if err != nil {
		// It is a list of the cache, which doesn't fail.
		utilruntime.HandleError(fmt.Errorf("listing webhook configurations: %w", err))
		return
	}
	s.refresh(configurations)
}

// refresh puts a snapshot in force of the manifests and of configurations, which the API has.
func (s *source[T]) refresh(configurations []T) {
	compiled := make(map[configurationKey]compiledConfiguration[T], len(configurations))
	var hooks []*hook
	if s.manifests != nil {
		hooks = s.compile(hooks, s.manifests.Current(), true, compiled)
	}
	hooks = s.compile(hooks, configurations, false, compiled)
	s.compiled = compiled
	if slices.Equal(hooks, s.current.Load().hooks) {
		return // keeping the index
	}
	clients := make([]*backend.Client, 0, len(hooks))
	for _, h := range hooks {
		if client := h.client.Load(); client != nil {
			clients = append(clients, client)
		}
	}
	s.current.Store(newSnapshot(hooks))
	s.compiler.backends.Retain(clients)
}

// compile appends the webhooks of configurations to hooks, in order of the configurations' names,
// and enters them into compiled. What was compiled before and is the same is taken over.
func (s *source[T]) compile(hooks []*hook, configurations []T, static bool,
	compiled map[configurationKey]compiledConfiguration[T]) []*hook {
	sorted := slices.SortedFunc(slices.Values(configurations),
		func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	for _, object := range sorted {
		key := configurationKey{object.GetName(), static}
		c := s.compiled[key]
		if c.object != object {
			c = compiledConfiguration[T]{object, s.compileOne(object, static, c.hooks)}
		}
		compiled[key] = c
		hooks = append(hooks, c.hooks...)
	}
	return hooks
}

func (s *source[T]) compileOne(object T, static bool, before []*hook) []*hook {
	known := make(map[string]*hook, len(before))
	for _, h := range before {
		known[h.uid] = h
	}
	webhooks := manifest.Webhooks(object)
	hooks := make([]*hook, len(webhooks))
	occurrences := make(map[string]int, len(webhooks))
	for i, spec := range webhooks {
		uid := fmt.Sprintf("%s/%s/%d", object.GetName(), spec.Name, occurrences[spec.Name])
		if static {
			uid = "manifest/" + uid
		}
		occurrences[spec.Name]++
		if h := known[uid]; h != nil && apiequality.Semantic.DeepEqual(h.spec, spec) {
			hooks[i] = h
			continue
		}
		hooks[i] = s.compiler.compile(spec, uid, object.GetName(), static)
	}
	return hooks
}
