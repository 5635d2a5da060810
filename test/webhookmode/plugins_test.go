// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookmode_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/test/backends"
	"gatehouse.dev/test/servertest"
)

// denyLatest is a backend of image policies.
func denyLatest(w http.ResponseWriter, r *http.Request) {
	var review imagepolicyv1alpha1.ImageReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review.Status.Allowed = true
	for _, c := range review.Spec.Containers {
		if strings.HasSuffix(c.Image, ":latest") {
			review.Status = imagepolicyv1alpha1.ImageReviewStatus{Reason: "no latest images"}
		}
	}
	_ = json.NewEncoder(w).Encode(&review)
}

func pod(name string, with ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx:1"}}}}
	for _, change := range with {
		change(p)
	}
	return p
}

// Plugins outside the server change and refuse what they do inside, in its words.
func TestPlugins(t *testing.T) {
	backend := backends.StartImages(t, http.HandlerFunc(denyLatest))
	config := write(t, "admission.yaml", fmt.Sprintf(`
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Namespace, qps: 1, burst: 1}]
- name: ImagePolicyWebhook
  configuration:
    imagePolicy: {kubeConfigFile: %s, allowTTL: 50, denyTTL: 50, retryBackoff: 500, defaultAllow: false}
`, backend.Kubeconfig))
	log := filepath.Join(t.TempDir(), "decisions.log")
	r := start(t, "--plugins=AlwaysPullImages,PodNodeSelector,EventRateLimit,ResourceQuota,ImagePolicyWebhook,"+
		"DenyServiceExternalIPs", "--admission-control-config-file="+config, "--decision-log-path="+log,
		"--shutdown-delay-duration=0s")
	const selector = "scheduler.alpha.kubernetes.io/node-selector"
	ns := cluster.Namespace(t, map[string]string{selector: "disk=ssd"})
	// Not the administrator: as whom the replica writes, and isn't asked about it.
	client := kubernetes.NewForConfigOrDie(cluster.As("alice", "system:masters"))
	pods := client.CoreV1().Pods(ns)

	made, err := pods.Create(t.Context(), pod("web"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%s %v", made.Spec.Containers[0].ImagePullPolicy,
		made.Spec.NodeSelector); got != "Always map[disk:ssd]" {
		t.Errorf("the pod has %s", got)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"services": resource.MustParse("1")}}}
	if _, err := client.CoreV1().ResourceQuotas(ns).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the quota's status", func() bool {
		got, err := client.CoreV1().ResourceQuotas(ns).Get(t.Context(), "few", metav1.GetOptions{})
		return err == nil && len(got.Status.Hard) > 0
	})
	service := func(name string, ips ...string) error {
		_, err := client.CoreV1().Services(ns).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, ExternalIPs: ips}},
			metav1.CreateOptions{})
		return err
	}
	create := func(p *corev1.Pod) error {
		_, err := pods.Create(t.Context(), p, metav1.CreateOptions{})
		return err
	}
	event := func() error {
		// A client's library would try again what is too much.
		return client.CoreV1().RESTClient().Post().MaxRetries(0).Namespace(ns).Resource("events").Body(&corev1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "e-"}, InvolvedObject: corev1.ObjectReference{Namespace: ns}}).
			Do(t.Context()).Error()
	}
	for _, test := range []struct {
		name, want string
		write      func() error
	}{
		{"a node selector that conflicts", `pods "no" is forbidden: pod node label selector conflicts with its ` +
			`namespace node label selector`,
			func() error {
				return create(pod("no", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "hdd"} }))
			}},
		{"an image", `pods "no" is forbidden: image policy webhook backend denied one or more images: no latest images`,
			func() error {
				return create(pod("no", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "nginx:latest" }))
			}},
		{"an external IP", `services "no" is forbidden: Use of external IPs is denied by admission control`,
			func() error { return service("no", "203.0.113.1") }},
		{"within the quota", "", func() error { return service("one") }},
		{"over the quota", `services "two" is forbidden: exceeded quota: few, requested: services=1, used: ` +
			`services=1, limited: services=1`, func() error { return service("two") }},
		{"events", "limit reached on type Namespace for key " + ns, func() (err error) {
			for range 100 { // one a second is too slow for them
				if err = event(); err != nil {
					break
				}
			}
			return err
		}},
	} {
		err := test.write()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasSuffix(err.Error(),
			test.want)) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
	// The log has all decisions once the replica has ended: until then they may wait for the disk.
	r.stop(t)
	written, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]int{}
	for line := range strings.Lines(string(written)) {
		var d v1alpha1.Decision
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if d.Request.Namespace == ns && d.Verdict == v1alpha1.Refused {
			by[d.By]++
		}
	}
	if got := fmt.Sprint(by); got != "map[DenyServiceExternalIPs:1 EventRateLimit:1 ImagePolicyWebhook:1 "+
		"PodNodeSelector:1 ResourceQuota:1]" {
		t.Errorf("the log has refusals by %s", got)
	}
}

// A pod that comes with its namespace is judged by that, however far behind the replica's cache is.
func TestNewNamespace(t *testing.T) {
	start(t, "--plugins=PodNodeSelector")
	for range 30 {
		ns := cluster.Namespace(t, map[string]string{"scheduler.alpha.kubernetes.io/node-selector": "disk=ssd"})
		made, err := cluster.Client.CoreV1().Pods(ns).Create(t.Context(), pod("web"), metav1.CreateOptions{})
		if err != nil || made.Spec.NodeSelector["disk"] != "ssd" {
			t.Fatalf("got %v, %v", made.Spec.NodeSelector, err)
		}
	}
}
