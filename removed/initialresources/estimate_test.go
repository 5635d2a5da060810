// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initialresources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/component-base/metrics/legacyregistry"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// The order is that of upstream's getEstimation, but that an image without its tag is looked for in
// every window.
func TestQueries(t *testing.T) {
	const (
		ns     = `,namespace="ns"`
		same   = `(docker\\.io/library/web:1|web:1)`
		anyTag = `(docker\\.io/library/web|web)(:[^/@]*)?(@.*)?`
		use    = `container_memory_working_set_bytes{image=~"%s"%s}`
		week   = 604800
		month  = 2592000
	)
	query := func(image, namespaces string, window int) string {
		use, over := fmt.Sprintf(use, image, namespaces), fmt.Sprintf("[%ds:300s]", window)
		return "quantile_over_time(0.9, quantile(0.9, " + use + ")" + over + ") and sum_over_time(count(" + use + ")" +
			over + ") >= 30"
	}
	for name, test := range map[string]struct {
		config string
		want   []string
	}{
		"all namespaces": {"", []string{
			query(same, ns, week), query(same, ns, month), query(same, "", week), query(same, "", month),
			query(anyTag, "", week), query(anyTag, "", month),
		}},
		"same namespace only": {"sameNamespaceOnly: true", []string{
			query(same, ns, week), query(same, ns, month), query(anyTag, ns, week), query(anyTag, ns, month),
		}},
		"one window": {"windows: [1h]",
			[]string{query(same, ns, 3600), query(same, "", 3600), query(anyTag, "", 3600)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := always("", "")
			built(t, s, nowhere+test.config).Admit(t,
				plugintest.Create(with(pod("web:1"), saying(0, "cpu=1", "")))).Admitted(t)
			if !slices.Equal(s.queries, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(s.queries, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
	s := always("1", "1")
	p := built(t, s, nowhere+"percentile: 95\nminimumSamples: 7")
	p.Admit(t, plugintest.Create(with(pod("registry.example:5000/web"), saying(0, "memory=1", "")))).Admitted(t)
	const cpu = `sum without (cpu) (rate(container_cpu_usage_seconds_total{` +
		`image=~"registry\\.example:5000/web:latest",namespace="ns"}[300s]))`
	want := "quantile_over_time(0.95, quantile(0.95, " + cpu + ")[604800s:300s]) and sum_over_time(count(" + cpu +
		")[604800s:300s]) >= 7"
	if !slices.Equal(s.queries, []string{want}) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(s.queries, "\n"), want)
	}
}

// counted is what the metric says of memory, by result.
func counted(t *testing.T, result string) (count float64) {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "gatehouse_initial_resources_estimates_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["resource"] == "memory" && labels["result"] == result {
				count += metric.GetCounter().GetValue()
			}
		}
	}
	return count
}

// Whatever the source does, the pod is admitted, and the metric says what came of it.
func TestSource(t *testing.T) {
	const (
		few, failed = "not_enough_data", "source_failed"
	)
	for name, test := range map[string]struct {
		source *source
		want   string // the estimate, or what the metric says
	}{
		"an estimate":        {always("", "2097152"), "2Mi"},
		"rounded up":         {always("", "2097153"), "3Mi"},
		"in exponents":       {always("", "1.048576e+09"), "1000Mi"},
		"nothing used":       {always("", "0"), "1Mi"},
		"no samples":         {always("", ""), few},
		"not a number":       {always("", "NaN"), few},
		"infinite":           {always("", "+Inf"), few},
		"negative":           {always("", "-1"), few},
		"more than there is": {always("", "1e300"), few},
		"refused connection": {failing(0, "", errors.New("connection refused")), failed},
		"query too large": {failing(422,
			`{"status":"error","errorType":"execution","error":"query processing would load too many samples into `+
				`memory in query execution"}`, nil), failed},
		"400": {failing(400, `{"status":"error","errorType":"bad_data","error":"parse error"}`,
			nil), failed},
		"500": {failing(500, `{"status":"error","errorType":"internal","error":"disk"}`, nil),
			failed},
		"503, of something else":       {failing(503, `upstream connect error`, nil), failed},
		"an error that says it's fine": {failing(200, `{"status":"error","error":"?"}`, nil), failed},
		"garbage":                      {failing(200, `<html>`, nil), failed},
		"nothing":                      {failing(200, ``, nil), failed},
		"null":                         {failing(200, `null`, nil), failed},
		"another type": {failing(200, `{"status":"success","data":{"resultType":"matrix","result":[]}}`,
			nil), failed},
		"two elements": {failing(200, vector("1", "2"), nil), failed},
		"no value": {failing(200,
			`{"status":"success","data":{"resultType":"vector","result":[{}]}}`, nil), failed},
		"a value that is none": {failing(200, vector("many"), nil), failed},
		"half an answer":       {failing(200, vector("1")[:60], nil), failed},
		"too long an answer":   {failing(200, strings.Repeat(" ", maxAnswer)+vector("1"), nil), failed},
	} {
		t.Run(name, func(t *testing.T) {
			p := built(t, test.source, nowhere)
			given := with(pod("a"), saying(0, "cpu=1", ""))
			fewBefore, failedBefore := counted(t, few), counted(t, failed)
			result := p.Admit(t, plugintest.Create(given)).Admitted(t)
			annotation := result.Object.(*corev1.Pod).Annotations["kubernetes.io/initial-resources"]
			// plugintest calls the plugin twice.
			switch fewNow, failedNow := counted(t, few)-fewBefore, counted(t, failed)-failedBefore; {
			case test.want == few && (result.Changed || fewNow != 2 || failedNow != 0),
				test.want == failed && (result.Changed || fewNow != 0 || failedNow != 2):
				t.Errorf("changed %t, too few %v, failed %v", result.Changed, fewNow, failedNow)
			case test.want != few && test.want != failed &&
				annotation != "Initial Resources plugin set: memory="+test.want+" request for container c0":
				t.Errorf("got %s, want %s", annotation, test.want)
			}
			test.source.asked()
			p.Admit(t, plugintest.Create(given)).Admitted(t)
			if n := test.source.asked(); n != 0 {
				t.Errorf("%d queries for the next pod of the same image", n)
			}
		})
	}
}

