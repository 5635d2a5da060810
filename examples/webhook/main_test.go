// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/needs"
)

const (
	deadline     = 2 * time.Minute
	pollInterval = 5 * time.Millisecond
	// defaultAddress is that of the README and of the manifests.
	defaultAddress = "127.0.0.1:8443"
)

func TestMain(m *testing.M) {
	flag.Parse()
	klog.LogToStderr(false) // the tests cause refusals
	klog.SetOutput(io.Discard)
	os.Exit(m.Run())
}

func pod(name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
	}
}

// The webhooks by themselves, as functions.
func TestWebhooks(t *testing.T) {
	for _, c := range []struct {
		labels                  map[string]string
		patch, warning, refusal string
	}{
		{nil, `[{"op":"add","path":"/metadata/labels","value":{"example.com/protected":"true"}}]`, "", ""},
		{map[string]string{"a": "b"}, `[{"op":"add","path":"/metadata/labels/example.com~1protected","value":"true"}]`,
			"", ""},
		{map[string]string{protected: "true"}, "", "",
			`pods "web" is protected against deletion: set its label example.com/protected to "false" first`},
		{map[string]string{protected: "false"}, "",
			`metadata.labels[example.com/protected]: "false" leaves this pod without protection against deletion`, ""},
		{map[string]string{protected: ""}, "",
			`metadata.labels[example.com/protected]: "" leaves this pod without protection against deletion`, ""},
	} {
		raw, err := json.Marshal(pod("web", c.labels))
		if err != nil {
			t.Fatal(err)
		}
		object := runtime.RawExtension{Raw: raw}
		created := protect(t.Context(), &admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: object})
		if !created.Allowed || string(created.Patch) != c.patch || strings.Join(created.Warnings, "\n") != c.warning {
			t.Errorf("creating a pod with labels %q: %+v", c.labels, created)
		}
		deleted := keep(t.Context(), &admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: object})
		if deleted.Allowed != (c.refusal == "") || !deleted.Allowed && deleted.Result.Message != c.refusal {
			t.Errorf("deleting a pod with labels %q: %+v", c.labels, deleted)
		}
	}
	if protect(t.Context(), &admissionv1.AdmissionRequest{}).Allowed ||
		keep(t.Context(), &admissionv1.AdmissionRequest{}).Allowed {
		t.Error("without an object there is nothing to decide about")
	}
}

// What the README shows, with real processes and a real server.
func TestReadme(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	srv := gatehousetest.Start(t)
	s := newShell(t, srv.Kubeconfig)
	shows := func(command, output string) {
		t.Helper()
		if got := s.run(command); got != output {
			t.Errorf("$ %s\nprints\n%s\nand should print\n%s", command, got, output)
		}
		inReadme(t, readme, "$ "+command, output)
	}
	inReadme(t, readme,
		`$ go run "$(go env GOROOT)/src/crypto/tls/generate_cert.go" --host=127.0.0.1 --ecdsa-curve=P256`, "")
	s.run(`go run "$(go env GOROOT)/src/crypto/tls/generate_cert.go" --host=127.0.0.1 --ecdsa-curve=P256`)
	inReadme(t, readme, "go run . --address="+defaultAddress+" --cert-file=cert.pem --key-file=key.pem", "")
	address := s.startWebhooks("--address=127.0.0.1:0", "--cert-file=cert.pem", "--key-file=key.pem")
	s.copy("webhooks.yaml", defaultAddress, address)

	shows(`sed "s|CA_BUNDLE|$(base64 < cert.pem | tr -d '\n')|" webhooks.yaml | kubectl apply --filename=-`,
		"mutatingwebhookconfiguration.admissionregistration.k8s.io/protection created\n"+
			"validatingwebhookconfiguration.admissionregistration.k8s.io/protection created\n")
	client := kubernetes.NewForConfigOrDie(srv.Config)
	inForce(t, client)
	shows("kubectl run web --image=nginx", "pod/web created\n")
	shows(`kubectl get pod web --output=jsonpath='{.metadata.labels}{"\n"}'`,
		`{"example.com/protected":"true","run":"web"}`+"\n")
	shows("kubectl delete pod web",
		`Error from server (Forbidden): admission webhook "keep.example.com" denied the request: `+
			`pods "web" is protected against deletion: set its label example.com/protected to "false" first`+"\n")
	shows("kubectl label pod web example.com/protected=false --overwrite", "pod/web labeled\n")
	// What follows "deleted" depends on the version of kubectl.
	if got := s.run("kubectl delete pod web"); !strings.HasPrefix(got, `pod "web" deleted`) {
		t.Errorf("kubectl delete pod web prints %s", got)
	}
	inReadme(t, readme, "$ kubectl delete pod web", `pod "web" deleted…`)
	shows("kubectl run web --image=nginx --labels=example.com/protected=false",
		`Warning: metadata.labels[example.com/protected]: "false" leaves this pod without protection against `+
			`deletion`+"\npod/web created\n")

	// A namespace is deleted with all its protected pods: by a controller, which isn't asked.
	s.run("kubectl create namespace gone && kubectl run web --image=nginx --namespace=gone")
	if got, want := s.run("kubectl delete namespace gone --timeout=2m"), `namespace "gone" deleted`+"\n"; got != want {
		t.Errorf("deleting a namespace prints %s, want %s", got, want)
	}
}

