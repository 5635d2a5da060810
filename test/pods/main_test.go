// Package pods_test runs plugins that look at pods, and at what pods need, in real servers and uses them as their users do: with client-go
// and with kubectl. A plugin has a file here.
package pods_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
)

// cluster is a running server and its administrator's client, which may ask as often as it likes.
type cluster struct {
	*gatehousetest.Server
	client *kubernetes.Clientset
}

// startCluster is for tests that need a server of their own. It ends with the test.
func startCluster(t testing.TB, options ...gatehousetest.Option) *cluster {
	t.Helper()
	return connect(t, gatehousetest.Start(t, options...))
}

func connect(t testing.TB, started *gatehousetest.Server) *cluster {
	t.Helper()
	config := rest.CopyConfig(started.Config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{started, client}
}

// restart is a cluster that was stopped, started again with these plugins besides the default ones.
func restart(t testing.TB, stopped *cluster, plugins ...string) *cluster {
	t.Helper()
	return connect(t, gatehousetest.StartIn(t, stopped.DataDir, gatehousetest.WithPlugins(plugins...)))
}

// clusterWith is a server with these plugins besides the default ones, none of them configured. Tests that name the same plugins
// share it, so each keeps to a namespace of its own.
func clusterWith(t testing.TB, plugins ...string) *cluster {
	t.Helper()
	names := slices.Sorted(slices.Values(plugins))
	key := strings.Join(names, ",")
	shared.Lock()
	start, ok := shared.clusters[key]
	if !ok {
		start = sync.OnceValue(func() *cluster { return startCluster(&shared.tb, gatehousetest.WithPlugins(names...)) })
		shared.clusters[key] = start
	}
	shared.Unlock()
	return start()
}

// simple are plugins that have no configuration and don't get in each other's way: their tests share a server.
var simple = []string{"AlwaysPullImages", "DenyEscalatingExec", "ExtendedResourceToleration", "LimitPodHardAntiAffinityTopology", "SecurityContextDeny"}

// configured gives plugins their configuration, YAML by the plugin's name, as the administrator does: in an admission control configuration file.
func configured(t testing.TB, byPlugin map[string]string) gatehousetest.Option {
	t.Helper()
	type section struct {
		Name          string          `json:"name"`
		Configuration json.RawMessage `json:"configuration"`
	}
	var sections []section
	for name, configuration := range byPlugin {
		document, err := yaml.YAMLToJSON([]byte(configuration))
		if err != nil {
			t.Fatalf("the configuration of %s: %v", name, err)
		}
		sections = append(sections, section{name, document})
	}
	content, err := json.Marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": sections,
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "admission.json")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *server.Config) { c.Admission.ConfigFile = file }
}

// newNamespace makes a namespace for one test, with annotations that may be nil.
func (c *cluster) newNamespace(t testing.TB, annotations map[string]string) string {
	t.Helper()
	created, err := c.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Annotations: annotations}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.Name
}

// as is a client for a user whom the administrator impersonates.
func (c *cluster) as(t testing.TB, user string, groups ...string) *kubernetes.Clientset {
	t.Helper()
	config := rest.CopyConfig(c.Config)
	config.QPS = -1
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// newPod is a pod with one container, main, that no node runs.
func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}}},
	}
}

// kubectl is the real one, as the administrator and with a home of its own.
type kubectl struct {
	t                           testing.TB
	kubeconfig, home, namespace string
}

func (c *cluster) kubectl(t testing.TB, namespace string) kubectl {
	t.Helper()
	return kubectl{t, c.Kubeconfig, t.TempDir(), namespace}
}

// run runs kubectl with something on its standard input.
func (k kubectl) run(stdin string, args ...string) (stdout, stderr string, code int) {
	k.t.Helper()
	binary, err := kubectlBinary()
	if err != nil {
		k.t.Fatal(err)
	}
	var out, says bytes.Buffer
	cmd := exec.CommandContext(k.t.Context(), binary, append([]string{"--namespace=" + k.namespace}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + k.home, "KUBECONFIG=" + k.kubeconfig}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &says
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		k.t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), says.String(), cmd.ProcessState.ExitCode()
}

// ok wants the command to succeed, and is what it prints.
func (k kubectl) ok(stdin string, args ...string) string {
	k.t.Helper()
	stdout, stderr, code := k.run(stdin, args...)
	if code != 0 {
		k.t.Errorf("kubectl %s: exit code %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// fails wants the command to fail and to say each of want on its standard error.
func (k kubectl) fails(stdin string, args []string, want ...string) {
	k.t.Helper()
	stdout, stderr, code := k.run(stdin, args...)
	if code == 0 {
		k.t.Errorf("kubectl %s: should fail, and says\n%s%s", strings.Join(args, " "), stdout, stderr)
	}
	for _, text := range want {
		if !strings.Contains(stderr, text) {
			k.t.Errorf("kubectl %s: says\n%sand should say\n%s", strings.Join(args, " "), stderr, text)
		}
	}
}

// kubectlBinary is the path of kubectl of the module's own version; the go command keeps it, once built.
var kubectlBinary = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "tool", "-n", "kubectl").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return "", fmt.Errorf("building kubectl: %w\n%s", err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
})

// shared are the servers of several tests, each started by the first that asks for it.
var shared = struct {
	sync.Mutex
	clusters map[string]func() *cluster
	tb       mainTB
}{clusters: map[string]func() *cluster{}}

func TestMain(m *testing.M) {
	flag.Parse()
	klog.LogToStderr(false) // the tests cause refusals by the dozen
	klog.SetOutput(io.Discard)
	code := m.Run()
	shared.tb.cleanUp()
	if shared.tb.failed {
		code = 1
	}
	os.Exit(code)
}

// mainTB is a testing.TB for shared servers, which are no test's own. Methods that it doesn't have are nobody's to call.
type mainTB struct {
	testing.TB
	mu       sync.Mutex
	cleanups []func()
	failed   bool
}

func (*mainTB) Helper() {}

func (m *mainTB) Cleanup(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cleanups = append(m.cleanups, f)
}

func (m *mainTB) cleanUp() {
	for _, f := range slices.Backward(m.cleanups) {
		f()
	}
}

func (m *mainTB) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	m.failed = true
}

func (m *mainTB) Fatal(args ...any) { m.Fatalf("%s", fmt.Sprint(args...)) }

func (m *mainTB) Fatalf(format string, args ...any) {
	m.Errorf(format, args...)
	m.cleanUp()
	os.Exit(1)
}
