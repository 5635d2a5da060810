package webhookmode_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
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
		freePort(t)))
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

	r := start(t, "--plugins=PodNodeSelector", "--shutdown-delay-duration=2s")
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
	// On its way out it isn't ready, and serves.
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
	<-r.exited
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

	const flood = 1000
	var wrong atomic.Int32
	var waiting sync.WaitGroup
	for i := range flood {
		waiting.Go(func() {
			code, body := r.post(t, client, "/mutate", fmt.Sprintf(review, i))
			if code != http.StatusOK || !strings.Contains(body, fmt.Sprintf(`"uid":"%d","allowed":true,"patch"`, i)) {
				wrong.Add(1)
				t.Logf("review %d: %d %.200s", i, code, body)
			}
		})
	}
	waiting.Wait()
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

// balancer is the Service before replicas: connections go to those that are ready.
type balancer struct {
	net.Listener
	mu       sync.Mutex
	replicas []*replica
	next     int
}

func newBalancer(t *testing.T) *balancer {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{Listener: listener}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go b.forward(connection)
		}
	}()
	return b
}

// set has new connections go to the replicas.
func (b *balancer) set(replicas ...*replica) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas = slices.Clone(replicas)
}

func (b *balancer) forward(client net.Conn) {
	defer client.Close()
	b.mu.Lock()
	b.next++
	replicas, next := b.replicas, b.next
	b.mu.Unlock()
	for i := range replicas {
		backend, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", replicas[(next+i)%len(replicas)].port))
		if err != nil {
			continue
		}
		defer backend.Close()
		go func() { _, _ = io.Copy(backend, client) }()
		_, _ = io.Copy(client, backend)
		return
	}
}

// Of two replicas one may be stopped under load, and the other replaced: no request is refused.
// Where one is killed, those are that were on their way to it.
func TestDrain(t *testing.T) {
	b := newBalancer(t)
	flags := []string{"--url=https://" + b.Addr().String(), "--plugins=Slow", "--shutdown-delay-duration=500ms"}
	client := insecure(t)
	replicaOf := func() *replica {
		r := launch(t, executable(t), flags...)
		servertest.Eventually(t, "a ready replica", func() bool {
			code, _ := r.get(t, client, "/readyz")
			return code == http.StatusOK
		})
		return r
	}
	first, second := replicaOf(), replicaOf()
	b.set(first, second)
	waitAsked(t, first, second)

	maps := cluster.Client.CoreV1().ConfigMaps(cluster.Namespace(t, nil))
	const clients = 8
	var refused, admitted atomic.Int32
	var last atomic.Pointer[error]
	stop := make(chan struct{})
	var loading sync.WaitGroup
	for range clients {
		loading.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}},
					metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				if err != nil {
					refused.Add(1)
					last.Store(&err)
				} else {
					admitted.Add(1)
				}
			}
		})
	}
	defer loading.Wait()
	defer close(stop)
	more := func() {
		t.Helper()
		before := admitted.Load()
		servertest.Eventually(t, "requests admitted", func() bool { return admitted.Load() > before+100 })
	}
	more()
	for _, r := range []*replica{first, second} { // one after the other, each replaced first
		replacement := replicaOf()
		b.set(append(slices.DeleteFunc(slices.Clone(b.replicas), func(x *replica) bool { return x == r }),
			replacement)...)
		r.stop(t)
		more()
	}
	if n := refused.Load(); n > 0 {
		t.Errorf("%d of %d requests were refused while replicas were stopped: %v", n, n+admitted.Load(), *last.Load())
	}
	killed := b.replicas[0]
	refused.Store(0)
	_ = killed.command.Process.Kill()
	<-killed.exited
	more()
	more()
	if n := refused.Load(); n > clients {
		t.Errorf("%d requests were refused, %d were on their way when a replica was killed: %v", n, clients,
			*last.Load())
	}
}
