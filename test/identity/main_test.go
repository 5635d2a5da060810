// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity_test runs the plugins that are about who somebody is in real servers: what pods
// get to be somebody, and what kubelets may do, with the certificates and tokens that they have.
package identity_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/apiserver/pki"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

var suite servertest.Suite

func TestMain(m *testing.M) { suite.Main(m) }

// cluster is a server with the plugins.
type cluster struct {
	*servertest.Cluster
	// open says that it authorizes everybody to everything, so that what is refused is refused by
	// the plugins.
	open bool
}

// The servers of all tests, each started by the first that asks for it: one that authorizes as a
// server does by default, and one that is open. Tests share them, so each keeps to a namespace and
// nodes of its own.
var (
	guarded    = sync.OnceValue(func() *cluster { return start(false) })
	unguarded  = sync.OnceValue(func() *cluster { return start(true) })
	restricted = []string{"NodeRestriction", "OwnerReferencesPermissionEnforcement"}
)

func start(open bool) *cluster {
	return &cluster{servertest.Start(&suite, gatehousetest.WithPlugins(restricted...), gatehousetest.WithConfig(func(c *server.Config) {
		if open {
			c.API.Authorization.Modes = []string{"AlwaysAllow"}
		}
	})), open}
}

// everywhere runs a test on both servers.
func everywhere(t *testing.T, test func(*testing.T, *cluster)) {
	t.Run("Node,RBAC", func(t *testing.T) { test(t, guarded()) })
	t.Run("AlwaysAllow", func(t *testing.T) { test(t, unguarded()) })
}

// withCertificate is a client with a certificate of the server's own authority.
func (c *cluster) withCertificate(t *testing.T, user string, groups ...string) *kubernetes.Clientset {
	t.Helper()
	authority, err := pki.LoadAuthority(filepath.Join(c.DataDir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(servertest.Quick(c.Config))
	if config.CertData, config.KeyData, err = authority.Client(user, groups...); err != nil {
		t.Fatal(err)
	}
	return kubernetes.NewForConfigOrDie(config)
}

// newPod makes a pod with one container, bound to a node unless that is empty.
func (c *cluster) newPod(t *testing.T, namespace, name, node string, changes ...func(*corev1.PodSpec)) *corev1.Pod {
	t.Helper()
	pod := servertest.Pod(name)
	pod.Spec.NodeName = node
	for _, change := range changes {
		change(&pod.Spec)
	}
	made, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
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

// refused wants a request to be forbidden, on the open server with this message: on the other one
// who authorizes may have been faster.
func (c *cluster) refused(t *testing.T, what string, err error, message string) {
	t.Helper()
	switch {
	case !apierrors.IsForbidden(err):
		t.Errorf("%s: should be forbidden, and is %v", what, err)
	case c.open && !strings.Contains(err.Error(), message):
		t.Errorf("%s: is refused with\n%v\nand should be with\n%s", what, err, message)
	}
}
