// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	podsecuritytest "k8s.io/pod-security-admission/test"
	"k8s.io/utils/ptr"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// audited is a server with PodSecurity configured, the older workloads, and an audit log.
var audited = sync.OnceValues(func() (*servertest.Cluster, string) {
	dir, err := os.MkdirTemp("", "gatehouse-")
	if err != nil {
		suite.Fatal(err)
	}
	suite.Cleanup(func() { os.RemoveAll(dir) })
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			suite.Fatal(err)
		}
		return path
	}
	log := filepath.Join(dir, "audit.log")
	c := servertest.Start(&suite, servertest.RuntimeConfig("apps/v1beta1=true", "extensions/v1beta1=true"),
		gatehousetest.WithConfig(func(c *server.Config) {
			c.Admission.ConfigFile = write("admission.yaml", `
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {audit: baseline, audit-version: v1.20}
    exemptions:
      usernames: [trusted]
      namespaces: [exempt]
      runtimeClasses: [sandbox]
`)
			c.API.Audit.PolicyFile = write("policy.yaml", `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata, verbs: [create, update, patch]}]
`)
			c.API.Audit.LogOptions.Path = log
		}))
	ctx := context.Background()
	if _, err := c.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "exempt"}}, metav1.CreateOptions{}); err != nil {
		suite.Fatal(err)
	}
	if _, err := c.Client.NodeV1().RuntimeClasses().Create(ctx, &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "sandbox"}, Handler: "sandbox"}, metav1.CreateOptions{}); err != nil {
		suite.Fatal(err)
	}
	return c, log
})

// recorded is what a client is warned of, but for what is deprecated.
type recorded struct {
	sync.Mutex
	warnings []string
}

func (r *recorded) HandleWarningHeader(_ int, _, text string) {
	r.Lock()
	defer r.Unlock()
	if !strings.Contains(text, "is deprecated") {
		r.warnings = append(r.warnings, text)
	}
}

// flush are the warnings since it was called before.
func (r *recorded) flush() []string {
	r.Lock()
	defer r.Unlock()
	defer func() { r.warnings = nil }()
	return r.warnings
}

// labeledNamespace makes a namespace with labels of PodSecurity, as "enforce", "baseline".
func labeledNamespace(t *testing.T, c *servertest.Cluster, pairs ...string) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: map[string]string{}}}
	for i := 0; i < len(pairs); i += 2 {
		namespace.Labels["pod-security.kubernetes.io/"+pairs[i]] = pairs[i+1]
	}
	created, err := c.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created.Name
}

// Kubernetes' own conformance test of what enforces the standards: pods and Deployments that each
// check of each version of each level allows, and such that it doesn't.
func TestPodSecurityStandards(t *testing.T) {
	t.Parallel()
	c := clusterWith()
	podsecuritytest.Run(t, podsecuritytest.Options{ClientConfig: servertest.Quick(c.Config)})
}

