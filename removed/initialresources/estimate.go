// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initialresources

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/klog/v2"
)

const (
	// resolution is the distance between samples, and the time that a sample of cpu averages.
	resolution = 5 * time.Minute

	// answerMemory is how long an answer is remembered. Windows are of days, so little is missed.
	answerMemory = 10 * time.Minute
	// answersRemembered bounds the memory for answers. Each takes some hundred bytes: images whose
	// names can't be parsed are not remembered.
	answersRemembered = 10_000

	// pause is how long Prometheus isn't asked after it couldn't be reached.
	pause = 10 * time.Second

	// parallel bounds the queries that one pod causes at a time.
	parallel = 4
	// maxQuestions bounds the questions of one pod. The images beyond it can be asked about for a
	// later pod.
	maxQuestions = 64
)

// errCutShort means that the time of the pod or of the request was over before a query had taken
// long. So the error says nothing about Prometheus.
var errCutShort = errors.New("no time left")

// estimator asks Prometheus and remembers what it said.
type estimator struct {
	*configuration
	prometheus *prometheus
	// answers holds values of type estimate, by question.
	answers *cache.LRUExpireCache
	// pausedUntil is when Prometheus may be asked again, in nanoseconds since 1970.
	pausedUntil atomic.Int64
}

// A question holds everything that one estimate depends on. Its image is written as in the pod.
type question struct {
	namespace, image string
	resource         corev1.ResourceName
}

// An estimate is the answer to a question.
type estimate struct {
	// quantity is nil if there is none.
	quantity *resource.Quantity
	// result is the result's name in the metric.
	result string
}

func newEstimator(c *configuration, p *prometheus) *estimator {
	return &estimator{configuration: c, prometheus: p, answers: cache.NewLRUExpireCache(answersRemembered)}
}

// estimates returns the estimates for lacking, by index, nil for none. It returns within the
// timeout.
func (e *estimator) estimates(ctx context.Context, namespace string, lacking []unsetResource) []*resource.Quantity {
	answers := make([]estimate, len(lacking))
	// Containers with the same image have the same estimate.
	var unknown map[question][]int
	for i, lack := range lacking {
		q := question{namespace, lack.container.Image, lack.resource}
		if answer, ok := e.answers.Get(q); ok {
			answers[i] = answer.(estimate)
			continue
		}
		if unknown == nil {
			unknown = map[question][]int{}
		}
		if len(unknown) == maxQuestions && unknown[q] == nil {
			answers[i] = estimate{result: resultFailed}
			continue
		}
		unknown[q] = append(unknown[q], i)
	}
	if len(unknown) > 0 {
		ctx, cancel := context.WithTimeout(ctx, e.timeout)
		defer cancel()
		var group errgroup.Group
		group.SetLimit(parallel)
		for q, indexes := range unknown {
			group.Go(func() error {
				answer := e.estimate(ctx, q)
				for _, i := range indexes {
					answers[i] = answer
				}
				return nil
			})
		}
		_ = group.Wait() // no answer is an error
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			klog.ErrorS(ctx.Err(), "Not all resources of a pod estimated: Prometheus took too long; raise the timeout "+
				"in the plugin's configuration", "plugin", name, "namespace", namespace, "questions", len(unknown),
				"timeout", e.timeout)
		}
	}

	quantities := make([]*resource.Quantity, len(lacking))
	for i, answer := range answers {
		estimatesTotal.WithLabelValues(string(lacking[i].resource), answer.result).Inc()
		quantities[i] = answer.quantity
	}
	return quantities
}

// estimate asks Prometheus, unless that has just failed, and remembers what it says.
func (e *estimator) estimate(ctx context.Context, q question) estimate {
	image, ok := parseImage(q.image)
	if !ok {
		return estimate{result: resultTooFew}
	}
	if time.Now().UnixNano() < e.pausedUntil.Load() {
		return estimate{result: resultFailed}
	}
	answer, err := e.ask(ctx, q, image)
	var wrong *queryError
	switch {
	case err == nil || errors.As(err, &wrong):
		e.answers.Add(q, answer, answerMemory)
	case errors.Is(err, errCutShort):
		return answer
	default:
		e.pausedUntil.Store(time.Now().Add(pause).UnixNano())
	}
	if err != nil {
		klog.ErrorS(err, "Resource of a container not estimated: the query of Prometheus failed; check that it "+
			"answers at the configured address", "plugin", name, "namespace", q.namespace, "image", q.image, "resource",
			q.resource)
	}
	return answer
}

// ask asks in turn until there are enough samples.
func (e *estimator) ask(ctx context.Context, q question, image image) (estimate, error) {
	own := "namespace=" + strconv.Quote(q.namespace)
	widest := "" // all namespaces
	if e.sameNamespaceOnly {
		widest = own
	}
	type attempt struct{ image, namespaces string }
	attempts := []attempt{{image.same, own}}
	if widest != own {
		attempts = append(attempts, attempt{image.same, widest})
	}
	attempts = append(attempts, attempt{image.any, widest})
	for _, a := range attempts {
		for _, window := range e.windows {
			start := time.Now()
			value, found, err := e.prometheus.query(ctx, e.query(q.resource, a.image, a.namespaces, window))
			if err != nil && ctx.Err() != nil && time.Since(start) < e.timeout/2 {
				err = errCutShort
			}
			if err != nil {
				return estimate{result: resultFailed}, err
			}
			if quantity := quantity(q.resource, value); found && quantity != nil {
				return estimate{quantity, resultEstimated}, nil
			}
		}
	}
	return estimate{result: resultTooFew}, nil
}

// query returns a query that has a result only if there are enough samples. It quotes the pod's
// texts by Go's rules, which PromQL shares.
func (e *estimator) query(name corev1.ResourceName, image, namespaces string, window time.Duration) string {
	selector := "{image=~" + strconv.Quote(image)
	if namespaces != "" {
		selector += "," + namespaces
	}
	selector += "}"
	use := "container_memory_working_set_bytes" + selector
	if name == corev1.ResourceCPU {
		// Some kubelets have a series for each of a machine's processors.
		use = fmt.Sprintf("sum without (cpu) (rate(container_cpu_usage_seconds_total%s[%.0fs]))", selector,
			resolution.Seconds())
	}
	percentile := strconv.FormatFloat(float64(e.percentile)/100, 'f', -1, 64)
	over := fmt.Sprintf("[%.0fs:%.0fs]", window.Seconds(), resolution.Seconds())
	return fmt.Sprintf("quantile_over_time(%s, quantile(%s, %s)%s) and sum_over_time(count(%s)%s) >= %d",
		percentile, percentile, use, over, use, over, e.minimumSamples)
}

// quantity rounds up to a unit that people write: thousandths of a CPU, mebibytes. The result is at
// least one unit, because a request for nothing would keep other defaults from being set. It is nil
// if no container can have used that much.
func quantity(name corev1.ResourceName, value float64) *resource.Quantity {
	units := value / (1 << 20)
	if name == corev1.ResourceCPU {
		units = value * 1000
	}
	// 0.003 of a CPU is 3.0000000000000004 thousandths
	units = max(math.Ceil(math.Round(units*1e6)/1e6), 1)
	if math.IsNaN(units) || value < 0 || units > 1<<40 {
		return nil
	}
	if name == corev1.ResourceCPU {
		return resource.NewMilliQuantity(int64(units), resource.DecimalSI)
	}
	return resource.NewQuantity(int64(units)<<20, resource.BinarySI)
}