// Replicas cost queries once, and then every ten minutes.
func TestAnswersAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := always("1", "")
		p := built(t, s, nowhere)
		is := func(namespace, image string, asked int) {
			t.Helper()
			given := pod(image, image)
			given.Namespace = namespace
			if p.Admit(t, plugintest.Create(given)).Admitted(t); s.asked() != asked {
				t.Errorf("%s in %s: not %d queries", image, namespace, asked)
			}
		}
		is("ns", "web:1", 1+6)
		is("ns", "web:1", 0)
		is("ns", "web:2", 1+6)
		is("other", "web:1", 1+6)
		time.Sleep(10*time.Minute - time.Second)
		is("ns", "web:1", 0)
		time.Sleep(2 * time.Second)
		is("ns", "web:1", 1+6)
	})
}

// A Prometheus that is down, or hangs, holds up one pod and not the next ones, until it may be
// asked again.
func TestSourceIsLeftAlone(t *testing.T) {
	for name, down := range map[string]struct {
		answer func(ctx context.Context, query string) (int, string, error)
		takes  time.Duration
	}{
		"down": {func(context.Context, string) (int, string, error) { return 0, "", errors.New("connection refused") },
			0},
		"hangs": {func(ctx context.Context, _ string) (int, string, error) { <-ctx.Done(); return 0, "", ctx.Err() },
			3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &source{answer: down.answer}
				p := built(t, s, nowhere+"timeout: 3s")
				start := time.Now()
				if p.Admit(t, plugintest.Create(pod("a", "b", "c", "d", "e"))).Admitted(t).Changed ||
					time.Since(start) != down.takes || s.asked() == 0 {
					t.Errorf("took %s", time.Since(start))
				}
				start = time.Now()
				if p.Admit(t, plugintest.Create(pod("f"))).Admitted(t).Changed || time.Since(start) != 0 ||
					s.asked() != 0 {
					t.Errorf("the next one took %s", time.Since(start))
				}
				s.answer = always("1", "1").answer
				time.Sleep(10 * time.Second)
				if !p.Admit(t, plugintest.Create(pod("a"))).Admitted(t).Changed {
					t.Error("no estimate although Prometheus is back")
				}
			})
		})
	}
}

// What a pod or its author does says nothing about Prometheus: nobody can switch the estimates of
// others off.
func TestNoFaultOfTheSource(t *testing.T) {
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprint("image-", i))
	}
	// slow answers every query, after so long.
	slow := func(takes time.Duration) func(context.Context, string) (int, string, error) {
		return func(ctx context.Context, query string) (int, string, error) {
			select {
			case <-time.After(takes):
				return always("", "").answer(ctx, query)
			case <-ctx.Done():
				return 0, "", ctx.Err()
			}
		}
	}
	for name, test := range map[string]struct {
		images   []string
		answer   func(context.Context, string) (int, string, error)
		patience time.Duration // the request's timeout
		goes     bool          // the client, after a second
	}{
		"a client that goes away":   {[]string{"a"}, slow(time.Hour), time.Hour, true},
		"a request of little time":  {[]string{"a"}, slow(time.Second), 500 * time.Millisecond, false},
		"a pod with many questions": {many, slow(700 * time.Millisecond), time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &source{answer: test.answer}
				p := built(t, s, nowhere+"timeout: 3s")
				ctx, cancel := context.WithTimeout(t.Context(), test.patience)
				defer cancel()
				if test.goes {
					time.AfterFunc(time.Second, cancel)
				}
				a := admission.NewAttributesRecord(pod(test.images...), nil, corev1.SchemeGroupVersion.WithKind("Pod"),
					"ns", "p",
					corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
				if err := p.Built.(plugin.Mutator).Admit(ctx, a, nil); err != nil {
					t.Error(err)
				}
				s.answer = always("1", "1").answer
				if !p.Admit(t, plugintest.Create(pod("b"))).Admitted(t).Changed {
					t.Error("no estimate for the next pod")
				}
			})
		})
	}
}

func TestQuestionsOfOnePodAreBounded(t *testing.T) {
	var images []string
	for i := range 40 {
		images = append(images, fmt.Sprint("image-", i))
	}
	s := always("1", "1")
	p := built(t, s, nowhere)
	a := admission.NewAttributesRecord(pod(append(images, images...)...), nil,
		corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
	for _, want := range []int{64, 2*40 - 64, 0} {
		if err := p.Built.(plugin.Mutator).Admit(t.Context(), a, nil); err != nil {
			t.Error(err)
		}
		if n := s.asked(); n != want {
			t.Errorf("%d queries, want %d", n, want)
		}
	}
}
