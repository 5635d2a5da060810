package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

func podIn(namespace, name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func podsLimited(used string) *corev1.ResourceQuota {
	list := func(n string) corev1.ResourceList { return corev1.ResourceList{"pods": resource.MustParse(n)} }
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "q"},
		Spec:       corev1.ResourceQuotaSpec{Hard: list("9")},
		Status:     corev1.ResourceQuotaStatus{Hard: list("9"), Used: list(used)},
	}
}

// Every namespace is counted in every period. Pods are listed only where the cache of them doesn't say what the quota shows, and what is written is what was
// listed.
func TestQuotaCounter(t *testing.T) {
	ended := podIn("demo", "ended")
	ended.DeletionTimestamp, ended.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(-time.Minute)}, new(int64)
	two := []any{podIn("demo", "a"), podIn("demo", "b"), podIn("other", "c"), ended}
	for name, test := range map[string]struct {
		cached        []any // nil: not known yet
		shown         string
		listed, wrote bool
	}{
		"right":                        {two, "2", false, false},
		"wrong":                        {two, "3", true, true},
		"right, and the cache is late": {two[:1], "2", true, false},
		"wrong, and the cache is late": {two[:1], "1", false, false}, // until it has caught up
		"right, without a cache yet":   {nil, "2", true, false},
		"wrong, without a cache yet":   {nil, "1", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(podIn("demo", "a"), podIn("demo", "b"), ended, podIn("other", "c"), podsLimited(test.shown))
			pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
			if err := pods.Replace(test.cached, "1"); err != nil {
				t.Fatal(err)
			}
			c := &quotaCounter{
				client: client, mapper: newMapper(client), pods: corev1listers.NewPodLister(pods),
				synced: func() bool { return test.cached != nil },
			}
			if err := c.sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			var listed, wrote bool
			for _, a := range client.Actions() {
				listed = listed || a.Matches("list", "pods")
				wrote = wrote || a.Matches("update", "resourcequotas")
			}
			if listed != test.listed || wrote != test.wrote {
				t.Errorf("listed: %t, want %t; wrote: %t, want %t", listed, test.listed, wrote, test.wrote)
			}
			q, err := client.CoreV1().ResourceQuotas("demo").Get(t.Context(), "q", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if used := q.Status.Used["pods"]; test.wrote && used.String() != "2" {
				t.Errorf("wrote %s", used.String())
			}
		})
	}
}