// The whole life of a pod, by clients that read what they are told.
func TestPodSecurity(t *testing.T) {
	t.Parallel()
	c, log := audited()
	ns := labeledNamespace(t, c, "enforce", "baseline", "enforce-version", "v1.36", "warn", "restricted")
	const (
		warned   = `would violate PodSecurity "restricted:latest": `
		enforced = ` is forbidden: violates PodSecurity "baseline:v1.36": `
	)
	told := &recorded{}
	client := func(user string) kubernetes.Interface {
		config := servertest.Quick(c.Config)
		config.WarningHandler = told
		if user != "" {
			config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
		}
		return kubernetes.NewForConfigOrDie(config)
	}
	pods := client("").CoreV1().Pods(ns)
	host := func(name string) *corev1.Pod {
		pod := servertest.Pod(name)
		pod.Spec.HostNetwork = true
		return pod
	}
	type outcome struct {
		refused, warning string
		audit            map[string]string
	}
	// Each request has a field manager of its own, by which it is found in the audit log.
	wanted := map[string]map[string]string{}
	want := func(t *testing.T, id string, err error, o outcome) {
		t.Helper()
		wanted[id] = o.audit
		if err == nil && o.refused != "" || err != nil && (!apierrors.IsForbidden(err) || err.Error() != o.refused) {
			t.Errorf("%s: got  %v\nwant %s", id, err, o.refused)
		}
		got := strings.Join(told.flush(), "\n")
		if !strings.HasPrefix(got, o.warning) || (got == "") != (o.warning == "") {
			t.Errorf("%s: warned %q, want %q…", id, got, o.warning)
		}
	}
	create := func(t *testing.T, user string, pod *corev1.Pod, namespace, id string, o outcome) {
		t.Helper()
		_, err := client(user).CoreV1().Pods(namespace).Create(t.Context(), pod,
			metav1.CreateOptions{FieldManager: id})
		want(t, id, err, o)
	}
	policy := func(more ...string) map[string]string {
		annotations := map[string]string{"enforce-policy": "baseline:v1.36"}
		for i := 0; i < len(more); i += 2 {
			annotations[more[i]] = more[i+1]
		}
		return annotations
	}
	const hostViolation = `host namespaces (hostNetwork=true)`
	violation := []string{"audit-violations", `would violate PodSecurity "baseline:v1.20": ` + hostViolation}

	create(t, "", servertest.Pod("p"), ns, "allow", outcome{warning: warned, audit: policy()})
	create(t, "", host("host"), ns, "deny",
		outcome{refused: `pods "host"` + enforced + hostViolation, audit: policy(violation...)})
	create(t, "trusted", host("by-trusted"), ns, "exempt-user", outcome{audit: map[string]string{"exempt": "user"}})
	create(t, "", host("host"), "exempt", "exempt-namespace", outcome{audit: map[string]string{"exempt": "namespace"}})
	sandboxed := host("sandboxed")
	sandboxed.Spec.RuntimeClassName = ptr.To("sandbox")
	create(t, "", sandboxed, ns, "exempt-class", outcome{audit: map[string]string{"exempt": "runtimeClass"}})

	// What an exempt user made is nobody else's to change, but for what doesn't matter.
	patch := func(pod, id, content string, o outcome, subresources ...string) {
		t.Helper()
		_, err := pods.Patch(t.Context(), pod, types.StrategicMergePatchType, []byte(content),
			metav1.PatchOptions{FieldManager: id}, subresources...)
		want(t, id, err, o)
	}
	patch("by-trusted", "update-labels", `{"metadata": {"labels": {"a": "b"}}}`, outcome{})
	patch("by-trusted", "update-image", `{"spec": {"containers": [{"name": "main", "image": "main:2"}]}}`,
		outcome{refused: `pods "by-trusted"` + enforced + hostViolation, audit: policy(violation...)})
	patch("p", "update-good-image", `{"spec": {"containers": [{"name": "main", "image": "main:2"}]}}`,
		outcome{warning: warned, audit: policy()})
	patch("by-trusted", "status", `{"status": {"message": "m"}}`, outcome{}, "status")
	patch("p", "debug", `{"spec": {"ephemeralContainers": [{"name": "debug", "image": "debug:1",
		"securityContext": {"privileged": true}}]}}`, outcome{refused: `pods "p"` + enforced +
		`privileged (container "debug" must not set securityContext.privileged=true)`,
		audit: policy("audit-violations", `would violate PodSecurity "baseline:v1.20": privileged (container "debug" `+
			`must not set securityContext.privileged=true)`)}, "ephemeralcontainers")
	patch("p", "debug-well", `{"spec": {"ephemeralContainers": [{"name": "debug", "image": "debug:1"}]}}`,
		outcome{warning: warned, audit: policy()}, "ephemeralcontainers")

	// A running pod can be resized, whatever else it is. PodResizeValidator asks for its node.
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"kubernetes.io/os": "linux"}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("8")}},
	}
	if _, err := c.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	running := host("running")
	running.Spec.NodeName = "node"
	running.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	create(t, "trusted", running, ns, "running", outcome{audit: map[string]string{"exempt": "user"}})
	patch("running", "resize", `{"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}}`,
		outcome{}, "resize")

	// Nothing is stored, all is said.
	_, err := pods.Create(t.Context(), host("dry"), metav1.CreateOptions{FieldManager: "dry-run",
		DryRun: []string{metav1.DryRunAll}})
	want(t, "dry-run", err, outcome{refused: `pods "dry"` + enforced + hostViolation, audit: policy(violation...)})

	// What makes pods, in today's version and in older ones.
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec: host("").Spec},
		},
	}
	ofTemplate := outcome{warning: warned + hostViolation, audit: map[string]string{violation[0]: violation[1]}}
	_, err = client("").AppsV1().Deployments(ns).Create(t.Context(), deployment,
		metav1.CreateOptions{FieldManager: "deployment"})
	want(t, "deployment", err, ofTemplate)
	for _, version := range []string{"apps/v1", "apps/v1beta1", "extensions/v1beta1"} {
		path := "/apis/" + version + "/namespaces/" + ns + "/deployments/web"
		id := strings.ReplaceAll(version, "/", "-")
		label := []byte(`{"metadata": {"labels": {"v": "` + id + `"}}}`)
		err := client("").CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(path).Param("fieldManager", id).
			Body(label).Do(t.Context()).Error()
		want(t, id, err, ofTemplate)
	}
	err = client("").CoreV1().RESTClient().Patch(types.MergePatchType).
		AbsPath("/apis/apps/v1/namespaces/"+ns+"/deployments/web/scale").Param("fieldManager", "scale").
		Body([]byte(`{"spec": {"replicas": 2}}`)).Do(t.Context()).Error()
	want(t, "scale", err, outcome{})

	wantAudited(t, log, wanted)
}

