// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhookmode_test has `gatehouse webhook` beside a running server, as processes. Webhook
// configurations are for a whole cluster: the tests of the one that they share run one after
// another, and each takes back what its replicas registered.
package webhookmode_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/plugin"
	"gatehouse.dev/remote/command"
	"gatehouse.dev/server"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

// replicating is in the environment of the replicas' processes.
const replicating = "GATEHOUSE_TEST_REPLICA"

// The tests' binary is a replica, too, with two plugins that no cluster should have.
func init() {
	if os.Getenv(replicating) != "" {
		command.Main(append(compiled.Plugins, panics, slow))
	}
}

var panics = plugin.Descriptor{
	Name: "Panics", Phases: plugin.Validating, Operations: []admission.Operation{admission.Create},
	Resources: plugin.On(corev1.Resource("configmaps")),
	New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) {
		return validator(func(admission.Attributes) { panic("as it does") }), nil
	},
}

// slow takes long enough for a process to be told to end meanwhile.
var slow = plugin.Descriptor{
	Name: "Slow", Phases: plugin.Validating, Operations: []admission.Operation{admission.Create},
	Resources: plugin.On(corev1.Resource("configmaps")),
	New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) {
		return validator(func(admission.Attributes) { time.Sleep(20 * time.Millisecond) }), nil
	},
}

type validator func(admission.Attributes)

func (validator) Handles(o admission.Operation) bool { return o == admission.Create }

func (v validator) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	v(a)
	return nil
}

var (
	suite   servertest.Suite
	cluster *servertest.Cluster
	// spans are those of requests that clients trace, by the server and the replicas that are
	// configured by traces.
	spans  *servertest.TraceReceiver
	traces string
	// auditLog is the server's.
	auditLog string
)

func TestMain(m *testing.M) {
	needs.NotShort()
	servertest.SendTracesAtOnce()
	spans = servertest.ReceiveTraces(&suite)
	dir, err := os.MkdirTemp("", "webhookmode-")
	if err != nil {
		suite.Fatal(err)
	}
	suite.Cleanup(func() { os.RemoveAll(dir) })
	traces = spans.Config(&suite, dir, 0)
	auditLog = filepath.Join(dir, "audit.log")
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		suite.Fatal(err)
	}
	// The plugin that the replicas run must not be in the server as well.
	cluster = servertest.Start(&suite, gatehousetest.WithoutPlugins("ResourceQuota"), gatehousetest.WithConfig(func(c *server.Config) {
		c.API.Traces.ConfigFile = traces
		c.API.Audit.PolicyFile, c.API.Audit.LogOptions.Path = policy, auditLog
	}))
	suite.Main(m)
}

// replica is a process of `gatehouse webhook`.
type replica struct {
	port    int
	command *exec.Cmd
	// registered is closed when it says that API servers ask it.
	registered chan struct{}
	exited     chan struct{}
	log, out   buffer
}

func (r *replica) address() string { return fmt.Sprintf("127.0.0.1:%d", r.port) }

// buffer is written to by a process, and read by a test.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// launch is run for a replica of the cluster that tests share. What it registered there ends with
// the test as well.
func launch(t testing.TB, program string, flags ...string) *replica {
	t.Helper()
	t.Cleanup(func() { unregister(t) })
	return run(t, program, flags...)
}

// run starts a program with the flags of a replica, and of a test. It ends with the test.
func run(t testing.TB, program string, flags ...string) *replica {
	t.Helper()
	r := &replica{port: servertest.FreePort(t), registered: make(chan struct{}), exited: make(chan struct{})}
	r.command = exec.Command(program, append([]string{"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", r.port), "--kubeconfig=" + cluster.Kubeconfig}, flags...)...)
	r.command.Env = append(os.Environ(), replicating+"=yes")
	r.command.Stderr = &r.log
	stdout, err := r.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(io.TeeReader(stdout, &r.out)); lines.Scan(); {
			if strings.Contains(lines.Text(), "is ready, and is asked") {
				close(r.registered)
			}
		}
		_ = r.command.Wait() // how it ended is for the tests to ask
		close(r.exited)
	}()
	t.Cleanup(func() {
		_ = r.command.Process.Kill()
		<-r.exited
		if t.Failed() {
			t.Logf("replica on port %d:\n%s", r.port, r.log.String())
		}
	})
	return r
}

