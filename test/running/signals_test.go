// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/test/program"
	"gatehouse.dev/test/servertest"
)

const (
	// interrupted and terminated are the exit codes of a command that a second signal ends.
	interrupted = 128 + int(syscall.SIGINT)
	terminated  = 128 + int(syscall.SIGTERM)
	// hangs is how long a process may take to end before it is said to hang.
	hangs = time.Minute
)

// A running is a process that is one of gatehouse's commands.
type running struct {
	*exec.Cmd
	stdout *os.File // read by the test, or by nobody
	stderr *bytes.Buffer
	ended  <-chan struct{}
}

// startCommand starts the gatehouse command with args, as a process of its own.
func startCommand(t *testing.T, stdin io.Reader, args ...string) *running {
	t.Helper()
	binary, err := os.Executable()
	must(t, err)
	out, in, err := os.Pipe()
	must(t, err)
	r := &running{Cmd: exec.Command(binary, args...), stdout: out, stderr: &bytes.Buffer{}}
	r.Stdin, r.Stdout, r.Stderr = stdin, in, r.stderr
	r.Dir = t.TempDir()
	r.WaitDelay = time.Second
	r.ended, err = program.Start(r.Cmd)
	must(t, err)
	must(t, in.Close())
	t.Cleanup(func() {
		_ = r.Process.Kill()
		<-r.ended
		must(t, out.Close())
		if t.Failed() {
			t.Logf("%s said: %s", strings.Join(args, " "), r.stderr)
		}
	})
	return r
}

// code waits for the end of the process, and returns its exit code.
func (r *running) code(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(within):
		t.Fatalf("it hasn't ended within %s", within)
	}
	return r.ProcessState.ExitCode()
}

// signal sends signals, which may arrive in another order. To a process that has ended it is
// nothing.
func (r *running) signal(signals ...os.Signal) {
	for _, signal := range signals {
		_ = r.Process.Signal(signal)
	}
}

// line waits for a line of output that begins with a text.
func (r *running) line(t *testing.T, beginning string) {
	t.Helper()
	for lines := bufio.NewReader(r.stdout); ; {
		line, err := lines.ReadString('\n')
		if strings.HasPrefix(line, beginning) {
			return
		}
		if err != nil {
			t.Fatalf("it ended before it wrote %q: %v", beginning, err)
		}
	}
}

// silent is a server that takes connections and never says a word.
type silent struct {
	address string
	asked   chan struct{} // closed at the first connection
}

func newSilent(t *testing.T) *silent {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	s := &silent{listener.Addr().String(), make(chan struct{})}
	var once sync.Once
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { connection.Close() })
			once.Do(func() { close(s.asked) })
		}
	}()
	return s
}

// wait waits until the process has asked the server.
func (s *silent) wait(t *testing.T, r *running) {
	t.Helper()
	select {
	case <-s.asked:
	case <-r.ended:
		t.Fatalf("it ended with %d before it asked the server", r.ProcessState.ExitCode())
	}
}

