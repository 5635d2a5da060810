// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"gatehouse.dev/cli"
	"gatehouse.dev/plugins"
	"gatehouse.dev/test/servertest"
)

// command runs one of gatehouse's commands that is to succeed.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Run(t.Context(), plugins.List, args, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("gatehouse %s: exit code %d\n%s", strings.Join(args, " "), code, &errs)
	}
	return out.String()
}

// writers create ConfigMaps until they are stopped.
type writers struct {
	acknowledged []string
	mu           sync.Mutex
	all          sync.WaitGroup
	stop         context.CancelFunc
}

func startWriters(t *testing.T, client kubernetes.Interface, namespace string, count int) *writers {
	ctx, cancel := context.WithCancel(t.Context())
	w := &writers{stop: func() {}}
	w.stop = func() { cancel(); w.all.Wait() }
	for writer := range count {
		w.all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("written-%d-%d", writer, i)
				_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(),
					&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				w.mu.Lock()
				w.acknowledged = append(w.acknowledged, name)
				w.mu.Unlock()
			}
		})
	}
	return w
}

func (w *writers) have() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.acknowledged)
}

// A backup of a server that is being written to has all that was acknowledged before; what is
// restored from it is the same server to old kubeconfigs, tokens, watches and quotas.
func TestBackupUnderLoad(t *testing.T) {
	process := servertest.NewProcess(t)
	process.Start(t)
	c := process.Connect(t)
	const limited = corev1.ResourceName("count/configmaps")
	namespace := c.Namespace(t, nil)
	_, err := c.Client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "maps"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{limited: resource.MustParse("1M")}},
	}, metav1.CreateOptions{})
	must(t, err)
	quota := func(client kubernetes.Interface) int64 {
		t.Helper()
		quota, err := client.CoreV1().ResourceQuotas(namespace).Get(t.Context(), "maps", metav1.GetOptions{})
		must(t, err)
		used := quota.Status.Used[limited]
		return used.Value()
	}
	servertest.Eventually(t, "the root certificate to be charged", func() bool { return quota(c.Client) > 0 })
	var token *authenticationv1.TokenRequest
	servertest.Eventually(t, "a token of the default service account", func() bool {
		token, err = c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default",
			&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		return !apierrors.IsNotFound(err) // another controller makes that account
	})
	must(t, err)

	w := startWriters(t, c.Client, namespace, 4)
	servertest.Eventually(t, "the writers to be at work", func() bool { return len(w.have()) > 100 })
	before := w.have()
	file := filepath.Join(t.TempDir(), "backup")
	command(t, "backup", file, "--data-dir="+process.DataDir)
	after := w.have()
	servertest.Eventually(t, "writes after the backup", func() bool { return len(w.have()) > len(after)+100 })
	w.stop()
	later, err := c.Client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	process.Kill()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup's file: %v, %v", info, err)
	}

	restored := process.Moved(t)
	command(t, "restore", file, "--data-dir="+restored.DataDir)
	restored.Start(t)
	client := c.Client // the old kubeconfig's
	list, err := client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	names := map[string]bool{}
	for _, item := range list.Items {
		names[item.Name] = true
	}
	for _, name := range before {
		if !names[name] {
			t.Errorf("%s was acknowledged before the backup, and is gone", name)
		}
	}
	if len(list.Items) >= len(later.Items) {
		t.Errorf("%d objects are restored of %d that there were at last", len(list.Items), len(later.Items))
	}
	if used := quota(client); used != int64(len(list.Items)) {
		t.Errorf("the quota says %d, there are %d", used, len(list.Items))
	}
	// Who has seen later objects is told so, and so is who has seen earlier ones.
	for _, version := range []string{later.ResourceVersion, later.Items[0].ResourceVersion} {
		err := watchError(t, client, namespace, version)
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			t.Errorf("a watch from resource version %s: %v", version, err)
		}
	}
	_, err = client.CoreV1().ConfigMaps(namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
	must(t, err)
	if used := quota(client); used != int64(len(list.Items))+1 {
		t.Errorf("after one more the quota says %d, there are %d", used, len(list.Items)+1)
	}
	bearer := rest.AnonymousClientConfig(c.Config)
	bearer.BearerToken = token.Status.Token
	who, err := kubernetes.NewForConfigOrDie(bearer).AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || !strings.HasSuffix(who.Status.UserInfo.Username, ":default") {
		t.Errorf("with a token from before the backup: %v, %v", who, err)
	}
}

// watchError is what a watch from a resource version ends with.
func watchError(t *testing.T, client kubernetes.Interface, namespace, version string) error {
	t.Helper()
	w, err := client.CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return err
	}
	defer w.Stop()
	event := <-w.ResultChan()
	return apierrors.FromObject(event.Object)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
