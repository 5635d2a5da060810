// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/internal/wholefile"
	"gatehouse.dev/test/backends"
	"gatehouse.dev/test/servertest"
)

// admissionFiles is an admission configuration in a directory.
type admissionFiles struct {
	t   *testing.T
	dir string
}

func (f admissionFiles) path(name string) string { return filepath.Join(f.dir, name) }

func (f admissionFiles) write(name, content string) {
	f.t.Helper()
	must(f.t, wholefile.Write(f.path(name), func(out io.Writer) error {
		_, err := io.WriteString(out, content)
		return err
	}))
}

// point writes the kubeconfig by which the images' backend is reached.
func (f admissionFiles) point(backend *backends.Images) {
	f.t.Helper()
	kubeconfig, err := clientcmd.LoadFromFile(backend.Kubeconfig)
	must(f.t, err)
	must(f.t, clientcmd.ResolveLocalPaths(kubeconfig))
	content, err := clientcmd.Write(*kubeconfig)
	must(f.t, err)
	f.write("images.kubeconfig", string(content))
}

// configure writes a configuration in which everything is about a word: the nodes of pods, and the
// directories of webhooks and policies; and a kind of quota that every claim needs, or none.
func (f admissionFiles) configure(word string, limited bool) {
	f.t.Helper()
	quota := ""
	if limited {
		quota = "    limitedResources: [{resource: services, matchContains: [count/services]}]\n"
	}
	must(f.t, os.MkdirAll(f.path("webhooks-"+word), 0o700))
	must(f.t, os.MkdirAll(f.path("policies-"+word), 0o700))
	f.write("nodes.yaml", "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: env="+word+"}\n")
	f.write("admission.yaml", `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodNodeSelector
  path: nodes.yaml
- name: ImagePolicyWebhook
  configuration: {imagePolicy: {kubeConfigFile: images.kubeconfig, allowTTL: -1, denyTTL: -1}}
- name: ValidatingAdmissionWebhook
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    staticManifestsDir: webhooks-`+word+`
- name: ValidatingAdmissionPolicy
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ValidatingAdmissionPolicyConfiguration
    staticManifestsDir: policies-`+word+`
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
`+quota)
}

