package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
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

// Every namespace is counted in every period. Pods are listed only where the watch of them doesn't say what the quota shows, and what is written is what was
// listed.
func TestQuotaCounter(t *testing.T) {
	ended := podIn("demo", "ended")
	ended.DeletionTimestamp, ended.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now().Add(-time.Minute)}, new(int64)
	two := []any{podIn("demo", "a"), podIn("demo", "b"), podIn("other", "c"), ended}
	for name, test := range map[string]struct {
		watched       []any // nil: not known yet
		shown         string
		listed, wrote bool
	}{
		"right":                        {two, "2", false, false},
		"wrong":                        {two, "3", true, true},
		"right, and the watch is late": {two[:1], "2", true, false},
		"wrong, and the watch is late": {two[:1], "1", false, false}, // until it has caught up
		"right, without a watch yet":   {nil, "2", true, false},
		"wrong, without a watch yet":   {nil, "1", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(podIn("demo", "a"), podIn("demo", "b"), ended, podIn("other", "c"), podsLimited(test.shown))
			c := &quotaCounter{client: client, pods: &podCosts{client: client}}
			c.pods.start.Do(func() {}) // the watch is the test
			if test.watched != nil {
				if err := c.pods.Replace(test.watched, "1"); err != nil {
					t.Fatal(err)
				}
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

func TestPodCosts(t *testing.T) {
	p := &podCosts{}
	p.start.Do(func() {})
	want := func(known bool, n int) {
		t.Helper()
		if costs, ok := p.of(t.Context(), "demo"); ok != known || len(costs) != n {
			t.Errorf("known: %t, %d pods; want %t, %d", ok, len(costs), known, n)
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want(false, 0)
	// As a list that came in by a watch has been priced already, and one that was listed hasn't.
	b, err := p.Transformer()(podIn("demo", "b"))
	must(err)
	must(p.Replace([]any{podIn("demo", "a"), b}, "1"))
	want(true, 2)
	must(p.Add(podIn("demo", "c")))
	must(p.Update(podIn("demo", "c")))
	must(p.Add(podIn("other", "c")))
	want(true, 3)
	must(p.Delete(podIn("demo", "a")))
	must(p.Delete(podIn("demo", "a")))
	want(true, 2)
	must(p.Replace(nil, "9"))
	want(true, 0)
	if p.Add(&corev1.Service{}) == nil {
		t.Error("a service is a pod")
	}
}
