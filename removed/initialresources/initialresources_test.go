// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initialresources

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

const (
	head    = "apiVersion: gatehouse.dev/v1alpha1\nkind: InitialResourcesConfiguration\n"
	nowhere = head + "address: http://prometheus.example:9090\n"
	digest  = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// pod has containers c0, c1, … of these images.
func pod(images ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for i, image := range images {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: image})
	}
	return p
}

func with(p *corev1.Pod, changes ...func(*corev1.Pod)) *corev1.Pod {
	for _, change := range changes {
		change(p)
	}
	return p
}

func annotated(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, "kubernetes.io/initial-resources", value)
	}
}

func withInit(image string, resources corev1.ResourceRequirements) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers,
			corev1.Container{Name: fmt.Sprint("i", len(p.Spec.InitContainers)), Image: image, Resources: resources})
	}
}

// saying gives the container c<i> requests and limits, each like "cpu=1 memory=2Gi".
func saying(i int, requests, limits string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[i].Resources = resources(requests, limits) }
}

func resources(requests, limits string) corev1.ResourceRequirements {
	list := func(text string) corev1.ResourceList {
		var parsed corev1.ResourceList
		for _, one := range strings.Fields(text) {
			if parsed == nil {
				parsed = corev1.ResourceList{}
			}
			name, quantity, _ := strings.Cut(one, "=")
			parsed[corev1.ResourceName(name)] = resource.MustParse(quantity)
		}
		return parsed
	}
	return corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}

// source stands in for Prometheus where what it would answer doesn't matter. It answers a query
// with a status and a body.
type source struct {
	answer func(ctx context.Context, query string) (int, string, error)

	mu      sync.Mutex
	queries []string
}

func (s *source) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	query := r.PostForm.Get("query")
	s.mu.Lock()
	s.queries = append(s.queries, query)
	s.mu.Unlock()
	status, body, err := s.answer(r.Context(), query)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Status: http.StatusText(status),
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
		Request: r}, nil
}

// asked is how often the source was asked since the last time.
func (s *source) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.queries)
	s.queries = nil
	return n
}

func vector(values ...string) string {
	var elements []string
	for _, value := range values {
		elements = append(elements, fmt.Sprintf(`{"metric":{},"value":[1435781451.781,%q]}`, value))
	}
	return `{"status":"success","data":{"resultType":"vector","result":[` + strings.Join(elements, ",") + `]}}`
}

// always is a source that says the same of every image.
func always(cpu, memory string) *source {
	return &source{answer: func(_ context.Context, query string) (int, string, error) {
		of := memory
		if strings.Contains(query, "cpu") {
			of = cpu
		}
		if of == "" {
			return 200, vector(), nil
		}
		return 200, vector(of), nil
	}}
}

func failing(status int, body string, err error) *source {
	return &source{answer: func(context.Context, string) (int, string, error) { return status, body, err }}
}

func built(t testing.TB, s *source, config string) *plugintest.Plugin {
	p := plugintest.New(t, Descriptor, config)
	p.Built.(*initialResources).estimator.prometheus.client.Transport = s
	return p
}

// The annotation is upstream's (kubernetes 1.8,
// plugin/pkg/admission/initialresources/admission_test.go), with the quantities in it.
func TestAdmit(t *testing.T) {
	for name, test := range map[string]struct {
		given      *corev1.Pod
		annotation string            // after its beginning; empty: the pod is unchanged
		requested  func(*corev1.Pod) // what apply: Request sets besides
	}{
		"nothing said": {pod("a"), "cpu=250m, memory=100Mi request for container c0",
			saying(0, "cpu=250m memory=100Mi", "")},
		"a request for cpu": {with(pod("a"), saying(0, "cpu=1", "")), "memory=100Mi request for container c0",
			saying(0, "cpu=1 memory=100Mi", "")},
		"a limit for memory": {with(pod("a"), saying(0, "", "memory=1Gi")), "cpu=250m request for container c0",
			saying(0, "cpu=250m", "memory=1Gi")},
		"zero is said": {with(pod("a"), saying(0, "cpu=0", "memory=0")), "", nil},
		"all said":     {with(pod("a"), saying(0, "cpu=1", "memory=1Gi")), "", nil},
		"other resources": {with(pod("a"), saying(0, "example.com/gpu=1", "example.com/gpu=1")),
			"cpu=250m, memory=100Mi request for container c0",
			saying(0, "example.com/gpu=1 cpu=250m memory=100Mi", "example.com/gpu=1")},
		"several containers": {with(pod("a", "b", "a"), saying(1, "cpu=1 memory=1Gi", "")),
			"cpu=250m, memory=100Mi request for container c0; cpu=250m, memory=100Mi request for container c2",
			func(p *corev1.Pod) {
				saying(0, "cpu=250m memory=100Mi", "")(p)
				saying(2, "cpu=250m memory=100Mi", "")(p)
			}},
		"init containers": {with(pod(), withInit("a", resources("cpu=1", "")), withInit("b", resources("", ""))),
			"memory=100Mi request for init container i0; cpu=250m, memory=100Mi request for init container i1",
			func(p *corev1.Pod) {
				p.Spec.InitContainers[0].Resources, p.Spec.InitContainers[1].Resources = resources("cpu=1 memory=100Mi",
					""), resources("cpu=250m memory=100Mi", "")
			}},
		"the pod says cpu": {with(pod("a"), podLevel("cpu=1")), "memory=100Mi request for container c0",
			saying(0, "memory=100Mi", "")},
		"the pod says both": {with(pod("a"), podLevel("cpu=1 memory=1Gi")), "", nil},
		"not an image":      {pod("UPPER CASE"), "", nil},
		"an annotation is there": {with(pod("a"), annotated("mine")), "cpu=250m, memory=100Mi request for container c0",
			saying(0, "cpu=250m memory=100Mi", "")},
		"no containers": {pod(), "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, apply := range []string{"Annotate", "Request"} {
				want := test.given.DeepCopy()
				if test.annotation != "" {
					annotated("Initial Resources plugin set: " + test.annotation)(want)
					if apply == "Request" {
						test.requested(want)
					}
				}
				got := built(t, always("0.25", "104857600"), nowhere+"apply: "+apply).Admit(t,
					plugintest.Create(test.given)).Admitted(t).Object
				if !apiequality.Semantic.DeepEqual(got, want) {
					t.Errorf("%s: got\n%v\nwant\n%v", apply, got, want)
				}
			}
		})
	}
}