// A server goes by its admission configuration as it changes, keeps the last good one, says so, and
// has nothing left of those before.
func TestReloadAdmission(t *testing.T) {
	files := admissionFiles{t, t.TempDir()}
	files.configure("one", false)
	images, others := backends.StartImages(t, backends.AllowImages), backends.StartImages(t, backends.AllowImages)
	files.point(images)
	// --config gives a server its flags, and the command line goes before it.
	files.write("gatehouse.yaml", fmt.Sprintf("enable-admission-plugins: [PodNodeSelector, ImagePolicyWebhook]\n"+
		"secure-port: 1\nfeature-gates: {ContextualLogging: true}\nadmission-control-config-file: %s\n",
		files.path("admission.yaml")))
	process := servertest.NewProcess(t, "--config="+files.path("gatehouse.yaml"))
	// systemd is told when it is ready.
	address := &net.UnixAddr{Name: filepath.Join(process.DataDir, "notify"), Net: "unixgram"}
	systemd, err := net.ListenUnixgram(address.Net, address)
	must(t, err)
	defer systemd.Close()
	t.Setenv("NOTIFY_SOCKET", address.Name)
	process.Start(t)
	told := make([]byte, 64)
	if n, err := systemd.Read(told); err != nil || strings.TrimSpace(string(told[:n])) != "READY=1" {
		t.Errorf("systemd is told %q, %v", told[:n], err)
	}
	c := process.Connect(t)
	namespace := c.Namespace(t, nil)
	nodesOf := func() string {
		t.Helper()
		pod, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), servertest.Pod("p"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		must(t, err)
		return pod.Spec.NodeSelector["env"]
	}
	if got := nodesOf(); got != "one" {
		t.Fatalf("the pod is for nodes %q", got)
	}
	_, err = c.Client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "maps"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("1M")}},
	}, metav1.CreateOptions{})
	must(t, err)
	raw := func(path string) string {
		t.Helper()
		body, err := c.Client.Discovery().RESTClient().Get().AbsPath(path).Param("debug", "1").DoRaw(t.Context())
		must(t, err)
		return string(body)
	}
	reloads := func(status string) int {
		t.Helper()
		found := regexp.MustCompile(`apiserver_admission_config_controller_automatic_reloads_total` +
			`\{apiserver_id_hash="sha256:[0-9a-f]+",status="` + status + `"\} (\d+)`).
			FindStringSubmatch(raw("/metrics"))
		if found == nil {
			return 0
		}
		count, err := strconv.Atoi(found[1])
		must(t, err)
		return count
	}

	// What has changed is in force, by the file alone.
	files.configure("two", true)
	servertest.Eventually(t, "the second configuration", func() bool { return nodesOf() == "two" })
	// The nodes are in a file of their own, which may have been read before the other one was written.
	servertest.Retry(t, "a Service to need a quota", func() error {
		_, err := c.Client.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "insufficient quota to consume: count/services") {
			return fmt.Errorf("the answer is %v", err)
		}
		return nil
	})

	// A wrong one isn't, and is told of; not even what is right in it is used.
	good := reloads("success")
	files.write("nodes.yaml", "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: env=three}\n")
	servertest.Eventually(t, "the third configuration", func() bool { return nodesOf() == "three" })
	failed := reloads("failure")
	files.write("nodes.yaml", "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: '=='}\n")
	servertest.Eventually(t, "a failure", func() bool { return reloads("failure") > failed })
	if got := nodesOf(); got != "three" {
		t.Errorf("after a wrong configuration the pod is for nodes %q", got)
	}
	servertest.Eventually(t, "the log to tell of it", func() bool {
		return strings.Contains(process.Log(),
			"Reloading the admission configuration: the last good one stays in force")
	})
	// It is said once, however often the same is looked at, and again if somebody asks.
	said := func(text string) int { return strings.Count(process.Log(), text) }
	const bad, again = "the last good one stays in force", "which can be used again"
	failed = reloads("failure")
	files.write("nodes.yaml", "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: '=='}\n")
	servertest.Eventually(t, "another look", func() bool { return reloads("failure") > failed })
	if said(bad) != 1 || said(again) != 0 {
		t.Errorf("a configuration that is wrong is said %d times to be, and %d times to be right", said(bad),
			said(again))
	}
	process.Hangup(t)
	servertest.Eventually(t, "an answer to a SIGHUP", func() bool { return said(bad) == 2 })
	files.write("nodes.yaml", "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: env=three}\n")
	servertest.Eventually(t, "the log to tell that all is well", func() bool { return said(again) == 1 })
	if reloads("success") <= good {
		t.Errorf("%d reloads have succeeded, %d before", reloads("success"), good)
	}

	// A file that a plugin's configuration names is followed as well, and a wrong one isn't used.
	files.configure("four", false)
	servertest.Eventually(t, "the fourth configuration", func() bool { return nodesOf() == "four" })
	if images.Calls() == nil || others.Calls() != nil {
		t.Errorf("%d calls of the backend, %d of another", len(images.Calls()), len(others.Calls()))
	}
	files.point(others)
	servertest.Eventually(t, "the other backend to be asked", func() bool {
		return nodesOf() == "four" && others.Calls() != nil
	})
	failed = reloads("failure")
	files.write("images.kubeconfig", "no kubeconfig")
	servertest.Eventually(t, "another failure", func() bool { return reloads("failure") > failed })
	asked := len(others.Calls())
	if nodesOf(); len(others.Calls()) != asked+1 {
		t.Error("with a kubeconfig that is none the last good one isn't in force")
	}
	files.point(others)

	// While it is reloaded fifty times nobody is refused, no write goes uncharged, and then nothing
	// is left.
	goroutines := func() int {
		t.Helper()
		total := regexp.MustCompile(`total (\d+)`).FindStringSubmatch(raw("/debug/pprof/goroutine"))
		if total == nil {
			t.Fatal("the profile says nothing")
		}
		count, err := strconv.Atoi(total[1])
		must(t, err)
		return count
	}
	w := startWriters(t, c.Client, namespace, 2)
	reload := func(i int) {
		t.Helper()
		word := fmt.Sprint("word", i)
		files.configure(word, i%2 == 0)
		process.Hangup(t)
		servertest.Eventually(t, "configuration "+word, func() bool { return nodesOf() == word })
	}
	for i := range 5 {
		reload(i)
	}
	before := goroutines()
	for i := range 50 {
		reload(i)
	}
	servertest.Eventually(t, "the old plugins to end", func() bool { return goroutines() < before+20 })
	w.stop()
	list, err := c.Client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	quota, err := c.Client.CoreV1().ResourceQuotas(namespace).Get(t.Context(), "maps", metav1.GetOptions{})
	must(t, err)
	if used := quota.Status.Used["count/configmaps"]; used.Value() != int64(len(list.Items)) {
		t.Errorf("the quota says %s, there are %d", used.String(), len(list.Items))
	}
	t.Logf("%d goroutines before 50 reloads, %d after; %d writes meanwhile", before, goroutines(), len(w.have()))
}
