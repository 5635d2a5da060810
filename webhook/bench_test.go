// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"

	"gatehouse.dev/internal/matching"
	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/webhook/review"
)

// benchPod is a pod as large as they are.
func benchPod() *corev1.Pod {
	pod := newPod()
	for i := range 3 {
		c := corev1.Container{
			Name: fmt.Sprintf("container-%d", i), Image: "registry.example.com/team/application:v1.2.3",
			ImagePullPolicy: corev1.PullIfNotPresent,
			Command:         []string{"/bin/application", "--verbose", "--config=/etc/config.yaml"},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
				Limits:   corev1.ResourceList{"memory": resource.MustParse("256Mi")},
			},
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}
		for n := range 8 {
			c.Env = append(c.Env,
				corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", n), Value: "some value of ordinary length"})
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

// Finding a request's webhooks: the same with 10 and with 2,000 that can't match.
func BenchmarkCandidates(b *testing.B) {
	mapper := runtime.NewEquivalentResourceRegistry()
	mapper.RegisterKindFor(gvr("", "v1", "pods"), "", corev1.SchemeGroupVersion.WithKind("Pod"))
	for _, n := range []int{10, 2000} {
		b.Run(fmt.Sprintf("webhooks=%d", n), func(b *testing.B) {
			s := snapshotOf(b, unrelated(n)...)
			a := newAttributes(create, newPod(), nil)
			b.ReportAllocs()
			for b.Loop() {
				if len(s.index.Candidates(matching.TargetOf(a), mapper)) > 0 {
					b.Fatal("found some")
				}
			}
		})
	}
}

// A whole validating phase without a webhook that matches.
func BenchmarkNoMatch(b *testing.B) {
	for _, n := range []int{0, 10, 2000} {
		b.Run(fmt.Sprintf("webhooks=%d", n), func(b *testing.B) {
			p := newPlugins(b, nil, validatingConfiguration("c", unrelated(n)...))
			a, ctx := newAttributes(create, newPod(), nil), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Validating.Validate(ctx, a, interfaces); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// 100 webhooks for pods, each excluded by a match condition of its own: what they add to a request.
func BenchmarkExcludedByCondition(b *testing.B) {
	var webhooks []admissionregistrationv1.MutatingWebhook
	for i := range 100 {
		webhooks = append(webhooks,
			aWebhook(fmt.Sprint(i), nobody(), when(fmt.Sprintf(`object.metadata.name == "other-%d"`, i))))
	}
	p := newPlugins(b, nil, validatingConfiguration("c", webhooks...))
	pod, ctx := benchPod(), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Validating.Validate(ctx, newAttributes(create, pod, nil), interfaces); err != nil {
			b.Fatal(err)
		}
	}
}

// One mutating and three validating webhooks over TLS, and what they must not be 1.3 times as slow
// as: four bare posts of the same bytes to the same backend, three of them at once. Both in turn,
// so that whatever else the machine does concerns both alike; the medians are compared.
//
// A patch costs what it sets, wherever in the object that is; one that can't be applied directly,
// such as one with a test, the way of the whole through JSON.
func BenchmarkFourWebhooks(b *testing.B) {
	b.Run("allowing", func(b *testing.B) { benchFourWebhooks(b, webhooktest.Allow()) })
	b.Run("labelling", func(b *testing.B) {
		benchFourWebhooks(b, webhooktest.Patch(`[{"op":"replace","path":"/metadata/labels/app","value":"api"}]`))
	})
	b.Run("changing the spec", func(b *testing.B) {
		benchFourWebhooks(b,
			webhooktest.Patch(`[{"op":"replace","path":"/spec/containers/0/image",`+
				`"value":"registry.example.com/team/application@sha256:1"}]`))
	})
}

// benchFourWebhooks is BenchmarkFourWebhooks with that mutating webhook.
func benchFourWebhooks(b *testing.B, mutating http.Handler) {
	backend := webhooktest.New(b, webhooktest.Allow())
	patching := webhooktest.New(b, mutating, webhooktest.WithAuthority(backend.Authority))
	p := newPlugins(b, nil, mutatingConfiguration("c", aWebhook("0", patching.ClientConfig("/"))),
		validatingConfiguration("c", aWebhook("1", backend.ClientConfig("/")), aWebhook("2", backend.ClientConfig("/")),
			aWebhook("3", backend.ClientConfig("/"))))
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Minute)
	defer cancel()
	pod := benchPod()
	webhooks := func() {
		// as before the webhook's patch
		pod.Labels["app"], pod.Spec.Containers[0].Image = "web", "i"
		if err := p.Mutating.Admit(ctx, newAttributes(create, pod, nil), interfaces); err != nil {
			b.Fatal(err)
		}
		if err := p.Validating.Validate(ctx, newAttributes(create, pod, nil), interfaces); err != nil {
			b.Fatal(err)
		}
	}

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(backend.Authority.PEM())
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2: true}}
	r := p.Validating.newRequest(newAttributes(create, benchPod(), nil), interfaces)
	match := matching.Match{Resource: gvr("", "v1", "pods"), Kind: corev1.SchemeGroupVersion.WithKind("Pod")}
	encoded, err := r.version(match).getReview()
	if err != nil {
		b.Fatal(err)
	}
	body := slices.Concat(encoded.Review("v1", uuid.NewUUID())...)
	post := func(url string) {
		answer, err := client.Post(url, "application/json", bytes.NewReader(body))
		if err != nil {
			b.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	bare := func() {
		post(patching.URL("/"))
		var three sync.WaitGroup
		for range 3 {
			three.Go(func() { post(backend.URL("/")) })
		}
		three.Wait()
	}

	for range 50 {
		webhooks()
		bare()
	}
	var ours, theirs []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		webhooks()
		middle := time.Now()
		bare()
		ours, theirs = append(ours, middle.Sub(start)), append(theirs, time.Since(middle))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	median, bareMedian := ours[len(ours)/2], theirs[len(theirs)/2]
	b.ReportMetric(float64(median.Microseconds()), "µs/webhooks")
	b.ReportMetric(float64(bareMedian.Microseconds()), "µs/posts")
	b.ReportMetric(float64(median)/float64(bareMedian), "ratio")
}

// A configuration of 1,000 webhooks with different rules, URLs and conditions is compiled, and
// compiled again after one of them changed.
func BenchmarkThousandWebhooks(b *testing.B) {
	var webhooks []admissionregistrationv1.MutatingWebhook
	for i := range 1000 {
		url := fmt.Sprintf("https://webhook-%d.example.com/", i)
		webhooks = append(webhooks, aWebhook(fmt.Sprint(i), admissionregistrationv1.WebhookClientConfig{URL: &url},
			when(fmt.Sprintf(`object.metadata.name == "p%d"`, i)),
			objectSelector(map[string]string{"app": fmt.Sprint(i)})))
	}
	all := mutatingConfiguration("c", webhooks...)
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			newTestSource(b).refresh(all)
		}
	})
	b.Run("one changed", func(b *testing.B) {
		s := newTestSource(b)
		s.refresh(all)
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			changed := all.DeepCopy()
			changed.Webhooks[500].ObjectSelector = &metav1.LabelSelector{
				MatchLabels: map[string]string{"changed": fmt.Sprint(i)},
			}
			s.refresh(changed)
		}
	})
}

// BenchmarkEncode encodes the part of a review that all webhooks with one version share.
func BenchmarkEncode(b *testing.B) {
	pod := benchPod()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := review.EncodeObject(pod); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPatch applies a patch that sets three values in a pod, in its Go object and by its JSON.
func BenchmarkPatch(b *testing.B) {
	pod := benchPod()
	pod.Labels = map[string]string{"app": "shop"}
	patch, err := review.DecodePatch([]byte(`[{"op":"add","path":"/metadata/labels/team","value":"a"},` +
		`{"op":"replace","path":"/spec/containers/0/image","value":"mirror/application:v1.2.3"},` +
		`{"op":"add","path":"/spec/containers/1/env/-","value":{"name":"EXTRA","value":"value"}}]`))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("object", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, _, ok := patchDirectly(pod, patch); !ok {
				b.Fatal("the patch was left to the JSON")
			}
		}
	})
	b.Run("JSON", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, err := patchJSON(pod, patch); err != nil {
				b.Fatal(err)
			}
		}
	})
}
