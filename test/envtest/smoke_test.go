// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package envtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"gatehouse.dev/cli"
	"gatehouse.dev/plugins"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
	"gatehouse.dev/webhook/server"
)

// assets is the folder that `gatehouse envtest` makes, of links to this test's binary, in whose
// processes that is gatehouse.
func assets(t *testing.T) string {
	t.Helper()
	needs.Server(t)
	servertest.AsProcess(t)
	t.Setenv("PATH", filepath.Dir(servertest.KubectlPath(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	dir := filepath.Join(t.TempDir(), "assets")
	var stdout, stderr strings.Builder
	if code := cli.Run(t.Context(), plugins.List, []string{"envtest", dir}, &stdout, &stderr); code != 0 ||
		stdout.String() != dir+"\n" {
		t.Fatalf("gatehouse envtest: exit code %d, %s%s", code, &stdout, &stderr)
	}
	return dir
}

// shop is an object of the kind that testdata/crds defines.
func shop(name string, open bool) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Shop",
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"spec":     map[string]any{"open": open},
	}}
}

// TestSmoke uses all of envtest's Go API: custom kinds, a webhook that it points to the test's own
// server, users, and the end.
func TestSmoke(t *testing.T) {
	folder := assets(t)
	t.Chdir(testdata(t)) // nothing is written there
	before := names(t, ".")
	env := &envtest.Environment{
		BinaryAssetsDirectory: folder,
		CRDInstallOptions:     envtest.CRDInstallOptions{Paths: []string{"crds"}, ErrorIfPathMissing: true},
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{"webhooks.yaml"}},
	}
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	t.Cleanup(func() {
		if !stopped {
			_ = env.Stop() // the test has failed already
		}
	})
	serveWebhook(t, env.WebhookInstallOptions)

	admin, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.Create(t.Context(), shop("open", true)); err != nil {
		t.Error(err)
	}
	// The server asks the webhook a moment after it has been told of it.
	servertest.Retry(t, "the webhook to refuse it", func() error {
		err := admin.Create(t.Context(), shop("closed", false), client.DryRunAll)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "closed shops") {
			return fmt.Errorf("the answer is %v", err)
		}
		return nil
	})
	users(t, env, admin)

	began := time.Now()
	stopped = true
	if err := env.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("the stop took %v", time.Since(began))
	for _, address := range []string{env.ControlPlane.APIServer.SecureServing.HostPort(),
		env.ControlPlane.Etcd.URL.Host} {
		if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("something still listens on %s (%v)", address, err)
		}
	}
	if after := names(t, "."); !slices.Equal(before, after) {
		t.Errorf("the working directory had %q, and has %q", before, after)
	}
}

// users: somebody who may do nothing, until a role says otherwise, and an administrator by a group.
func users(t *testing.T, env *envtest.Environment, admin client.Client) {
	t.Helper()
	as := func(name string, groups ...string) client.Client {
		user, err := env.AddUser(envtest.User{Name: name, Groups: groups}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(user.Config(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if err := as("root", "system:masters").Create(t.Context(), shop("roots", true)); err != nil {
		t.Error(err)
	}
	keeper := as("keeper", "keepers")
	if err := keeper.Create(t.Context(), shop("keepers", true)); !apierrors.IsForbidden(err) {
		t.Errorf("keeper may create shops already: %v", err)
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "keepers", Namespace: "default"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"shops"},
			Verbs: []string{"create"}}}}
	binding := &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "keepers"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "keepers"}}}
	for _, object := range []client.Object{role, binding} {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	servertest.Retry(t, "the group's right", func() error {
		return client.IgnoreAlreadyExists(keeper.Create(t.Context(), shop("keepers", true)))
	})
}

// serveWebhook is the test's own server, with the certificate that envtest has made for it.
func serveWebhook(t *testing.T, options envtest.WebhookInstallOptions) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(options.LocalServingHost,
		strconv.Itoa(options.LocalServingPort)))
	if err != nil {
		t.Fatal(err)
	}
	handler := server.Handler(func(_ context.Context, request *admissionv1.AdmissionRequest) server.Response {
		asked, err := server.Object[struct {
			Spec struct {
				Open bool `json:"open"`
			} `json:"spec"`
		}](request)
		if err != nil {
			return server.Errored(err)
		}
		if !asked.Spec.Open {
			return server.Denied("closed shops are of no use")
		}
		return server.Allowed()
	})
	s := &server.Server{Handler: handler, CertFile: filepath.Join(options.LocalServingCertDir, "tls.crt"),
		KeyFile: filepath.Join(options.LocalServingCertDir, "tls.key")}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func testdata(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}
