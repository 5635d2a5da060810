// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/test/peers"
)

// A cluster of so many pods has a node for each 50 and a namespace with a quota for each 25.
const (
	podsPerNode      = 50
	podsPerNamespace = 25

	clusterWebhooks = 500
	askedWebhooks   = 2 // the others don't match
	clusterPolicies = 200
	pastPolicies    = 10 // match pods; the others don't

	// quietWrites is how many pods one client makes in the full cluster.
	quietWrites = 2000
)

// clusterSubjects leave the controllers to kube-controller-manager.
var clusterSubjects = []subject{
	{"Gatehouse", func(ctx context.Context, s *peers.Server) error {
		return s.RunGatehouse(ctx, "--controllers=")
	}},
	subjects[kubernetesPeer],
}

// clusterFigures are what one server's cluster took.
type clusterFigures struct {
	fill, quiet       batch
	running           time.Duration // from the first create until all pods run
	memory            memory
	live              float64       // of it what the API server's collector can't free, in MB
	again             time.Duration // a start with all of it
	namespaces, wrong int           // with a quota, and with one whose count isn't right
}

// measureCluster fills a cluster with a scheduler, controllers and nodes, on one server after the other.
func measureCluster(ctx context.Context, o options, bin string) (string, error) {
	if err := peers.Build(ctx, bin, peers.ControllerManager, peers.Scheduler, peers.Kwok); err != nil {
		return "", err
	}
	hook, stop, err := startYesWebhook(ctx, bin)
	if err != nil {
		return "", err
	}
	defer stop()
	var all []clusterFigures
	for _, s := range clusterSubjects {
		f, err := fillCluster(ctx, o.cluster, bin, s, hook)
		if err != nil {
			return "", fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, f)
	}
	return clusterReport(o.cluster, all), nil
}

// fillCluster measures one server.
func fillCluster(ctx context.Context, pods int, bin string, s subject, hook *yesWebhook) (f clusterFigures, err error) {
	dir, err := os.MkdirTemp(bin, "cluster-")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(dir)
	server, err := start(ctx, s, bin, dir)
	if err != nil {
		return f, err
	}
	defer func() { server.Stop() }()
	l := &load{server: server}
	if err := l.prepare(ctx); err != nil {
		return f, err
	}
	client := l.clients[0]
	around, err := runKubernetes(server)
	if err != nil {
		return f, err
	}
	defer around.stop()
	f.namespaces = (pods + podsPerNamespace - 1) / podsPerNamespace
	if err := errors.Join(installClusterWebhooks(ctx, client, hook), installClusterPolicies(ctx, client),
		makeNodes(ctx, client, (pods+podsPerNode-1)/podsPerNode), makeLimitedNamespaces(ctx, client, f.namespaces)); err != nil {
		return f, err
	}
	progress("cluster: %-24s has its nodes and namespaces", s.name)

	var number atomic.Int64
	l.shape = func(pod *corev1.Pod) { pod.Namespace = limitedNamespace(int(number.Add(1)-1) % f.namespaces) }
	running := make(chan error, 1)
	begin := time.Now()
	go func() {
		running <- awaitRunning(ctx, client, pods)
		f.running = time.Since(begin)
	}()
	if f.fill, err = l.create(ctx, manyClients, pods); err != nil {
		return f, err
	}
	progress("cluster: %-24s made %d pods, %.0f/s", s.name, pods, f.fill.rate)
	if err := <-running; err != nil {
		return f, err
	}
	progress("cluster: %-24s runs them all after %.0f s", s.name, f.running.Seconds())
	if f.wrong, err = wrongQuotas(ctx, client); err != nil {
		return f, err
	}
	l.shape = nil
	if f.quiet, err = l.create(ctx, 1, quietWrites); err != nil {
		return f, err
	}
	around.stop()
	if f.memory, err = memoryOf(server.Processes...); err != nil {
		return f, err
	}
	if f.live, err = liveHeap(ctx, client); err != nil {
		return f, err
	}
	server.Stop()
	again, err := start(ctx, s, bin, dir)
	if err != nil {
		return f, err
	}
	server = again
	f.again = server.StartTime
	return f, nil
}

