// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// The checks have kube-apiserver's names, and a check's timeout of nothing is its default. Source:
// upstream's EtcdOptions.addEtcdHealthEndpoint and SecureServingOptionsWithLoopback.
func TestHealth(t *testing.T) {
	t.Parallel()
	other, err := etcd.Start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Stop)
	c := servertest.Start(t, gatehousetest.WithConfig(func(c *server.Config) {
		c.API.Etcd.EtcdServersOverrides = []string{"/events#" + other.Endpoint(),
			"events.k8s.io/events#" + other.Endpoint()}
		c.API.Etcd.StorageConfig.HealthcheckTimeout, c.API.Etcd.StorageConfig.ReadycheckTimeout = 0, 0
	}))
	for path, want := range map[string]string{
		"/healthz": "etcd etcd-override-0 loopback-serving-certificate " +
			"poststarthook/start-legacy-token-tracking-controller",
		"/livez":  "etcd etcd-override-0 loopback-serving-certificate",
		"/readyz": "etcd etcd-override-0 etcd-readiness etcd-override-readiness-0",
	} {
		body, err := c.Client.Discovery().RESTClient().Get().RequestURI(path + "?verbose").DoRaw(t.Context())
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for _, name := range strings.Fields(want) {
			if !strings.Contains(string(body), "[+]"+name+" ok\n") {
				t.Errorf("%s has no %s:\n%s", path, name, body)
			}
		}
		if strings.Contains(string(body), "etcd-override-1") {
			t.Errorf("%s has a cluster twice:\n%s", path, body)
		}
	}

	other.Stop()
	servertest.Eventually(t, "the other cluster's end to be seen", func() bool {
		body, err := c.Client.Discovery().RESTClient().Get().RequestURI("/livez/etcd-override-0").DoRaw(t.Context())
		return err != nil && !strings.Contains(string(body), "ok")
	})
}

// The cluster says since when the use of tokens in Secrets is tracked, and which servers there are.
// Source: upstream's TestSyncConfigMap and TestCreateLeaseOnStart.
func TestClusterObjects(t *testing.T) {
	t.Parallel()
	c := shared()
	servertest.Retry(t, "the tracking of tokens", func() error {
		tracking, err := c.Client.CoreV1().ConfigMaps("kube-system").Get(t.Context(),
			"kube-apiserver-legacy-service-account-token-tracking", metav1.GetOptions{})
		if err == nil {
			_, err = time.Parse(time.DateOnly, tracking.Data["since"])
		}
		return err
	})
	servertest.Eventually(t, "the server's lease", func() bool {
		leases, err := c.Client.CoordinationV1().Leases("kube-system").List(t.Context(),
			metav1.ListOptions{LabelSelector: "apiserver.kubernetes.io/identity=kube-apiserver"})
		return err == nil && len(leases.Items) == 1 && strings.HasPrefix(leases.Items[0].Name, "apiserver-") &&
			leases.Items[0].Labels["kubernetes.io/hostname"] != ""
	})
}
