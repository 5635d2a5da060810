// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/chain"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/plugins/alwayspullimages"
	"gatehouse.dev/plugins/defaulttolerationseconds"
	"gatehouse.dev/plugins/extendedresourcetoleration"
	"gatehouse.dev/plugins/limitpodhardantiaffinitytopology"
	"gatehouse.dev/plugins/limitranger"
	"gatehouse.dev/plugins/podnodeselector"
	"gatehouse.dev/plugins/podsecurity"
	"gatehouse.dev/plugins/podtolerationrestriction"
	"gatehouse.dev/plugins/resourcequota"
	"gatehouse.dev/plugins/serviceaccount"
	"gatehouse.dev/remote"
	"gatehouse.dev/webhook/server"
)

// largePod returns a pod with many containers. With extended, each requests a resource of its own.
func largePod(containers int, extended bool, pull corev1.PullPolicy) *corev1.Pod {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "large", Namespace: "shop"},
		Spec:       corev1.PodSpec{ServiceAccountName: "default"}}
	for i := range containers {
		c := corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "nginx", ImagePullPolicy: pull}
		list := corev1.ResourceList{"cpu": resource.MustParse("1m")}
		if extended {
			list[corev1.ResourceName(fmt.Sprintf("example.com/r%d", i))] = resource.MustParse("1")
		}
		c.Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

// largeReview returns the AdmissionReview of the creation of a pod.
func largeReview(tb testing.TB, pod *corev1.Pod) []byte {
	tb.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		tb.Fatal(err)
	}
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{UID: "1", Operation: admissionv1.Create, Name: pod.Name,
			Namespace: pod.Namespace, Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Object:   runtime.RawExtension{Raw: raw}}})
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

// podPlugins returns a chain of what looks at every container of a pod, or what it requests.
func podPlugins(tb testing.TB) *chain.Chain {
	tb.Helper()
	shop := metav1.ObjectMeta{Name: "shop", Namespace: "shop"}
	cluster := plugintest.NewCluster(tb,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{
			"scheduler.alpha.kubernetes.io/node-selector": "env=prod",
			"scheduler.alpha.kubernetes.io/defaultTolerations": `[{"key":"dedicated","operator":"Equal",` +
				`"value":"shared","effect":"NoSchedule"}]`}}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "shop"}},
		&corev1.LimitRange{ObjectMeta: shop, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{"cpu": resource.MustParse("1m")},
			Max: corev1.ResourceList{"cpu": resource.MustParse("2m")}}}}},
		&corev1.ResourceQuota{ObjectMeta: shop, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			"limits.cpu": resource.MustParse("1k")}}, Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{"limits.cpu": resource.MustParse("1k")},
			Used: corev1.ResourceList{"limits.cpu": resource.MustParse("0")}}})
	c, err := chain.New([]plugin.Descriptor{limitranger.Descriptor, serviceaccount.Descriptor,
		limitpodhardantiaffinitytopology.Descriptor, alwayspullimages.Descriptor, securityContextDeny,
		podsecurity.Descriptor, podnodeselector.Descriptor, defaulttolerationseconds.Descriptor,
		podtolerationrestriction.Descriptor, extendedresourcetoleration.Descriptor, resourcequota.Descriptor},
		nil, cluster.Env)
	if err != nil {
		tb.Fatal(err)
	}
	cluster.Env.Informers.Start(cluster.Env.Done)
	cluster.Env.Informers.WaitForCacheSync(cluster.Env.Done)
	return c
}

// post has the handler answer a review.
func post(tb testing.TB, handler http.Handler, body []byte, allowed bool) {
	tb.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(tb.Context(), http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), fmt.Sprintf(`"allowed":%v`, allowed)) {
		tb.Fatalf("%d: %.1000s", w.Code, w.Body)
	}
}

// largeReviews calls do for reviews of pods with many containers: that change all of them, allow
// all, or refuse all, and with a resource of its own for each container.
func largeReviews(tb testing.TB, do func(name string, post func(tb testing.TB, containers int))) {
	c := podPlugins(tb)
	for _, review := range []struct {
		name    string
		handler server.FallibleHandler
		pull    corev1.PullPolicy
		allowed bool
	}{
		{"mutate", remote.Mutate(c), corev1.PullNever, true},
		{"validate", remote.Validate(c), corev1.PullAlways, true},
		{"refuse", remote.Validate(c), corev1.PullNever, false},
	} {
		for _, extended := range []bool{false, true} {
			bodies := map[int][]byte{}
			do(fmt.Sprintf("%s/extended=%v", review.name, extended), func(tb testing.TB, containers int) {
				if bodies[containers] == nil {
					bodies[containers] = largeReview(tb, largePod(containers, extended, review.pull))
				}
				post(tb, review.handler, bodies[containers], review.allowed)
			})
		}
	}
}

// BenchmarkSize answers reviews of pods with many containers. The time for a container is to be the
// same in each.
func BenchmarkSize(b *testing.B) {
	largeReviews(b, func(name string, post func(tb testing.TB, containers int)) {
		for _, containers := range []int{1000, 2000, 4000, 8000} {
			b.Run(fmt.Sprintf("%s/containers=%d", name, containers), func(b *testing.B) {
				post(b, containers) // what is made once
				b.ReportAllocs()
				for b.Loop() {
					post(b, containers)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(containers), "ns/container")
			})
		}
	})
}