// wantAudited waits for the audit events of the requests with these field managers, and wants their
// annotations of PodSecurity to be these.
func wantAudited(t *testing.T, log string, wanted map[string]map[string]string) {
	t.Helper()
	got := map[string]map[string]string{}
	servertest.Eventually(t, "all requests to be in the audit log", func() bool {
		data, err := os.ReadFile(log)
		if err != nil {
			return false
		}
		for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
			var event auditv1.Event
			if json.Unmarshal(lines.Bytes(), &event) != nil {
				return false // half written
			}
			_, query, _ := strings.Cut(event.RequestURI, "?")
			for parameter := range strings.SplitSeq(query, "&") {
				if id, ok := strings.CutPrefix(parameter, "fieldManager="); ok {
					got[id] = map[string]string{}
					for key, value := range event.Annotations {
						if key, ok := strings.CutPrefix(key, "pod-security.kubernetes.io/"); ok {
							got[id][key] = value
						}
					}
				}
			}
		}
		for id := range wanted { // others are of other tests
			if got[id] == nil {
				return false
			}
		}
		return true
	})
	for id, annotations := range wanted {
		if !maps.Equal(got[id], annotations) {
			t.Errorf("%s: audited %q, want %q", id, got[id], annotations)
		}
	}
}

// Labels of namespaces are checked, and an update tells of the pods that are there, in more than
// one page of a list, but for exempt ones.
func TestPodSecurityOfNamespaces(t *testing.T) {
	t.Parallel()
	c, _ := audited()
	ns := labeledNamespace(t, c)
	k := c.Kubectl(t, ns)
	label := func(text string) string { return "pod-security.kubernetes.io/" + text }

	k.Fails("", []string{"label", "namespace", ns, label("enforce=strict")}, "The Namespace \""+ns+"\" is invalid: "+
		`metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "strict": must be one of privileged, `+
		"baseline, restricted\n")
	k.Fails(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "never", "labels": {"`+
		label("warn-version")+`": "v2"}}}`, []string{"create", "--filename=-"},
		`metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "v2": must be "latest" or "v1.x"`)

	const total = 1003
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "1",
		Controller: ptr.To(true)}
	var wait sync.WaitGroup
	names := make(chan int, total)
	for i := range total {
		names <- i
	}
	close(names)
	for range 16 {
		wait.Go(func() {
			for i := range names {
				pod := servertest.Pod(fmt.Sprintf("p-%04d", i))
				pod.OwnerReferences = []metav1.OwnerReference{owner}
				if i%500 == 499 { // the last of a page
					pod.Spec.HostPID, pod.OwnerReferences = true, nil
				}
				if i == total-1 {
					pod.Spec.HostPID, pod.Spec.RuntimeClassName = true, ptr.To("sandbox")
				}
				if _, err := c.Client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	warn := func(want string, args ...string) {
		t.Helper()
		_, stderr, code := k.Run("", append([]string{"label", "--overwrite", "namespace", ns}, args...)...)
		if code != 0 || stderr != want {
			t.Errorf("kubectl label %q: exit code %d\n%swant\n%s", args, code, stderr, want)
		}
	}
	const hostWarning = "Warning: p-0499 (and 1 other pod): host namespaces\n"
	baseline := `Warning: existing pods in namespace "` + ns +
		`" violate the new PodSecurity enforce level "baseline:latest"` + "\n" + hostWarning
	warn(baseline, "--dry-run=server", label("enforce=baseline"))
	warn(baseline, label("enforce=baseline"))
	warn("", label("a=b"), label("audit=restricted")) // what is enforced stays
	warn("", label("enforce=privileged"))
	warn(baseline, label("enforce=baseline"))
	// Pods are told of that were created a moment ago.
	if err := c.Client.CoreV1().Pods(ns).Delete(t.Context(), "p-0499", metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To(int64(0))}); err != nil {
		t.Fatal(err)
	}
	warn("", label("enforce=privileged"))
	warn(strings.Replace(baseline, hostWarning, "Warning: p-0999: host namespaces\n", 1), label("enforce=baseline"))

	const exempt = `Warning: namespace "exempt" is exempt from Pod Security, and the policy ` +
		"(enforce=restricted:latest) will be ignored\n"
	_, stderr, _ := k.Run("", "label", "namespace", "exempt", "--dry-run=server", label("enforce=restricted"))
	if stderr != exempt {
		t.Errorf("got  %swant %s", stderr, exempt)
	}
}

// A subresource that writes pods and that PodSecurity doesn't look at is a way around it. These are
// those that it knows.
func TestPodSecurityKnowsSubresources(t *testing.T) {
	t.Parallel()
	list, err := clusterWith().Client.Discovery().ServerResourcesForGroupVersion("v1")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, r := range list.APIResources {
		if name, ok := strings.CutPrefix(r.Name, "pods/"); ok {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	want := []string{"attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy",
		"resize", "status"}
	if !slices.Equal(found, want) {
		t.Errorf("pods have the subresources %q; PodSecurity knows %q", found, want)
	}
}

// The metrics, by name and labels, are Kubernetes'. They are those of all servers of the process,
// of which no other has pods of a version to come.
func TestPodSecurityMetrics(t *testing.T) {
	t.Parallel()
	c, _ := audited()
	ns := labeledNamespace(t, c, "enforce", "baseline", "enforce-version", "v1.99")
	pod := servertest.Pod("host")
	pod.Spec.HostNetwork = true
	_, err := c.Client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	data, err := c.Client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(string(data)))
	for _, want := range []string{
		`pod_security_evaluations_total{decision="deny",mode="enforce",policy_level="baseline",` +
			`policy_version="future",request_operation="create",resource="pod",subresource=""} 1`,
		`pod_security_exemptions_total{request_operation="update",resource="controller",subresource=""} 0`,
	} {
		if !slices.Contains(lines, want+"\n") {
			t.Errorf("there is no %s", want)
		}
	}
}

// A server that shows the behaviour of an older release has that one's latest checks.
func TestPodSecurityEmulated(t *testing.T) {
	t.Parallel()
	process := servertest.NewProcess(t, "--emulated-version=1.34")
	process.Start(t)
	c := process.Connect(t)
	ns := labeledNamespace(t, c, "enforce", "baseline")
	pod := servertest.Pod("own-users")
	pod.Spec.HostUsers = ptr.To(false)
	pod.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{ProcMount: ptr.To(corev1.UnmaskedProcMount)}
	_, err := c.Client.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
	if want := `pods "own-users" is forbidden: violates PodSecurity "baseline:latest": procMount (container "main" ` +
		`must not set securityContext.procMount to "Unmasked")`; !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// A configuration that is wrong ends the start.
func TestPodSecurityConfiguration(t *testing.T) {
	t.Parallel()
	err := servertest.StartError(t, servertest.Configured(t, map[string]string{"PodSecurity": `
apiVersion: pod-security.admission.config.k8s.io/v1
kind: PodSecurityConfiguration
defaults: {enforce: base}
`}))
	if want := `the configuration of PodSecurity: defaults.enforce: Invalid value: "base": must be one of ` +
		`privileged, baseline, restricted`; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got  %v\nwant … %s", err, want)
	}
}
