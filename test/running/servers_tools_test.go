// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package running_test

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/cli"
	"gatehouse.dev/plugins"
	"gatehouse.dev/test/servertest"
)

// why runs gatehouse why against the server.
func (m *member) why(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, says bytes.Buffer
	args = append([]string{"why", "--kubeconfig=" + m.Kubeconfig}, args...)
	code = cli.Run(t.Context(), plugins.List, args, &out, &says)
	return out.String(), says.String(), code
}

// A client that sends one audit ID to two servers hides neither decision behind the other.
func TestServersAuditID(t *testing.T) {
	store := servertest.StartEtcd(t)
	one, two := startMember(t, store.Endpoint()), startMember(t, store.Endpoint())
	namespace := one.Namespace(t, nil)
	const auditID = "one-id"
	for i, m := range []*member{one, two} {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: []string{"a", "b"}[i]}}
		if err := m.Client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("configmaps").
			SetHeader("Audit-ID", auditID).Body(object).Do(t.Context()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	list := one.expect(t, namespace, "a b")
	if a, b := list.Items[0].Name, list.Items[1].Name; a == b || a == auditID || b == auditID {
		t.Errorf("the decisions are %s and %s", a, b)
	}
	if text, _, code := one.why(t, auditID); code != 0 || !strings.Contains(text, "configmaps/b") {
		t.Errorf("gatehouse why: %d %s", code, text)
	}
}

// kubectl and gatehouse why have the decisions of all servers from any of them, name the server of
// each, and print the warnings about servers that don't answer.
func TestServersTools(t *testing.T) {
	store := servertest.StartEtcd(t)
	one, two := startMember(t, store.Endpoint()), startMember(t, store.Endpoint())
	namespace := one.Namespace(t, nil)
	two.decide(t, namespace, "a")
	kubectl := one.Kubectl(t, namespace)
	name := strings.TrimSpace(kubectl.OK("", "get", "decisions", "--field-selector="+about, "--output=name"))
	if table := kubectl.OK("", "get", name); !strings.Contains(table, "configmaps/a") {
		t.Errorf("kubectl gets\n%s", table)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watching := exec.CommandContext(ctx, servertest.KubectlPath(t), "--kubeconfig="+one.Kubeconfig,
		"--namespace="+namespace, "get", "decisions", "--watch", "--field-selector="+about)
	watching.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := watching.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watching.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	next := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Errorf("kubectl get --watch ends without %q", want)
	}
	next("configmaps/a")
	for _, m := range []*member{two, one, two} {
		m.decide(t, namespace, "b")
		next("configmaps/b")
		if err := m.Client.CoreV1().ConfigMaps(namespace).Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	_ = watching.Wait() // was killed

	decision := two.expect(t, namespace, "a b b b").Items[0]
	server := "server " + decision.Labels["decisions.gatehouse.dev/server"]
	for _, args := range [][]string{{"configmap/a", "-n", namespace}, {decision.Name}} {
		if text, said, code := one.why(t, args...); code != 0 || !strings.Contains(text, server) || said != "" {
			t.Errorf("gatehouse why %q: %d\n%s%s", args, code, text, said)
		}
	}
	two.Suspend(t)
	if _, said, code := kubectl.Run("", "get", name); code == 0 || !strings.Contains(said, server+" are missing") {
		t.Errorf("kubectl gets what a server has that doesn't answer: %d %s", code, said)
	}
	if _, said, code := kubectl.Run("", "get", "decisions"); code != 0 ||
		!strings.Contains(said, "Warning: the decisions of "+server+" are missing") {
		t.Errorf("kubectl says %d %s", code, said)
	}
	_, said, code := one.why(t, decision.Name)
	if code != 1 || strings.Count(said, "gatehouse: warning: the decisions of "+server+" are missing") != 1 {
		t.Errorf("gatehouse why says %d %s", code, said)
	}
}
