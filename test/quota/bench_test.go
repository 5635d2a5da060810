// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quota tests ResourceQuota where it is decided: in a running server's storage.
package quota

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"gatehouse.dev/controllers"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

func clientOf(srv *gatehousetest.Server) *kubernetes.Clientset {
	config := servertest.Quick(srv.Config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	return kubernetes.NewForConfigOrDie(config)
}

func namespaceWith(t testing.TB, client kubernetes.Interface, name string, quotas int) {
	t.Helper()
	if _, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range quotas {
		q := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("q%d", i)},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
				"pods":            resource.MustParse("1000000"),
				"requests.cpu":    resource.MustParse("1000000"),
				"requests.memory": resource.MustParse("9999Gi"),
			}},
		}
		if _, err := client.CoreV1().ResourceQuotas(name).Create(t.Context(), q, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func pod(name string) *corev1.Pod {
	list := corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("16Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "nginx:1.29", Resources: corev1.ResourceRequirements{Requests: list, Limits: list},
		}}},
	}
}

// BenchmarkCreate is a pod's creation through the API, in namespaces with and without quotas.
func BenchmarkCreate(b *testing.B) {
	srv := gatehousetest.Start(b)
	client := clientOf(srv)
	var n atomic.Int64
	for _, c := range []struct{ clients, quotas, pods int }{
		{1, 0, 0}, {1, 1, 0}, {1, 2, 0}, {1, 10, 0},
		{100, 0, 0}, {100, 1, 0}, {100, 2, 0}, {100, 10, 0},
		{1, 0, 50_000}, {1, 2, 50_000}, {100, 2, 50_000},
	} {
		b.Run(fmt.Sprintf("clients=%d/quotas=%d/pods=%d", c.clients, c.quotas, c.pods), func(b *testing.B) {
			clients := c.clients
			namespace := fmt.Sprintf("bench-%d", n.Add(1))
			fill(b, srv, client, namespace, c.pods)
			namespaceWith(b, client, namespace, c.quotas)
			work := make(chan struct{})
			var running sync.WaitGroup
			for range clients {
				running.Go(func() {
					for range work {
						if _, err := client.CoreV1().Pods(namespace).Create(b.Context(),
							pod(fmt.Sprintf("p-%d", n.Add(1))), metav1.CreateOptions{}); err != nil {
							b.Error(err)
						}
					}
				})
			}
			before := cpuTime()
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			running.Wait()
			b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkRatio is what two quotas add to a creation, and ten, and what 50,000 pods in a namespace
// with two quotas do. It creates pods in turn in two namespaces, so that whatever else disk and
// processors do concerns both alike: one at a time with one client, where medians are compared, and
// batches with 100, where throughput is.
func BenchmarkRatio(b *testing.B) {
	srv := gatehousetest.Start(b)
	client := clientOf(srv)
	var n atomic.Int64
	create := func(namespace string) {
		if _, err := client.CoreV1().Pods(namespace).Create(b.Context(), pod(fmt.Sprintf("p-%d", n.Add(1))),
			metav1.CreateOptions{}); err != nil {
			b.Error(err)
		}
	}
	namespace := func(pods, quotas int) string {
		name := fmt.Sprintf("bench-%d", n.Add(1))
		fill(b, srv, client, name, pods)
		namespaceWith(b, client, name, quotas)
		create(name) // what is to be found out about it first
		return name
	}
	b.Run("clients=1/quotas=2", func(b *testing.B) {
		namespaces := [2]string{namespace(0, 0), namespace(0, 2)}
		var took [2][]time.Duration
		for b.Loop() {
			for _, i := range turns {
				started := time.Now()
				create(namespaces[i])
				took[i] = append(took[i], time.Since(started))
			}
		}
		report(b, median(took[0]), median(took[1]))
	})
	for _, quotas := range []int{2, 10} {
		b.Run(fmt.Sprintf("clients=100/quotas=%d", quotas), func(b *testing.B) {
			compare(b, create, [2]string{namespace(0, 0), namespace(0, quotas)})
		})
	}
	b.Run("clients=100/pods=50000", func(b *testing.B) {
		namespaces := [2]string{namespace(0, 2), namespace(50_000, 2)}
		<-time.After(controllers.DefaultQuotaSyncPeriod) // what has to be loaded first
		compare(b, create, namespaces)
	})
}

// turns is the order in which two sides are measured: a creation gets slower with the number of
// pods that the server holds.
var turns = []int{0, 1, 1, 0, 1, 0, 0, 1}

// compare compares what 100 clients create in two namespaces.
//
// Garbage is collected after each round of batches, and each side is charged with what it left: the
// share of the collection's time that it allocated of what makes the collector run. Collections of
// a server that holds many pods take as long as a thousand creations, and would fall into some
// batches and not into others. Pods are kept, so a round needs more memory than the one before, and
// its last batch is the one that waits for it: a creation takes half as long again then. So which
// side comes last changes from round to round; it takes an even number of them (-benchtime=30x).
func compare(b *testing.B, create func(namespace string), namespaces [2]string) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const batch = 250
	var took [2]time.Duration
	for round := 0; b.Loop(); round++ {
		var stats runtime.MemStats
		var allocated [2]uint64
		for _, turn := range turns {
			i := (turn + round) % 2
			runtime.ReadMemStats(&stats)
			before := stats.TotalAlloc
			started := time.Now()
			var left atomic.Int64
			left.Store(batch)
			var clients sync.WaitGroup
			for range 100 {
				clients.Go(func() {
					for left.Add(-1) >= 0 {
						create(namespaces[i])
					}
				})
			}
			clients.Wait()
			took[i] += time.Since(started)
			runtime.ReadMemStats(&stats)
			allocated[i] += stats.TotalAlloc - before
		}
		started := time.Now()
		runtime.GC()
		collection := time.Since(started)
		runtime.ReadMemStats(&stats)
		for i := range took {
			took[i] += time.Duration(float64(collection) * float64(allocated[i]) / float64(stats.HeapAlloc))
		}
	}
	creations := time.Duration(b.N * len(turns) / 2 * batch)
	report(b, took[0]/creations, took[1]/creations)
}

// report reports what a creation takes without and with what is measured.
func report(b *testing.B, without, with time.Duration) {
	b.ReportMetric(float64(without.Microseconds()), "µs/without")
	b.ReportMetric(float64(with.Microseconds()), "µs/with")
	b.ReportMetric(float64(with)/float64(without), "ratio")
}

func median(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)/2]
}

// BenchmarkSync is what the quota controller computes in a period, with 50,000 pods in a namespace
// with a quota, and without one: what else goes on in a server that nobody asks anything is in
// both.
func BenchmarkSync(b *testing.B) {
	srv := gatehousetest.Start(b)
	client := clientOf(srv)
	fill(b, srv, client, "full", 50_000)
	for quotas, namespace := range []string{"empty", "full"} {
		b.Run(fmt.Sprintf("quotas=%d", quotas), func(b *testing.B) {
			namespaceWith(b, client, namespace, quotas)
			<-time.After(controllers.DefaultQuotaSyncPeriod) // what has to be loaded first
			before := cpuTime()
			for b.Loop() {
				<-time.After(controllers.DefaultQuotaSyncPeriod)
			}
			b.ReportMetric(float64((cpuTime()-before).Milliseconds())/float64(b.N), "cpu-ms/sync")
		})
	}
}

// cpuTime is what the process has computed so far, server and clients together. It says what a
// creation costs where other work on the machine blurs how long it takes.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// fill puts pods into a namespace, past the API server, which would take a minute for what is done
// here in a second.
func fill(b *testing.B, srv *gatehousetest.Server, client kubernetes.Interface, namespace string, pods int) {
	b.Helper()
	if pods == 0 {
		return
	}
	namespaceWith(b, client, "model-of-"+namespace, 0)
	if _, err := client.CoreV1().Pods("model-of-"+namespace).Create(b.Context(), pod("model"),
		metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	store := srv.Etcd.Client()
	model, err := store.KV.Get(b.Context(), "/registry/pods/model-of-"+namespace+"/model")
	if err != nil || len(model.Kvs) != 1 {
		b.Fatal(model, err)
	}
	decoded, err := kruntime.Decode(legacyscheme.Codecs.UniversalDeserializer(), model.Kvs[0].Value)
	if err != nil {
		b.Fatal(err)
	}
	p := decoded.(*corev1.Pod)
	p.Namespace = namespace
	info, _ := kruntime.SerializerInfoForMediaType(legacyscheme.Codecs.SupportedMediaTypes(),
		kruntime.ContentTypeProtobuf)
	encoder := legacyscheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	// Each at a revision of its own, as the API server writes them: watches show one object of a
	// kind a revision.
	var puts errgroup.Group
	puts.SetLimit(50)
	for i := range pods {
		p.Name, p.UID = fmt.Sprintf("filler-%d", i), types.UID(fmt.Sprintf("filler-%d", i))
		data, err := kruntime.Encode(encoder, p)
		if err != nil {
			b.Fatal(err)
		}
		key := "/registry/pods/" + namespace + "/" + p.Name
		puts.Go(func() error {
			_, err := store.KV.Put(b.Context(), key, string(data))
			return err
		})
	}
	if err := puts.Wait(); err != nil {
		b.Fatal(err)
	}
}
