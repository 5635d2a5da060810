// Package identity_test runs the plugins that are about who somebody is in real servers: what pods get to be
// somebody, and what kubelets may do, with the certificates and tokens that they have.
package identity_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"gatehouse.dev/apiserver/pki"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
)

// deadline bounds every wait for something that the server does in the background, pollInterval is how often it is asked.
const (
	deadline     = 30 * time.Second
	pollInterval = 10 * time.Millisecond
)

// cluster is a running server and its administrator's client, which may ask as often as it likes.
type cluster struct {
	*gatehousetest.Server
	client *kubernetes.Clientset
	// open says that the server authorizes everybody to everything, so that what is refused is refused by the plugins.
	open bool
}

// The servers of all tests, each started by the first that asks for it: one that authorizes as a server does by default, and one that is open.
// Tests share them, so each keeps to a namespace and nodes of its own.
var (
	tb         mainTB
	guarded    = sync.OnceValue(func() *cluster { return start(false) })
	unguarded  = sync.OnceValue(func() *cluster { return start(true) })
	restricted = []string{"NodeRestriction", "OwnerReferencesPermissionEnforcement"}
)

func start(open bool) *cluster {
	srv := gatehousetest.Start(&tb, gatehousetest.WithPlugins(restricted...), func(c *server.Config) {
		if open {
			c.API.Authorization.Modes = []string{"AlwaysAllow"}
		}
	})
	return &cluster{srv, kubernetes.NewForConfigOrDie(quick(srv.Config)), open}
}

// everywhere runs a test on both servers.
func everywhere(t *testing.T, test func(*testing.T, *cluster)) {
	t.Run("Node,RBAC", func(t *testing.T) { test(t, guarded()) })
	t.Run("AlwaysAllow", func(t *testing.T) { test(t, unguarded()) })
}

// quick is the same configuration without a limit to how often its client asks.
func quick(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return config
}

// withCertificate is a client with a certificate of the server's own authority.
func (c *cluster) withCertificate(t *testing.T, user string, groups ...string) *kubernetes.Clientset {
	t.Helper()
	authority, err := pki.LoadAuthority(filepath.Join(c.DataDir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(quick(c.Config))
	if config.CertData, config.KeyData, err = authority.Client(user, groups...); err != nil {
		t.Fatal(err)
	}
	return kubernetes.NewForConfigOrDie(config)
}

// newNamespace makes a namespace for one test.
func (c *cluster) newNamespace(t *testing.T) string {
	t.Helper()
	made, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Name
}

// newPod makes a pod with one container, bound to a node unless that is empty.
func (c *cluster) newPod(t *testing.T, namespace, name, node string, changes ...func(*corev1.PodSpec)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}}},
	}
	for _, change := range changes {
		change(&pod.Spec)
	}
	made, err := c.client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// eventually asks until there is no error.
func eventually(t *testing.T, ask func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), pollInterval, deadline, true, func(ctx context.Context) (bool, error) {
		last = ask(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("after %s: %v", deadline, last)
	}
}

// allowed wants a request to succeed.
func allowed[T any](t *testing.T, what string) func(T, error) T {
	t.Helper()
	return func(result T, err error) T {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return result
	}
}

// refused wants a request to be forbidden, on the open server with this message: on the other one who authorizes may have
// been faster.
func (c *cluster) refused(t *testing.T, what string, err error, message string) {
	t.Helper()
	switch {
	case !apierrors.IsForbidden(err):
		t.Errorf("%s: should be forbidden, and is %v", what, err)
	case c.open && !strings.Contains(err.Error(), message):
		t.Errorf("%s: is refused with\n%v\nand should be with\n%s", what, err, message)
	}
}

func TestMain(m *testing.M) {
	flag.Parse()
	klog.LogToStderr(false) // the tests cause refusals by the dozen
	klog.SetOutput(io.Discard)
	code := m.Run()
	tb.cleanUp()
	if tb.failed {
		code = 1
	}
	os.Exit(code)
}

// mainTB is a testing.TB for shared servers, which are no test's own. Methods that it doesn't have are nobody's to call.
type mainTB struct {
	testing.TB
	cleanups []func()
	failed   bool
}

func (*mainTB) Helper() {}

func (m *mainTB) Cleanup(f func()) { m.cleanups = append(m.cleanups, f) }

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