// start starts a replica by which the cluster is asked at once, and waits until it is.
func start(t testing.TB, flags ...string) *replica {
	t.Helper()
	port := servertest.FreePort(t) // the last --secure-port counts
	r := launch(t, executable(t), append([]string{fmt.Sprintf("--url=https://127.0.0.1:%d", port),
		fmt.Sprintf("--secure-port=%d", port)}, flags...)...)
	r.port = port
	waitAsked(t, r)
	return r
}

func executable(t testing.TB) string {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// waitRegistered waits until each of the replicas says that API servers ask it.
func waitRegistered(t testing.TB, replicas ...*replica) {
	t.Helper()
	for _, r := range replicas {
		select {
		case <-r.registered:
		case <-r.exited:
			t.Fatalf("the replica has ended:\n%s", r.log.String())
		case <-time.After(2 * time.Minute):
			t.Fatalf("nobody asks the replica:\n%s", r.log.String())
		}
	}
}

// waitAsked waits until the server asks one of the replicas.
func waitAsked(t testing.TB, replicas ...*replica) {
	t.Helper()
	waitRegistered(t, replicas...)
	// The server sees what is registered a moment after it is stored, either configuration by itself:
	// until then it asks nobody. What it asks of replicas, and so of those whose plugins these reviews
	// are nothing to, it counts.
	mutates := strings.Contains(configurations(t), "mutating/")
	servertest.Eventually(t, "the server asking the replica", func() bool {
		mutated, validated := reviews(t, "admit", replicas...), reviews(t, "validate", replicas...)
		for _, create := range []func() error{
			func() error {
				_, err := cluster.Client.CoreV1().ConfigMaps("default").Create(t.Context(),
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}, dry)
				return err
			},
			func() error {
				_, err := cluster.Client.CoreV1().Pods("default").Create(t.Context(), pod("probe"), dry)
				return err
			},
		} {
			_ = create() // refused or not, it was asked about
		}
		return (!mutates || reviews(t, "admit", replicas...) > mutated) && reviews(t, "validate", replicas...) > validated
	})
}

var dry = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// reviews is how many reviews the replicas have answered in a phase, admit or validate.
func reviews(t testing.TB, phase string, replicas ...*replica) int {
	t.Helper()
	n, metrics := 0, ""
	for _, r := range replicas {
		_, shown := r.get(t, insecure(t), "/metrics")
		metrics += shown
	}
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "apiserver_admission_step_admission_duration_seconds_count") &&
			strings.Contains(line, `type="`+phase+`"`) {
			_, count, _ := strings.Cut(strings.TrimSpace(line), "} ")
			value, err := strconv.Atoi(count)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			n += value
		}
	}
	return n
}

// stop tells the replica to end, and waits until it has.
func (r *replica) stop(t testing.TB) {
	t.Helper()
	if err := r.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-r.exited:
	case <-time.After(time.Minute):
		t.Fatal("the replica doesn't end")
	}
	if code := r.command.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the replica's exit code is %d:\n%s", code, r.log.String())
	}
}

// unregister takes back what replicas registered, without waiting as uninstall must.
func unregister(t testing.TB) {
	t.Helper()
	ctx, all := context.Background(), metav1.ListOptions{}
	api := cluster.Client.AdmissionregistrationV1()
	for _, err := range []error{
		api.MutatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, all),
		api.ValidatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, all),
		cluster.Client.CoordinationV1().Leases("gatehouse-system").DeleteCollection(ctx, metav1.DeleteOptions{}, all),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}

// insecure is a client as a probe is one: it verifies nothing.
func insecure(t testing.TB) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// get is the code and body of an answer; 0 where there is none.
func (r *replica) get(t testing.TB, client *http.Client, path string) (int, string) {
	t.Helper()
	return answered(client.Get("https://" + r.address() + path))
}

// post posts a review.
func (r *replica) post(t testing.TB, client *http.Client, path, body string) (int, string) {
	t.Helper()
	return answered(client.Post("https://"+r.address()+path, "application/json",
		strings.NewReader(body)))
}

func answered(response *http.Response, err error) (int, string) {
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// write writes a file of the test.
func write(t testing.TB, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
