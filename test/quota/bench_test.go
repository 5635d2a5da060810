// Package quota tests ResourceQuota where it is decided: in a running server's storage.
package quota

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/gatehousetest"
)

func clientOf(srv *gatehousetest.Server) *kubernetes.Clientset {
	config := rest.CopyConfig(srv.Config)
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	return kubernetes.NewForConfigOrDie(config)
}

func namespaceWith(t testing.TB, client kubernetes.Interface, name string, quotas int) {
	t.Helper()
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range quotas {
		q := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("q%d", i)},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
				"pods":            resource.MustParse("1000000"),
				"requests.cpu":    resource.MustParse("1000000"),
				"requests.memory": resource.MustParse("1000Ti"),
			}},
		}
		if _, err := client.CoreV1().ResourceQuotas(name).Create(t.Context(), q, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func pod(name string) *corev1.Pod {
	list := corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")}
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
	for _, clients := range []int{1, 100} {
		for _, quotas := range []int{0, 1, 2} {
			b.Run(fmt.Sprintf("clients=%d/quotas=%d", clients, quotas), func(b *testing.B) {
				namespace := fmt.Sprintf("bench-%d", n.Add(1))
				namespaceWith(b, client, namespace, quotas)
				work := make(chan struct{})
				var running sync.WaitGroup
				for range clients {
					running.Go(func() {
						for range work {
							if _, err := client.CoreV1().Pods(namespace).Create(b.Context(), pod(fmt.Sprintf("p-%d", n.Add(1))), metav1.CreateOptions{}); err != nil {
								b.Error(err)
							}
						}
					})
				}
				for b.Loop() {
					work <- struct{}{}
				}
				close(work)
				running.Wait()
			})
		}
	}
}
