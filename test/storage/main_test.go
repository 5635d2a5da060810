// Package storage_test runs the plugins for storage, for the classes of Ingresses and for events in real servers and uses them as their users do: with client-go
// and with kubectl. A plugin has a file here.
package storage_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
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
	started := gatehousetest.Start(t, options...)
	config := rest.CopyConfig(started.Config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{started, client}
}

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

// newNamespace makes a namespace for one test.
func (c *cluster) newNamespace(t testing.TB) string {
	t.Helper()
	created, err := c.client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.Name
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

// eventually asks until it is so. What it waits for is what a plugin's cache shows: nothing tells of that from outside.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) { return so(), nil }); err != nil {
		t.Fatalf("it has not come to be that %s: %v", what, err)
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	klog.LogToStderr(false) // the tests cause refusals by the dozen
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}
