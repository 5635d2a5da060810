package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"gatehouse.dev/quota"
)

// podCosts are what all pods cost, as a watch tells it: late, but at hand without a list of all pods. It is a store for a cache.Reflector, and keeps
// nothing else of a pod.
type podCosts struct {
	client  kubernetes.Interface
	start   sync.Once
	running sync.WaitGroup

	mu     sync.Mutex
	synced bool
	costs  map[string]map[string]*quota.Cost // by namespace and name
}

// of returns the costs of a namespace's pods; ok is false where they aren't known yet. The first who asks starts the watch.
func (p *podCosts) of(ctx context.Context, namespace string) (costs []*quota.Cost, ok bool) {
	p.start.Do(func() {
		pods := cache.NewListWatchFromClient(p.client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, fields.Everything())
		reflector := cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(pods, p.client), &corev1.Pod{}, p, cache.ReflectorOptions{})
		p.running.Go(func() { reflector.RunWithContext(ctx) })
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, cost := range p.costs[namespace] {
		costs = append(costs, cost.At(now))
	}
	return costs, p.synced
}

// priced is what is kept of a pod while a list of them comes in: what it is found by, and what it costs.
type priced struct {
	metav1.ObjectMeta
	cost *quota.Cost
}

// price is that of a pod, which may have been priced already.
func price(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	cost, err := quota.CostOf(corev1.Resource("pods"), pod)
	return &priced{metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, cost}, err
}

// Transformer implements cache.TransformingStore.
func (p *podCosts) Transformer() cache.TransformFunc { return price }

// Replace implements cache.ReflectorStore.
func (p *podCosts) Replace(objects []any, _ string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.costs, p.synced = map[string]map[string]*quota.Cost{}, true
	for _, object := range objects {
		if err := p.put(object); err != nil {
			return err
		}
	}
	return nil
}

// Add implements cache.ReflectorStore.
func (p *podCosts) Add(object any) error { return p.Update(object) }

// Update implements cache.ReflectorStore.
func (p *podCosts) Update(object any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.put(object)
}

func (p *podCosts) put(object any) error {
	object, err := price(object)
	if err != nil {
		return err
	}
	pod, ok := object.(*priced)
	if !ok {
		return fmt.Errorf("%T is not a pod", object)
	}
	if p.costs[pod.Namespace] == nil {
		p.costs[pod.Namespace] = map[string]*quota.Cost{}
	}
	p.costs[pod.Namespace][pod.Name] = pod.cost
	return nil
}

// Delete implements cache.ReflectorStore.
func (p *podCosts) Delete(object any) error {
	pod, ok := object.(metav1.Object)
	if !ok {
		return fmt.Errorf("%T is not a pod", object)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	namespace := p.costs[pod.GetNamespace()]
	delete(namespace, pod.GetName())
	if len(namespace) == 0 {
		delete(p.costs, pod.GetNamespace())
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (p *podCosts) Resync() error { return nil }
