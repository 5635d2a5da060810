// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookmode_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/cli"
	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/internal/review/recorded"
	"gatehouse.dev/plugin"
	"gatehouse.dev/test/servertest"
)

// externalService is a Service that DenyServiceExternalIPs refuses.
func externalService(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, ExternalIPs: []string{"192.0.2.1"}}}
}

// A user with a token and the right to list decisions asks a replica why it refused an object.
func TestWhyAsksAReplica(t *testing.T) {
	r := start(t, "--plugins=DenyServiceExternalIPs,SecurityContextDeny")
	namespace := cluster.Namespace(t, nil)
	if _, err := cluster.Client.CoreV1().Services(namespace).Create(t.Context(), externalService("external"),
		metav1.CreateOptions{}); err == nil {
		t.Fatal("the service wasn't refused")
	}
	accounts := cluster.Client.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request, err := accounts.CreateToken(t.Context(), "viewer", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token := "--token=" + request.Status.Token
	why := func(flags ...string) (int, string) {
		var out bytes.Buffer
		code := cli.Run(t.Context(), compiled.Plugins, append([]string{"why", "service/external", "-n", namespace,
			"--kubeconfig=" + cluster.Kubeconfig}, flags...), &out, &out)
		return code, out.String()
	}
	for _, test := range []struct {
		flags []string
		code  int
		says  string
	}{
		{[]string{token, "--webhook=gatehouse"}, 1, "you may not see the server's decisions: have a role bound to you"},
		{[]string{"--token=nobody's", "--webhook=gatehouse"}, 1, "the cluster doesn't accept the token"},
		{[]string{"--webhook=gatehouse"}, 2, "the kubeconfig has none"},
		{[]string{token, "--webhook=other"}, 2, "has registered no webhook configuration of that name"},
		{[]string{token, "--webhook=gatehouse=http://127.0.0.1:1"}, 2, "must be https://HOST:PORT"},
		{[]string{token, "--webhook=gatehouse=" + cluster.Config.Host}, 1, "certificate"},
		{[]string{token, "--webhook=gatehouse", "--as=alice"}, 2, "leave out --as"},
	} {
		if code, out := why(test.flags...); code != test.code || !strings.Contains(out, test.says) {
			t.Errorf("%q: code %d: %s", test.flags[1:], code, out)
		}
	}
	cluster.Grant(t, namespace, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "viewer"},
		plugin.To("list", "decisions.gatehouse.dev", "decisions"))
	for _, where := range []string{"gatehouse", fmt.Sprintf("gatehouse=https://localhost:%d", r.port)} {
		servertest.Eventually(t, "the right to see decisions, by "+where, func() bool {
			code, out := why(token, "--webhook="+where)
			out = strings.Join(strings.Fields(out), " ") // its lines are wrapped
			return code == 0 && strings.Contains(out, "DenyServiceExternalIPs") &&
				strings.Contains(out, "Use of external IPs is denied by admission control")
		})
	}
}

// With --record each request is in the file when the replica has ended, with the verdict.
func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.log")
	r := start(t, "--plugins=DenyServiceExternalIPs,SecurityContextDeny", "--record="+path, "--shutdown-delay-duration=0s")
	namespace := cluster.Namespace(t, nil)
	services := cluster.Client.CoreV1().Services(namespace)
	if _, err := services.Create(t.Context(), externalService("refused"), metav1.CreateOptions{}); err == nil {
		t.Fatal("the service wasn't refused")
	}
	fine := externalService("fine")
	fine.Spec.ExternalIPs = nil
	if _, err := services.Create(t.Context(), fine, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-r.exited
	log, err := recorded.Open(t.Context(), []string{path}, recorded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var got []string
	for {
		record, err := log.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if q := record.Decode(); q.Namespace == namespace {
			got = append(got, fmt.Sprint(q.Name, q.Unjudged, " ", q.Recorded.Outcome, " ", q.Recorded.Code, " ", q.Stored))
		}
	}
	if want := []string{"refused Refused 403 true", "fine Admitted 0 true"}; !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}