func podLevel(limits string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		said := resources("", limits)
		p.Spec.Resources = &said
	}
}

// What a webhook adds after the plugin ran gets its estimate in the second run, and the annotation
// says both.
func TestSecondRun(t *testing.T) {
	p := built(t, always("0.25", "104857600"), nowhere+"apply: Request")
	given := pod("a")
	a := admission.NewAttributesRecord(given, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
	for range 2 {
		if err := p.Built.(plugin.Mutator).Admit(t.Context(), a, nil); err != nil {
			t.Fatal(err)
		}
		given.Spec.Containers = append(given.Spec.Containers, corev1.Container{Name: "sidecar", Image: "b"})
		a.GetReinvocationContext().SetIsReinvoke()
	}
	want := "Initial Resources plugin set: cpu=250m, memory=100Mi request for container c0; cpu=250m, memory=100Mi " +
		"request for container sidecar"
	if got := given.Annotations["kubernetes.io/initial-resources"]; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	s := always("1", "1")
	p := built(t, s, nowhere)
	for name, request := range map[string]plugintest.Request{
		"update":               plugintest.Update(pod("a"), pod("a")),
		"delete":               plugintest.Delete(pod("a")),
		"binding":              plugintest.Create(&corev1.Binding{}).On("pods", "binding"),
		"ephemeral containers": plugintest.Update(pod("a"), pod("a")).On("pods", "ephemeralcontainers"),
		"resize":               plugintest.Update(pod("a"), pod("a")).On("pods", "resize"),
		"exec":                 plugintest.Connect(pod("a"), "exec", &corev1.PodExecOptions{}),
		"pod templates": plugintest.Create(
			&corev1.PodTemplate{Template: corev1.PodTemplateSpec{Spec: pod("a").Spec}}),
	} {
		if p.Admit(t, request).Admitted(t).Changed || s.asked() > 0 {
			t.Errorf("%s: the object is changed, or the source asked", name)
		}
	}
	p.Admit(t, plugintest.Create(&corev1.ConfigMap{}).On("pods", "")).Refused(t, 400,
		"InitialResources: the object of a request for pods is a *v1.ConfigMap")
}

func TestItIsOff(t *testing.T) {
	if Descriptor.Default || Descriptor.Deprecated != "" {
		t.Errorf("default %t, deprecated %q", Descriptor.Default, Descriptor.Deprecated)
	}
}

func BenchmarkAdmit(b *testing.B) {
	p := built(b, always("1", "1"), nowhere).Built.(plugin.Mutator)
	for name, given := range map[string]*corev1.Pod{
		"said":       with(pod("a"), saying(0, "cpu=1 memory=1Gi", "")),
		"remembered": pod("registry.example/web:1"),
	} {
		b.Run(name, func(b *testing.B) {
			a := admission.NewAttributesRecord(given, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
				corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Admit(b.Context(), a, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Where webhooks aren't called Prometheus isn't either, and the pod stays as it is.
func TestNotCalled(t *testing.T) {
	for calls, want := range map[plugin.WebhookCalls]string{
		plugin.WebhooksSkipped: "at http://prometheus.example:9090/api/v1/query: it would be asked, about what images " +
			"a, b have used, but no webhooks are",
		plugin.WebhooksDown: "",
	} {
		cluster := plugintest.NewCluster(t)
		cluster.Env.Webhooks = calls
		told := ""
		err := cluster.Build(t, Descriptor, strings.Replace(nowhere, "http://", "http://user:secret@", 1)).Observe(
			t.Context(), t, plugin.Mutating, plugintest.Create(pod("a", "b", "a")), plugin.Observe{Want: plugin.Wants{Calls: true},
				Step: func(_ context.Context, step plugin.Step) {
					for _, c := range step.Calls {
						told += fmt.Sprintf("at %s: %s", c.Backend, c.Why)
					}
				}})
		if err != nil || told != want {
			t.Errorf("%s: got %v, and observers are told %q, want %q", calls, err, told, want)
		}
	}
}
