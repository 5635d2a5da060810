// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Command initializers is an initializer, as a start for your own. It adds registry.example to
// images that name no registry, and refuses pods with an image that names no version.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"

	"gatehouse.dev/removed/apis/initializers"
)

const (
	// name is this initializer's name in the list of a pod that waits for it.
	name     = "podimage.example.com"
	registry = "registry.example/"
)

// decide does the work: it changes the pod, or returns the reason why there must not be such a pod.
func decide(pod *corev1.Pod) (refusal string) {
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		if !strings.Contains(container.Image, ":") {
			return fmt.Sprintf("image %s has no tag", container.Image)
		}
		if !strings.Contains(container.Image, "/") {
			container.Image = registry + container.Image
		}
	}
	return ""
}

// initialize works on a pod if it is this initializer's turn, and leaves other pods alone.
func initialize(ctx context.Context, client kubernetes.Interface, cached *corev1.Pod) error {
	pending := initializers.Pending(cached.Annotations[initializers.PendingAnnotation])
	if len(pending) == 0 || pending[0] != name || cached.Annotations[initializers.ErrorAnnotation] != "" {
		return nil
	}
	pod := cached.DeepCopy()
	if refusal := decide(pod); refusal != "" {
		// Drop the changes made so far: only the annotation counts.
		pod = cached.DeepCopy()
		pod.Annotations[initializers.ErrorAnnotation] = refusal
	} else {
		pod.Annotations[initializers.PendingAnnotation] = strings.Join(pending[1:], ",")
	}
	_, err := client.CoreV1().Pods(pod.Namespace).Update(ctx, pod, metav1.UpdateOptions{})
	return err
}

// run works as the initializer of a cluster until ctx ends.
func run(ctx context.Context, config *rest.Config, ready func()) error {
	// An initializer must see objects that wait.
	client, err := kubernetes.NewForConfig(initializers.Including(config))
	if err != nil {
		return err
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	enqueue := func(object any) {
		if key, err := cache.MetaNamespaceKeyFunc(object); err == nil {
			queue.Add(key)
		}
	}
	if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
	}); err != nil {
		return err
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	if err := factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		return err
	}
	ready()
	context.AfterFunc(ctx, queue.ShutDown)
	for {
		key, shutdown := queue.Get()
		if shutdown {
			return nil
		}
		namespace, podName, err := cache.SplitMetaNamespaceKey(key)
		if err == nil {
			var pod *corev1.Pod
			if pod, err = pods.Lister().Pods(namespace).Get(podName); err == nil {
				err = initialize(ctx, client, pod)
			} else {
				err = nil // the pod is gone
			}
		}
		if err != nil {
			log.Printf("%s: %v", key, err)
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}

func main() {
	config,
		err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(),
		nil).ClientConfig()
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, config, func() { fmt.Println("initializing pods") }); err != nil {
		log.Fatal(err)
	}
}
