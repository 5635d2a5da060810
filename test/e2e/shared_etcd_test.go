// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// An etcdProcess is an etcd of somebody else's, which wants to see client certificates.
type etcdProcess struct {
	*process
	url           string
	ca, cert, key string // a client's files
}

func startEtcd(t testing.TB) *etcdProcess {
	t.Helper()
	authority := newAuthority(t)
	ca := writeFile(t, "ca.crt", authority.CertPEM())
	pair := func(name string, certPEM, keyPEM []byte, err error) (string, string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return writeFile(t, name+".crt", certPEM), writeFile(t, name+".key", keyPEM)
	}
	c, k, err := authority.Serving("etcd", []string{"127.0.0.1"})
	cert, key := pair("server", c, k, err)
	url := "https://127.0.0.1:" + freePort(t)
	e := &etcdProcess{url: url, ca: ca}
	c, k, err = authority.Client("gatehouse")
	e.cert, e.key = pair("client", c, k, err)
	e.process = startFor(t, etcdCommand(t, url, "--cert-file="+cert, "--key-file="+key, "--client-cert-auth",
		"--trusted-ca-file="+ca))
	client := e.client(t)
	eventually(t, startTimeout, func(ctx context.Context) error { _, err := client.Get(ctx, "health"); return err })
	return e
}

// etcdCommand is an etcd with a data directory of its own that serves at url.
func etcdCommand(t testing.TB, url string, flags ...string) *exec.Cmd {
	t.Helper()
	peer := "http://127.0.0.1:" + freePort(t)
	return exec.Command(binaries.etcd, append(flags, "--data-dir="+dataDir(t), "--name=one",
		"--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=one="+peer,
		"--heartbeat-interval=10", "--election-timeout=100", "--unsafe-no-fsync", "--log-level=panic")...)
}

// flags make a server store under a prefix in e.
func (e *etcdProcess) flags(prefix string) []string {
	return []string{"--etcd-servers=" + e.url, "--etcd-cafile=" + e.ca, "--etcd-certfile=" + e.cert, "--etcd-keyfile=" +
		e.key, "--etcd-prefix=" + prefix}
}

