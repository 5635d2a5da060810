// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookmode_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

const review = `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"%d","operation":` +
	`"CREATE","kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"namespace":` +
	`"default","name":"p","object":{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`

// A replica lives while its API server is away, and is ready when what its plugins read has been
// read.
func TestHealth(t *testing.T) {
	client := insecure(t)
	healthy := func(r *replica, ready int) {
		t.Helper()
		for path, want := range map[string]int{"/healthz": 200, "/livez": 200, "/readyz": ready} {
			if got, body := r.get(t, client, path); got != want {
				t.Errorf("%s: got %d %s, want %d", path, got, body, want)
			}
		}
	}
	nowhere := write(t, "kubeconfig", fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c,
clusters: [{name: c, cluster: {server: "https://127.0.0.1:%d"}}], contexts: [{name: c, context: {cluster: c}}]}`,
		servertest.FreePort(t)))
	away := launch(t, executable(t), "--url=https://127.0.0.1:1", "--plugins=PodNodeSelector", "--kubeconfig="+nowhere,
		"--shutdown-delay-duration=0s")
	servertest.Eventually(t, "a replica without an API server", func() bool {
		return strings.Contains(away.log.String(), "Waiting for the API server")
	})
	healthy(away, http.StatusInternalServerError)
	if code, body := away.post(t, client, "/mutate", fmt.Sprintf(review, 1)); code != http.StatusServiceUnavailable {
		t.Errorf("a review is answered with %d %s before the replica is ready", code, body)
	}
	away.stop(t)

	r := start(t, "--plugins=PodNodeSelector", "--shutdown-delay-duration=1m")
	healthy(r, http.StatusOK)
	if _, body := r.get(t, client, "/readyz?verbose"); !strings.Contains(body, "[+]informer-sync ok") ||
		!strings.Contains(body, "[+]certificates ok") {
		t.Errorf("/readyz says\n%s", body)
	}
	if _, err := cluster.Client.CoreV1().Pods(cluster.Namespace(t, nil)).Create(t.Context(), pod("web"),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, metrics := r.get(t, client, "/metrics")
	for _, name := range []string{"apiserver_admission_controller_admission_duration_seconds_count{name=\"PodNodeSelector\"",
		"apiserver_admission_step_admission_duration_seconds_count", "process_resident_memory_bytes"} {
		if !strings.Contains(metrics, name) {
			t.Errorf("/metrics doesn't have %s", name)
		}
	}
	// On its way out, which takes longer than the test does, it isn't ready, and serves.
	if err := r.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "a replica that isn't ready any more", func() bool {
		code, _ := r.get(t, client, "/readyz")
		return code == http.StatusInternalServerError
	})
	if code, body := r.post(t, client, "/mutate", fmt.Sprintf(review, 1)); code != http.StatusOK {
		t.Errorf("a review is answered with %d %s while the replica drains", code, body)
	}
}

// What is no review is refused, a flood of reviews is answered, and a plugin that panics has not
// answered: the failure policy decides. The process lives through all of it.
func TestFaults(t *testing.T) {
	r := start(t, "--plugins=AlwaysPullImages,Panics", "--failure-policy=Fail,Panics=Ignore",
		"--shutdown-delay-duration=0s")
	client := insecure(t)
	large := strings.Replace(fmt.Sprintf(review, 1), `"name":"p"`, `"name":"`+strings.Repeat("p", 8<<20)+`"`, 1)
	for _, test := range []struct {
		name, body string
		want       int
	}{
		{"garbage", "\x00\xff{{{", http.StatusBadRequest},
		{"nothing", "", http.StatusBadRequest},
		{"a pod", `{"kind":"Pod","apiVersion":"v1"}`, http.StatusBadRequest},
		{"no request", `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}`, http.StatusBadRequest},
		{"too large a review", large, http.StatusRequestEntityTooLarge},
		{"a review", fmt.Sprintf(review, 1), http.StatusOK},
	} {
		if code, body := r.post(t, client, "/mutate", test.body); code != test.want {
			t.Errorf("%s: got %d %.200s, want %d", test.name, code, body, test.want)
		}
	}

	// Each review has a connection of its own, as Go's client opens one for each. The connections are made one after the
	// other: a replica gives a handshake a few seconds, in which a busy machine doesn't make a thousand at once.
	const flood = 1000
	var clients []*http.Client
	for range flood {
		clients = append(clients, insecure(t))
		if code, body := r.get(t, clients[len(clients)-1], "/livez"); code != http.StatusOK {
			t.Fatalf("/livez: %d %s", code, body)
		}
	}
	var wrong atomic.Int32
	var waiting sync.WaitGroup
	for i, client := range clients {
		waiting.Go(func() {
			code, body := r.post(t, client, "/mutate", fmt.Sprintf(review, i))
			if code != http.StatusOK || !strings.Contains(body, fmt.Sprintf(`"uid":"%d","allowed":true,"patch"`, i)) {
				wrong.Add(1)
				t.Logf("review %d: %d %.200s", i, code, body)
			}
		})
	}
	flooded := make(chan struct{})
	go func() {
		waiting.Wait()
		close(flooded)
	}()
	for i, flooding := 0, true; flooding || i == 0; i++ { // the API server's own requests go on
		if _, err := cluster.Client.CoreV1().Pods("default").Create(t.Context(), pod(fmt.Sprintf("beside-%d", i)), dry); err != nil {
			t.Errorf("a pod beside the flood: %v", err)
		}
		select {
		case <-flooded:
			flooding = false
		default:
		}
	}
	if wrong.Load() > 0 {
		t.Errorf("%d of %d reviews at once were answered wrongly", wrong.Load(), flood)
	}

	maps := cluster.Client.CoreV1().ConfigMaps(cluster.Namespace(t, nil))
	if _, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		metav1.CreateOptions{}); err != nil {
		t.Errorf("ignored panic: %v", err)
	}
	if code, body := r.get(t, client, "/livez"); code != http.StatusOK {
		t.Errorf("after all that the replica is not alive: %d %s", code, body)
	}
	r.stop(t)

	start(t, "--plugins=Panics")
	_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
		metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "panicked in the validating phase") {
		t.Errorf("a plugin that panics, where a failure is a refusal: got %v", err)
	}
}

// Of two replicas one may be stopped under load, and the other replaced: no request is refused.
// If one is killed, only requests that were on their way to it are refused.
func TestDrain(t *testing.T) {
	service := servertest.Forward(t)
	flags := []string{"--url=https://" + service.Address, "--plugins=Slow", "--keep", "--shutdown-delay-duration=500ms"}
	client := insecure(t)
	replicaOf := func() *replica {
		r := launch(t, executable(t), flags...)
		servertest.Eventually(t, "a ready replica", func() bool {
			code, _ := r.get(t, client, "/readyz")
			return code == http.StatusOK
		})
		return r
	}
	replicas := []*replica{replicaOf(), replicaOf()}
	balance := func() {
		var addresses []string
		for _, r := range replicas {
			addresses = append(addresses, r.address())
		}
		service.To(addresses...)
	}
	balance()
	waitAsked(t, replicas...)

	maps := cluster.Client.CoreV1().ConfigMaps(cluster.Namespace(t, nil))
	const clients = 8
	l := newLoad(t, clients, func() error {
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}, dry)
		return err
	})
	l.more(t)
	for range 2 { // one after the other, each replaced first
		oldest := replicas[0]
		replicas = append(replicas[1:], replicaOf())
		balance()
		oldest.stop(t)
		l.more(t)
	}
	l.noneRefused(t, "while replicas were stopped")
	killed := replicas[0]
	service.To(replicas[1].address()) // a process that dies still accepts connections for a moment
	_ = killed.command.Process.Kill()
	<-killed.exited
	balance() // nobody listens there now
	l.more(t)
	l.more(t)
	if n := l.refused.Load(); n > clients {
		t.Errorf("%d requests were refused, %d were on their way when a replica was killed: %v", n, clients,
			*l.last.Load())
	}
}