// kubeconfig is a file that leads to the server.
func (s *silent) kubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(file, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: x, user: x}}]
clusters: [{name: x, cluster: {server: "http://%s"}}]
users: [{name: x, user: {token: x}}]
`, s.address), 0o600))
	return file
}

// A second signal ends every command at once, whatever it waits for: also one that goes on after
// the first.
func TestSecondSignal(t *testing.T) {
	servertest.AsProcess(t)
	webhook := fmt.Sprintf("webhook --plugins=AlwaysPullImages --url=https://127.0.0.1:1 --bind-address=127.0.0.1 "+
		"--secure-port=%d", servertest.FreePort(t))
	for command, first := range map[string]int{ // and the exit code that the first signal may bring about
		"why pod/web":            1,
		"why --last-refused":     1,
		"snapshot":               2,
		"review -f -":            2,
		"dashboard --no-browser": 0,
		"controllers --controllers=namespace-controller": 0,
		"webhook uninstall": 1,
		webhook:             0,
	} {
		t.Run(command, func(t *testing.T) {
			server := newSilent(t)
			r := startCommand(t, strings.NewReader("{kind: ConfigMap, apiVersion: v1, metadata: {name: c}}"),
				append(strings.Fields(command), "--kubeconfig="+server.kubeconfig(t))...)
			server.wait(t, r)
			r.signal(os.Interrupt, syscall.SIGTERM)
			if code := r.code(t, hangs); code != first && code != interrupted && code != terminated {
				t.Errorf("it ended with %d, want %d, %d, or %d if the first signal was enough", code, interrupted,
					terminated, first)
			}
		})
	}
	t.Run("restore", func(t *testing.T) {
		in, out, err := os.Pipe()
		must(t, err)
		defer in.Close()
		defer out.Close()
		r := startCommand(t, in, "restore", "-", "--data-dir=here/restored")
		servertest.Eventually(t, "it to read", func() bool {
			made, err := filepath.Glob(filepath.Join(r.Dir, "here", ".*"))
			return err == nil && len(made) > 0
		})
		r.signal(os.Interrupt, syscall.SIGTERM)
		if code := r.code(t, hangs); code != 1 && code != interrupted && code != terminated {
			t.Errorf("it ended with %d", code)
		}
		if _, err := os.Stat(filepath.Join(r.Dir, "here", "restored")); !os.IsNotExist(err) {
			t.Errorf("there is something in the directory's place: %v", err)
		}
	})
}

// A second signal ends a server at once that lets a request finish, and one that waits for an etcd.
func TestSecondSignalToServer(t *testing.T) {
	servertest.AsProcess(t)
	t.Run("with a request in flight", func(t *testing.T) {
		r, client := startServe(t)
		ctx := t.Context()
		hanging := newSilent(t)
		url, none := "https://"+hanging.address, admissionregistrationv1.SideEffectClassNone
		seconds := int32(30)
		_, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx,
			&admissionregistrationv1.ValidatingWebhookConfiguration{
				ObjectMeta: metav1.ObjectMeta{Name: "hangs"},
				Webhooks: []admissionregistrationv1.ValidatingWebhook{{
					Name: "hangs.example.com", SideEffects: &none, TimeoutSeconds: &seconds,
					AdmissionReviewVersions: []string{"v1"},
					ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &url},
					ObjectSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{"hangs": "yes"}},
					Rules: []admissionregistrationv1.RuleWithOperations{{
						Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
						Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
							Resources: []string{"configmaps"}},
					}},
				}},
			}, metav1.CreateOptions{})
		must(t, err)
		watch, err := client.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
		must(t, err)
		defer watch.Stop()
		go func() {
			for i := 0; ctx.Err() == nil; i++ { // until the webhook is in force
				meta := metav1.ObjectMeta{Name: fmt.Sprintf("hangs-%d", i), Labels: map[string]string{"hangs": "yes"}}
				_, _ = client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: meta},
					metav1.CreateOptions{})
			}
		}()
		hanging.wait(t, r)
		r.signal(os.Interrupt)
		servertest.Eventually(t, "the server to stop", func() bool {
			_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
			return err != nil
		})
		r.signal(syscall.SIGTERM)
		if code := r.code(t, hangs); code != terminated {
			t.Errorf("it ended with %d", code)
		}
	})
	t.Run("without an etcd", func(t *testing.T) {
		etcd := newSilent(t)
		r := startCommand(t, nil, "serve", "--secure-port=0", "--data-dir=data", "--etcd-servers=http://"+etcd.address)
		etcd.wait(t, r)
		r.signal(os.Interrupt, syscall.SIGTERM)
		if code := r.code(t, hangs); code != 0 && code != interrupted && code != terminated {
			t.Errorf("it ended with %d", code)
		}
	})
}

// A first signal ends a server within its time, whatever it waits for: here its audit log, a pipe
// from which nobody reads.
func TestFirstSignalToServer(t *testing.T) {
	servertest.AsProcess(t)
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	must(t, os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\n"+
		"rules: [{level: RequestResponse}]\n"), 0o600))
	r, client := startServe(t, "--audit-policy-file="+policy, "--audit-log-path=-", "--audit-log-mode=batch",
		"--request-timeout=1s")
	// One event is larger than what a pipe holds.
	_, err := client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	r.signal(os.Interrupt)
	if code := r.code(t, time.Minute); code != 1 || !strings.Contains(r.stderr.String(), "didn't stop within 26s") {
		t.Errorf("it ended with %d", code)
	}
}

// startServe starts a server, and returns it and a client once it is ready.
func startServe(t *testing.T, flags ...string) (*running, kubernetes.Interface) {
	t.Helper()
	dir, err := os.MkdirTemp("", "gatehouse-") // whose socket's path is short
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := startCommand(t, nil, append([]string{"serve", "--secure-port=0", "--data-dir=" + dir}, flags...)...)
	r.line(t, "Use it:")
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.kubeconfig"))
	must(t, err)
	return r, kubernetes.NewForConfigOrDie(config)
}