// The API server proves who it is; others are not answered.
func TestClientCertificates(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a server")
	}
	authority := webhooktest.NewAuthority(t)
	s := newShell(t, "")
	s.run(`go run "$(go env GOROOT)/src/crypto/tls/generate_cert.go" --host=127.0.0.1 --ecdsa-curve=P256`)
	s.write("ca.crt", authority.PEM())
	address := s.startWebhooks("--address=127.0.0.1:0", "--cert-file=cert.pem", "--key-file=key.pem",
		"--client-ca-file=ca.crt", "--client-names=apiserver")
	s.copy("admission.yaml", "/etc/gatehouse", s.dir)
	s.copy("webhooks.yaml", defaultAddress, address)
	start := func(user string) *kubernetes.Clientset {
		cert, key := authority.Client(user)
		s.write(user+".crt", cert)
		s.write(user+".key", key)
		s.copy("webhooks.kubeconfig", defaultAddress, address, "apiserver.", user+".")
		srv := gatehousetest.Start(t,
			gatehousetest.WithConfig(func(c *server.Config) { c.Admission.ConfigFile = filepath.Join(s.dir, "admission.yaml") }))
		s.kubeconfig = srv.Kubeconfig
		manifest, caBundle := s.read("webhooks.yaml"), base64.StdEncoding.EncodeToString(s.read("cert.pem"))
		s.write("applied.yaml", []byte(strings.ReplaceAll(string(manifest), "CA_BUNDLE", caBundle)))
		s.run("kubectl apply --filename=applied.yaml")
		return kubernetes.NewForConfigOrDie(srv.Config)
	}
	inForce(t, start("apiserver"))

	pods := start("mallory").CoreV1().Pods("default")
	if _, err := pods.Create(t.Context(), pod("web", map[string]string{protected: "true"}),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const want = `failed calling webhook "keep.example.com": failed to call webhook: the client certificate is that ` +
		`of "mallory", who may not call this webhook`
	// Earlier there is no webhook that would refuse.
	eventually(t, "a refusal of the client's certificate", func() bool {
		err := pods.Delete(t.Context(), "web", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), want)
	})
}

// inReadme wants the README to show a command and what it prints.
func inReadme(t *testing.T, readme []byte, command, output string) {
	t.Helper()
	if shown := "\n" + command + "\n" + output; !strings.Contains(string(readme), shown) {
		t.Errorf("README.md doesn't show%s", shown)
	}
}

// inForce waits until both configurations are.
func inForce(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	pods := client.CoreV1().Pods("default")
	dryRun := []string{metav1.DryRunAll}
	eventually(t, "a pod to be labelled", func() bool {
		made, err := pods.Create(t.Context(), pod("probe", nil), metav1.CreateOptions{DryRun: dryRun})
		return err == nil && made.Labels[protected] == "true"
	})
	if _, err := pods.Create(t.Context(), pod("probe", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod to be protected", func() bool {
		return pods.Delete(t.Context(), "probe", metav1.DeleteOptions{DryRun: dryRun}) != nil
	})
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), pollInterval, deadline, true,
		func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// shell is where the README's reader sits: in a directory of its own, with kubectl.
type shell struct {
	t                    *testing.T
	dir, bin, kubeconfig string
}

func newShell(t *testing.T, kubeconfig string) *shell {
	t.Helper()
	needs.Programs(t, "base64", "sed", "sh", "tr")
	// builds it
	kubectl, err := exec.CommandContext(t.Context(), "go", "tool", "-n", "kubectl").Output()
	if err != nil {
		t.Fatalf("building kubectl: %v", err)
	}
	return &shell{t, t.TempDir(), filepath.Dir(strings.TrimSpace(string(kubectl))), kubeconfig}
}

// run is what a command prints.
func (s *shell) run(command string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "PATH="+s.bin+":"+os.Getenv("PATH"), "KUBECONFIG="+s.kubeconfig)
	out, _ := cmd.CombinedOutput() // what it prints says whether it failed
	return string(out)
}

// startWebhooks builds this program and runs it until the test's end, when it must end in good
// order.
func (s *shell) startWebhooks(args ...string) (address string) {
	s.t.Helper()
	binary := filepath.Join(s.t.TempDir(), "webhook")
	if out, err := exec.CommandContext(s.t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		s.t.Fatalf("go build: %v\n%s", err, out)
	}
	cmd := exec.Command(binary, args...)
	cmd.Dir, cmd.Stderr = s.dir, os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			s.t.Errorf("the webhooks ended with %v", err)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		s.t.Fatalf("the webhooks ended at once: %v", err)
	}
	address, found := strings.CutPrefix(line, "Webhooks at https://")
	address, _, cut := strings.Cut(address, "/")
	if !found || !cut {
		s.t.Fatalf("the webhooks say %q", line)
	}
	return address
}

// copy copies a file of this folder with what depends on the test replaced: one thing by the next.
func (s *shell) copy(file string, replaced ...string) {
	s.t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(replaced); i += 2 {
		if !strings.Contains(string(content), replaced[i]) {
			s.t.Fatalf("%s has no %s", file, replaced[i])
		}
	}
	s.write(file, []byte(strings.NewReplacer(replaced...).Replace(string(content))))
}

func (s *shell) write(file string, content []byte) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, file), content, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shell) read(file string) []byte {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(s.dir, file))
	if err != nil {
		s.t.Fatal(err)
	}
	return content
}