// liveHeap has an API server collect its garbage, and returns what is left, in MB.
func liveHeap(ctx context.Context, client kubernetes.Interface) (float64, error) {
	get := client.Discovery().RESTClient().Get
	if _, err := get().AbsPath("/debug/pprof/heap").Param("gc", "1").DoRaw(ctx); err != nil {
		return 0, err
	}
	text, err := get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "go_memstats_heap_alloc_bytes "); ok {
			bytes, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return bytes / 1e6, err
		}
	}
	return 0, errors.New("/metrics has no go_memstats_heap_alloc_bytes")
}

// awaitRunning waits until so many pods with limits run. A pod comes to this watch when it runs.
func awaitRunning(ctx context.Context, client kubernetes.Interface, pods int) error {
	for since := "0"; pods > 0; {
		w, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{FieldSelector: "status.phase=Running",
			ResourceVersion: since, AllowWatchBookmarks: true})
		if err != nil {
			return err
		}
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok {
				return fmt.Errorf("watching pods: %v", event.Object)
			}
			if since = pod.ResourceVersion; event.Type == "ADDED" && strings.HasPrefix(pod.Namespace, limitedPrefix) {
				pods--
			}
			if pods == 0 {
				w.Stop()
				return nil
			}
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d pods don't run yet: %w", pods, err)
		}
	}
	return nil
}

// wrongQuotas counts the quotas whose status isn't what the namespace has.
func wrongQuotas(ctx context.Context, client kubernetes.Interface) (wrong int, err error) {
	quotas, err := client.CoreV1().ResourceQuotas("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	count := map[string]int64{}
	for _, pod := range pods.Items {
		count[pod.Namespace]++
	}
	for _, quota := range quotas.Items {
		used := quota.Status.Used[corev1.ResourcePods]
		cpu := resource.MustParse("500m") // of each pod's two containers
		cpu.Mul(count[quota.Namespace])
		usedCPU := quota.Status.Used[corev1.ResourceRequestsCPU]
		if used.Value() != count[quota.Namespace] || usedCPU.Cmp(cpu) != 0 {
			wrong++
		}
	}
	return wrong, nil
}

func clusterReport(pods int, all []clusterFigures) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d nodes, %d namespaces with a quota each, %d webhook configurations of which %d are asked, %d policies "+
		"of which %d match.\n\n", (pods+podsPerNode-1)/podsPerNode, all[0].namespaces, clusterWebhooks, askedWebhooks,
		clusterPolicies, pastPolicies)
	fmt.Fprintf(&b, "| %d pods | %s | %s |\n| --- | ---: | ---: |\n", pods, clusterSubjects[0].name, clusterSubjects[1].name)
	for _, row := range []struct {
		name, format string
		value        func(clusterFigures) float64
	}{
		{"creates/s, 32 clients, while the others work", "%.0f", func(f clusterFigures) float64 { return f.fill.rate }},
		{"… p50", "%.1f ms", func(f clusterFigures) float64 { return milliseconds(f.fill.p50) }},
		{"… p99", "%.1f ms", func(f clusterFigures) float64 { return milliseconds(f.fill.p99) }},
		{"until all run", "%.0f s", func(f clusterFigures) float64 { return f.running.Seconds() }},
		{"quotas with a wrong count then", "%.0f", func(f clusterFigures) float64 { return float64(f.wrong) }},
		{"a create in the full cluster, p50", "%.2f ms", func(f clusterFigures) float64 { return milliseconds(f.quiet.p50) }},
		{"… p99", "%.2f ms", func(f clusterFigures) float64 { return milliseconds(f.quiet.p99) }},
		{"memory", "%.0f MB", func(f clusterFigures) float64 { return f.memory.rss }},
		{"… of it live in the API server", "%.0f MB", func(f clusterFigures) float64 { return f.live }},
		{"a start with all of it", "%.2f s", func(f clusterFigures) float64 { return f.again.Seconds() }},
	} {
		fmt.Fprintf(&b, "| %s |", row.name)
		for _, f := range all {
			fmt.Fprintf(&b, " "+row.format+" |", row.value(f))
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}