func (e *etcdProcess) client(t testing.TB) *clientv3.Client {
	t.Helper()
	config, err := transport.TLSInfo{CertFile: e.cert, KeyFile: e.key, TrustedCAFile: e.ca}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{e.url}, TLS: config, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// prefixes are the first parts of all keys in e.
func (e *etcdProcess) prefixes(t testing.TB) map[string]int {
	t.Helper()
	all, err := e.client(t).Get(t.Context(), "/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	prefixes := map[string]int{}
	for _, kv := range all.Kvs {
		prefixes["/"+strings.Split(string(kv.Key), "/")[1]]++
	}
	return prefixes
}

// Several servers over one etcd are equals.
func TestSharedEtcd(t *testing.T) {
	t.Parallel()
	etcd := startEtcd(t)
	one, two := serve(t, etcd.flags("/x")...), serve(t, etcd.flags("/x")...)
	other := serve(t, etcd.flags("/y")...)
	t.Logf("ready after %s, %s and %s", one.startup, two.startup, other.startup)

	watcher, err := two.client.CoreV1().ConfigMaps("default").Watch(t.Context(),
		metav1.ListOptions{FieldSelector: "metadata.name=shared"})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	made := createConfigMap(t, one.client, "shared")
	// A get from the second server may not miss what the first one acknowledged.
	found, err := two.client.CoreV1().ConfigMaps("default").Get(t.Context(), "shared", metav1.GetOptions{})
	if err != nil || found.UID != made.UID {
		t.Errorf("the other server has %s, %v; want %s", found.UID, err, made.UID)
	}
	expectEvent(t, watcher, watch.Added, "shared")
	found.Data = map[string]string{"changed": "by two"}
	if _, err := two.client.CoreV1().ConfigMaps("default").Update(t.Context(), found,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expectEvent(t, watcher, watch.Modified, "shared")
	made.Data = map[string]string{"changed": "by one"}
	if _, err := one.client.CoreV1().ConfigMaps("default").Update(t.Context(), made,
		metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of what the other server has changed: %v, want a conflict", err)
	}
	if _, err := other.client.CoreV1().ConfigMaps("default").Get(t.Context(), "shared",
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("under another prefix: %v, want not found", err)
	}
	if got := etcd.prefixes(t); len(got) != 2 || got["/x"] == 0 || got["/y"] == 0 {
		t.Errorf("etcd has keys under %v, want /x and /y", got)
	}

	// One of them holds the lease of the controllers; when it goes, the other takes it without
	// waiting until it ends.
	first := leader(t, two.client, "")
	one.kill()
	if _, err := two.client.CoreV1().ConfigMaps("default").Get(t.Context(), "shared", metav1.GetOptions{}); err != nil {
		t.Errorf("after the other server was killed: %v", err)
	}
	createConfigMap(t, two.client, "later")
	three := serve(t, etcd.flags("/x")...)
	two.stop(t)
	if first == "" {
		t.Error("nobody led")
	}
	if _,
		err := three.client.CoreV1().ConfigMaps("default").Get(t.Context(), "later", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	three.stop(t)
	other.stop(t)
}

// A server that stops gives the controllers' lease to the next one.
func TestLeaderElection(t *testing.T) {
	t.Parallel()
	etcd := startEtcd(t)
	one := serve(t, etcd.flags("/x")...)
	first := leader(t, one.client, "")
	two := serve(t, etcd.flags("/x")...)
	if now := leader(t, two.client, ""); now != first {
		t.Errorf("%s leads, want %s still", now, first)
	}
	began := time.Now()
	one.stop(t)
	next := leader(t, two.client, first)
	t.Logf("%s leads %s after the stop of %s", next, time.Since(began), first)
	namespaceGoes(t, two.client, "after-handover")
	two.stop(t)
}

// A server that loses the controllers' lease serves on, and runs them again once the lease is free.
func TestLostLease(t *testing.T) {
	t.Parallel()
	etcd := startEtcd(t)
	srv := serve(t, etcd.flags("/x")...)
	first := leader(t, srv.client, "")
	leases := srv.client.CoordinationV1().Leases("kube-system")
	eventually(t, startTimeout, func(ctx context.Context) error {
		lease, err := leases.Get(ctx, "gatehouse-controllers", metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = new("somebody else"), new(metav1.NowMicro())
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
	// That takes until the holder gives up renewing, 10 s.
	if _, err := srv.await(srv.stderr, "lost the lease kube-system/gatehouse-controllers", startTimeout); err != nil {
		t.Fatal(err)
	}
	if err := leases.Delete(t.Context(), "gatehouse-controllers", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	leader(t, srv.client, first)
	namespaceGoes(t, srv.client, "after-loss")
	srv.stop(t)
}

// A server whose etcd has gone ends when it is told to, though its leases can't be written.
func TestEndWithoutEtcd(t *testing.T) {
	t.Parallel()
	etcd := startEtcd(t)
	srv := serve(t, etcd.flags("/x")...)
	leader(t, srv.client, "")
	etcd.kill()
	// By then the server has also begun to renew the lease of its own, and can't finish.
	if _, err := srv.await(srv.stderr, "lost the lease kube-system/gatehouse-controllers", startTimeout); err != nil {
		t.Fatal(err)
	}
	t.Logf("without etcd the server stopped after %s", srv.stop(t))
}

// The controllers may run apart from the server. Without them a namespace doesn't go, nor do
// dependents.
func TestControllersApart(t *testing.T) {
	t.Parallel()
	srv := serve(t, "--controllers=")
	ctx := t.Context()
	if err := createAndDeleteNamespace(ctx, srv.client, "apart"); err != nil {
		t.Fatal(err)
	}
	owner := createConfigMap(t, srv.client, "owner")
	dependent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "dependent",
		OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID},
		}}}
	if _, err := srv.client.CoreV1().ConfigMaps("default").Create(ctx, dependent, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := srv.client.CoreV1().ConfigMaps("default").Delete(ctx, owner.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	namespace, err := srv.client.CoreV1().Namespaces().Get(ctx, "apart", metav1.GetOptions{})
	if err != nil || namespace.Status.Phase != corev1.NamespaceTerminating {
		t.Fatalf("without controllers the namespace is %v, %v", namespace.Status, err)
	}

	first := startFor(t, exec.Command(binaries.gatehouse, "controllers", "--kubeconfig="+srv.kubeconfig))
	holder := leader(t, srv.client, "")
	second := startFor(t, exec.Command(binaries.gatehouse, "controllers", "--kubeconfig="+srv.kubeconfig))
	gone(t, srv.client, "apart")
	eventually(t, startTimeout, func(ctx context.Context) error {
		_, err := srv.client.CoreV1().ConfigMaps("default").Get(ctx, "dependent", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("the dependent is still there: %v", err)
	})
	if now := leader(t, srv.client, ""); now != holder {
		t.Errorf("%s leads, want %s still", now, holder)
	}
	t.Logf("the controllers stopped after %s", first.stop(t))
	leader(t, srv.client, holder)
	second.stop(t)
	for _, p := range []*process{first, second} {
		if p.stderr.String() != "" {
			t.Errorf("the controllers wrote on standard error:\n%s", p.stderr)
		}
	}
	srv.stop(t)
}

// What is wrong with somebody else's etcd, or with what is needed to reach it, is said in a
// sentence.
func TestEtcdRefusals(t *testing.T) {
	t.Parallel()
	says(t, refused(t, 2, "serve", "--data-dir="+dataDir(t), "--secure-port=0", "--etcd-servers=https://127.0.0.1:1",
		"--etcd-cafile=/no/such/ca.crt"), "/no/such/ca.crt")
	says(t, refused(t, 2, "controllers"), "--kubeconfig")
	says(t, refused(t, 2, "controllers", "--kubeconfig="+filepath.Join(dataDir(t), "none")), "--kubeconfig", "none",
		"no such file")
	says(t, refused(t, 2, "controllers", "--kubeconfig="+writeFile(t, "broken", []byte("clusters: 3"))), "--kubeconfig",
		"broken")
	says(t, refused(t, 2, "controllers", "--controllers=nosuch",
		"--kubeconfig="+writeFile(t, "kubeconfig", []byte("{}"))), "nosuch")
}

// leader waits until somebody other than before holds the controllers' lease.
func leader(t testing.TB, client kubernetes.Interface, before string) (holder string) {
	t.Helper()
	eventually(t, startTimeout, func(ctx context.Context) error {
		lease,
			err := client.CoordinationV1().Leases("kube-system").Get(ctx, "gatehouse-controllers", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" ||
			*lease.Spec.HolderIdentity == before {
			return errors.New("nobody else holds the lease")
		}
		holder = *lease.Spec.HolderIdentity
		return nil
	})
	return holder
}

func expectEvent(t testing.TB, watcher watch.Interface, kind watch.EventType, name string) {
	t.Helper()
	select {
	case event := <-watcher.ResultChan():
		object, ok := event.Object.(*corev1.ConfigMap)
		if event.Type != kind || !ok || object.Name != name {
			t.Errorf("got the event %s %v, want %s of %s", event.Type, event.Object, kind, name)
		}
	case <-time.After(stopTimeout):
		t.Errorf("no event %s of %s", kind, name)
	}
}

func createAndDeleteNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	namespaces := client.CoreV1().Namespaces()
	if _, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		return err
	}
	return namespaces.Delete(ctx, name, metav1.DeleteOptions{})
}

// namespaceGoes makes and deletes a namespace, and waits until it is gone.
func namespaceGoes(t testing.TB, client kubernetes.Interface, name string) {
	t.Helper()
	if err := createAndDeleteNamespace(t.Context(), client, name); err != nil {
		t.Fatal(err)
	}
	gone(t, client, name)
}

func gone(t testing.TB, client kubernetes.Interface, namespace string) {
	t.Helper()
	eventually(t, startTimeout, func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("namespace %s is still there: %v", namespace, err)
	})
}
