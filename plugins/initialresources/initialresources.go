// Package initialresources is the plugin InitialResources: a container that doesn't say how much
// cpu or memory it needs gets an estimate, from what containers of the same image have used.
// Kubernetes had it as an experiment, over InfluxDB; here the source is a Prometheus server that
// scrapes the kubelets' cAdvisor metrics.
//
// It is about containers and init containers of new pods that have neither a request nor a limit
// for cpu, or for memory. What a container says is never changed, and where the pod itself says
// what it needs of a resource (spec.resources), its containers share that and need no estimate. By
// default the estimates are only written down, in the pod's annotation
// kubernetes.io/initial-resources; where the configuration says apply: Request, they become the
// containers' requests.
//
// # The estimate
//
// It is a percentile twice over: at 90, nine tenths of the time nine of ten containers used no more
// than that. Their use is looked at every five minutes; each container is a sample then, and fewer
// than the configured minimum of samples make no estimate. These are asked for in turn until there
// are enough:
//
//   - the same image and tag in the pod's namespace, in each of the windows (the last 7 days, the
//     last 30);
//   - the same image and tag in all namespaces, unless only the pod's own may count, in each of the
//     windows;
//   - the image with any tag, in as many namespaces as may count, in each of the windows.
//
// The last samples are of what runs now, and the longer window is for what runs seldom. Images are
// compared by the name that container runtimes report: nginx is docker.io/library/nginx:latest.
//
// # Nothing waits for it long
//
// A pod without an estimate is as good as one that was never looked at, so no failure is a refusal:
// the pod is admitted unchanged, and the metric gatehouse_initial_resources_estimates_total counts
// it. All questions of one pod together get the configured timeout. Answers are remembered for ten
// minutes, also the answer that there are not enough samples. After Prometheus couldn't be reached,
// or a query that had half of that time got no answer, it is left alone for ten seconds, so that a
// dead one doesn't hold up every pod. A request with less time than that, or a pod with too many
// questions, is not Prometheus' fault.
package initialresources

import (
	"context"
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

	// annotation says on a pod which of its containers got which estimate.
	annotation = "kubernetes.io/initial-resources"
	// annotationStart is the beginning of its value, as upstream had it.
	annotationStart = "Initial Resources plugin set: "
)

var pods = corev1.Resource("pods")

// Descriptor is InitialResources, not yet built. It needs its configuration, of kind
// InitialResourcesConfiguration, and nothing else.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Estimates what containers need that don't say it, from what others of their image have used",
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
	// request says that estimates become requests.
	request bool
	// calls says whether Prometheus is asked at all.
	calls plugin.WebhookCalls
}

var _ plugin.Mutator = &initialResources{}

// Admit estimates what the containers of a new pod don't say. It refuses nothing.
func (p *initialResources) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod, err := podspec.Pod(name, a.GetObject())
	if err != nil {
		return err
	}
	lacking := lacking(&pod.Spec)
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

// A lack is one resource of which a container says nothing.
type lack struct {
	container *corev1.Container
	// kind is the container's kind in the annotation.
	kind     string
	resource corev1.ResourceName
}

// estimated are the resources that are, in the order of the annotation.
var estimated = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// lacking is in the order of the containers.
func lacking(spec *corev1.PodSpec) []lack {
	var all []lack
	look := func(containers []corev1.Container, kind string) {
		for i := range containers {
			for _, r := range estimated {
				if !podspec.Says(&containers[i].Resources, r) && !podspec.Says(spec.Resources, r) {
					all = append(all, lack{&containers[i], kind, r})
				}
			}
		}
	}
	look(spec.InitContainers, "init container")
	look(spec.Containers, "container")
	return all
}

// imagesOf are the images of the containers, in words.
func imagesOf(lacking []lack) string {
	var images []string
	for _, l := range lacking {
		if !slices.Contains(images, l.container.Image) {
			images = append(images, l.container.Image)
		}
	}
	return "what images " + strings.Join(images, ", ") + " have used"
}

// set writes down the estimates, each of the lack at its index; nil is none. again tells that the
// plugin runs on this pod once more: where the former estimates are requests by now, the annotation
// keeps them.
func (p *initialResources) set(pod *corev1.Pod, lacking []lack, estimates []*resource.Quantity, again bool) {
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
