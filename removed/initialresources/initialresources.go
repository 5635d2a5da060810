// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package initialresources implements the admission plugin InitialResources, which estimates how
// much cpu and memory a container needs if the container doesn't say it. The estimate is a
// percentile of what containers of the same image have used, by the metrics of a Prometheus server.
// Kubernetes had the plugin as an experiment with InfluxDB.
//
// The plugin looks at containers and init containers of new pods that have neither a request nor a
// limit for a resource, unless the pod itself has one in spec.resources. By default it only writes
// the estimates into the pod's annotation kubernetes.io/initial-resources. With apply: Request in
// its configuration they become the containers' requests.
//
// Samples are taken every five minutes for each container. An estimate needs a minimum number of
// samples, which the plugin looks for in these places, one after the other, each first in the short
// time window and then in the long one: the image with its tag in the pod's namespace; the image
// with its tag in all namespaces, unless the configuration allows only the pod's own; the image
// with any tag. The percentile applies twice, over time and over containers. Images are compared by
// the names that container runtimes report.
//
// A failure never refuses a pod: the pod is admitted unchanged and counted in the metric
// gatehouse_initial_resources_estimates_total. All queries for a pod share one timeout. Answers are
// remembered for ten minutes. After Prometheus was unreachable, or didn't answer a query within
// half of the timeout, the plugin doesn't ask it for ten seconds.
package initialresources

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/podspec"
)

const (
	name = "InitialResources"

	// annotation is the pod's annotation that lists the containers and their estimates.
	annotation = "kubernetes.io/initial-resources"
	// annotationStart is the beginning of its value, as upstream had it.
	annotationStart = "Initial Resources plugin set: "
)

var pods = corev1.Resource("pods")

//go:embed README.md
var manual string

// Descriptor describes InitialResources. It needs its configuration, of kind
// InitialResourcesConfiguration, and nothing else.
//
//schema:configuration fileFormat InitialResourcesConfiguration gatehouse.dev/v1alpha1
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Estimates what containers need that don't say it, from what others of their image have used",
	Manual:     manual,
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create},
	Resources:  plugin.On(pods),
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		c, err := load(config)
		if err != nil {
			return nil, err
		}
		registerMetrics()
		return &initialResources{
			estimator: newEstimator(c, newPrometheus(c.address)),
			request:   c.apply == applyRequest,
			calls:     env.Webhooks,
		}, nil
	},
}

type initialResources struct {
	estimator *estimator
	// request is true if estimates become requests.
	request bool
	// calls says whether the plugin asks Prometheus at all.
	calls plugin.WebhookCalls
}

var _ plugin.Mutator = &initialResources{}

// Admit estimates the resources that the containers of a new pod don't state. It refuses nothing.
func (p *initialResources) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	lacking := unsetResources(&pod.Spec)
	if len(lacking) == 0 {
		return nil
	}
	about := func() string { return imagesOf(lacking) }
	if ask, err := p.calls.Ask(a, name, p.estimator.prometheus.url, about); !ask || err != nil {
		return nil
	}
	again := a.GetReinvocationContext()
	p.set(pod, lacking, p.estimator.estimates(ctx, a.GetNamespace(), lacking), again != nil && again.IsReinvoke())
	return nil
}

// unsetResource names a resource for which a container has neither a request nor a limit.
type unsetResource struct {
	container *corev1.Container
	// kind is the container's kind in the annotation.
	kind     string
	resource corev1.ResourceName
}

// estimated holds the resources that the plugin estimates, in the order of the annotation.
var estimated = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// unsetResources returns the unset resources of a pod in the order of its containers.
func unsetResources(spec *corev1.PodSpec) []unsetResource {
	var all []unsetResource
	look := func(containers []corev1.Container, kind string) {
		for i := range containers {
			for _, r := range estimated {
				if !podspec.Says(&containers[i].Resources, r) && !podspec.Says(spec.Resources, r) {
					all = append(all, unsetResource{&containers[i], kind, r})
				}
			}
		}
	}
	look(spec.InitContainers, "init container")
	look(spec.Containers, "container")
	return all
}

// imagesOf returns the images of the containers, in words.
func imagesOf(lacking []unsetResource) string {
	var images []string
	for _, l := range lacking {
		if !slices.Contains(images, l.container.Image) {
			images = append(images, l.container.Image)
		}
	}
	return "what images " + strings.Join(images, ", ") + " have used"
}

// set writes the estimates into the pod. Each belongs to the element of lacking with its index; nil
// is none. again is true if the plugin runs on this pod once more. If the former estimates have
// become requests by then, the annotation keeps them.
func (p *initialResources) set(pod *corev1.Pod, lacking []unsetResource, estimates []*resource.Quantity, again bool) {
	var set []string
	for i := 0; i < len(lacking); {
		container, kind := lacking[i].container, lacking[i].kind
		var got []string
		for ; i < len(lacking) && lacking[i].container == container; i++ {
			if estimates[i] == nil {
				continue
			}
			got = append(got, fmt.Sprintf("%s=%s", lacking[i].resource, estimates[i]))
			if p.request {
				if container.Resources.Requests == nil {
					container.Resources.Requests = corev1.ResourceList{}
				}
				container.Resources.Requests[lacking[i].resource] = estimates[i].DeepCopy()
			}
		}
		if len(got) > 0 {
			set = append(set, fmt.Sprintf("%s request for %s %s", strings.Join(got, ", "), kind, container.Name))
		}
	}
	if len(set) == 0 {
		return
	}
	value := annotationStart + strings.Join(set, "; ")
	if before := pod.Annotations[annotation]; again && p.request && strings.HasPrefix(before, annotationStart) {
		value = before + "; " + strings.Join(set, "; ")
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[annotation] = value
}
