// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookmode_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/test/servertest"
)

// configurations are the names of all webhook configurations, in one line.
func configurations(t testing.TB) string {
	t.Helper()
	api := cluster.Client.AdmissionregistrationV1()
	mutating, err := api.MutatingWebhookConfigurations().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	validating, err := api.ValidatingWebhookConfigurations().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range mutating.Items {
		names = append(names, "mutating/"+mutating.Items[i].Name)
	}
	for i := range validating.Items {
		names = append(names, "validating/"+validating.Items[i].Name)
	}
	return strings.Join(names, " ")
}

// A process in the foreground takes its configurations with it, soon, and says so; with --keep it
// leaves them, and says what that means.
func TestEnd(t *testing.T) {
	const both = "mutating/gatehouse validating/gatehouse"
	r := start(t, "--plugins=AlwaysPullImages")
	if got := configurations(t); got != both {
		t.Errorf("while it runs there are %q", got)
	}
	begin := time.Now()
	r.stop(t)
	if took := time.Since(begin); took > 20*time.Second { // 2 seconds, on a machine with nothing else to do
		t.Errorf("it takes %s to end", took)
	}
	if got := configurations(t); got != "" {
		t.Errorf("it leaves %s", got)
	}
	const removed = "Removed mutatingwebhookconfigurations/gatehouse and validatingwebhookconfigurations/gatehouse: "
	const soon = "Answering API servers that still call for 500ms.\n"
	if out := r.out.String(); !strings.Contains(out, removed) || !strings.Contains(out, soon) {
		t.Errorf("it says\n%s", out)
	}
	for line := range strings.Lines(r.log.String()) {
		if !strings.HasSuffix(line, "err=\"context canceled\"\n") { // a request that it has given up
			t.Errorf("it logs %s", line)
		}
	}

	r = start(t, "--plugins=AlwaysPullImages", "--keep", "--shutdown-delay-duration=0s")
	r.stop(t)
	if got := configurations(t); got != both {
		t.Errorf("with --keep there are %q", got)
	}
	if out := r.out.String(); !strings.Contains(out, `Left the webhook configurations "gatehouse": while no replica`) {
		t.Errorf("with --keep it says\n%s", out)
	}
	_, err := cluster.Client.CoreV1().Pods("default").Create(t.Context(), pod("refused"), dry)
	if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("with --keep, a pod: %v", err)
	}
}

// Of two replicas in the foreground the one that doesn't lead leaves the configurations.
func TestEndOfOther(t *testing.T) {
	service := servertest.Forward(t)
	flags := []string{"--url=https://" + service.Address, "--plugins=AlwaysPullImages"}
	first := launch(t, executable(t), flags...)
	service.To(first.address())
	waitAsked(t, first)
	second := launch(t, executable(t), flags...)
	waitRegistered(t, second)
	second.stop(t)
	if out := second.out.String(); !strings.Contains(out, `Left the webhook configurations "gatehouse": replica `) {
		t.Errorf("it says\n%s", out)
	}
	if got := configurations(t); got != "mutating/gatehouse validating/gatehouse" {
		t.Errorf("there are %q", got)
	}
	first.stop(t)
	if got := configurations(t); got != "" {
		t.Errorf("the last one leaves %s", got)
	}
}

// Nothing is registered that API servers don't reach; what they say is said. They are
// asked again, until they reach it.
func TestReachability(t *testing.T) {
	port := servertest.FreePort(t)
	url := fmt.Sprintf("--url=https://127.0.0.1:%d", port)
	r := launch(t, executable(t), url, "--plugins=AlwaysPullImages", "--shutdown-delay-duration=0s")
	servertest.Eventually(t, "what the API server says", func() bool {
		log := r.log.String()
		return strings.Contains(log, fmt.Sprintf("the API server can't ask at https://127.0.0.1:%d", port)) &&
			strings.Contains(log, "connect: connection refused") && strings.Contains(log, "--skip-reachability-check")
	})
	if got := strings.ReplaceAll(configurations(t), "validating/gatehouse-probe", ""); got != "" {
		t.Errorf("there are %s", got)
	}
	if _, err := cluster.Client.CoreV1().Pods("default").Create(t.Context(), pod("admitted"), dry); err != nil {
		t.Error(err)
	}
	select {
	case <-r.registered:
		t.Error("it says that it is asked")
	default:
	}
	if n := strings.Count(r.log.String(), "Not registered yet"); n != 1 {
		t.Errorf("it says so %d times", n)
	}
	// The slip is mended.
	other := launch(t, executable(t), url, fmt.Sprintf("--secure-port=%d", port), "--plugins=AlwaysPullImages",
		"--shutdown-delay-duration=0s")
	waitRegistered(t, r, other)
	other.stop(t)
	r.stop(t)
	if got := configurations(t); got != "" {
		t.Errorf("it leaves %s", got)
	}

	unchecked := launch(t, executable(t), "--url=https://127.0.0.1:1", "--plugins=AlwaysPullImages",
		"--skip-reachability-check", "--shutdown-delay-duration=0s")
	waitRegistered(t, unchecked)
	unchecked.stop(t)
}

// Also webhooks that refuse nothing are registered only once they are reached: a plugin on trial
// that nobody asks would have nothing to tell.
func TestReachabilityOfTrials(t *testing.T) {
	for _, flag := range []string{"--mode=audit", "--failure-policy=Ignore"} {
		port := servertest.FreePort(t)
		r := launch(t, executable(t), fmt.Sprintf("--url=https://127.0.0.1:%d", port), flag,
			"--plugins=AlwaysPullImages", "--shutdown-delay-duration=0s")
		servertest.Eventually(t, "what the API server says", func() bool {
			return strings.Contains(r.log.String(), fmt.Sprintf("Not registered yet: the API server can't ask at "+
				"https://127.0.0.1:%d, and would let all requests pass. It said: ", port))
		})
		select {
		case <-r.registered:
			t.Errorf("with %s it says that it is asked", flag)
		default:
		}
		r.stop(t)
		if got := configurations(t); got != "" {
			t.Errorf("with %s there are %s", flag, got)
		}
	}
}

// Whatever is counted, leases can be made and renewed everywhere while no replica runs.
func TestLeasesWhileDown(t *testing.T) {
	r := start(t, "--plugins=ResourceQuota")
	if err := r.command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-r.exited
	_, err := cluster.Client.CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}, metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("a ConfigMap: %v", err)
	}
	for _, namespace := range []string{"default", "kube-node-lease", "kube-system"} {
		leases := cluster.Client.CoordinationV1().Leases(namespace)
		made, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "test"}},
			metav1.CreateOptions{})
		if err == nil {
			made.Spec.HolderIdentity = new("me")
			_, err = leases.Update(t.Context(), made, metav1.UpdateOptions{})
		}
		if err == nil {
			err = leases.Delete(t.Context(), "test", metav1.DeleteOptions{})
		}
		if err != nil {
			t.Errorf("in %s: %v", namespace, err)
		}
	}
}

// apply creates the objects of a manifest.
func apply(t *testing.T, manifest string) {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for document := range strings.SplitSeq(manifest, "---\n") {
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v: %s", err, document)
		}
		api, options := cluster.Client.RbacV1(), metav1.CreateOptions{}
		switch o := object.(type) {
		case *corev1.Namespace:
			_, err = cluster.Client.CoreV1().Namespaces().Create(t.Context(), o, options)
			if apierrors.IsAlreadyExists(err) {
				err = nil
			}
		case *rbacv1.ClusterRole:
			_, err = api.ClusterRoles().Create(t.Context(), o, options)
		case *rbacv1.ClusterRoleBinding:
			_, err = api.ClusterRoleBindings().Create(t.Context(), o, options)
		case *rbacv1.Role:
			_, err = api.Roles(o.Namespace).Create(t.Context(), o, options)
		case *rbacv1.RoleBinding:
			_, err = api.RoleBindings(o.Namespace).Create(t.Context(), o, options)
		default:
			err = fmt.Errorf("a %T", object)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// warnings are what a client is warned of.
type warnings struct{ texts []string }

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// A plugin on trial leaves objects as they are. Clients are warned, the decision log has what it
// would do, and where the process is gone nothing is refused. Another plugin is enforced.
func TestModes(t *testing.T) {
	log := filepath.Join(t.TempDir(), "decisions.log")
	r := start(t, "--plugins=AlwaysPullImages,SecurityContextDeny", "--mode=warn,SecurityContextDeny=enforce", "--keep",
		"--decision-log-path="+log, "--shutdown-delay-duration=0s")
	if out := r.out.String(); !strings.Contains(out, "SecurityContextDeny, AlwaysPullImages (warn)\n") {
		t.Errorf("it says\n%s", out)
	}
	warned := &warnings{}
	config := servertest.Quick(cluster.Config)
	config.WarningHandler = warned
	pods := kubernetes.NewForConfigOrDie(config).CoreV1().Pods(cluster.Namespace(t, nil))
	const would = "AlwaysPullImages would change /spec/containers/0/imagePullPolicy"
	made, err := pods.Create(t.Context(), pod("web", func(p *corev1.Pod) {
		p.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
	}), metav1.CreateOptions{})
	if err != nil || made.Spec.Containers[0].ImagePullPolicy != corev1.PullNever {
		t.Errorf("a pod: %v, %v", made, err)
	}
	if len(warned.texts) != 1 || warned.texts[0] != would {
		t.Errorf("warned of %q", warned.texts)
	}
	_, err = pods.Create(t.Context(), pod("root", func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(0))}
	}), metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), "runAsUser is forbidden") {
		t.Errorf("a plugin that is enforced: %v", err)
	}
	r.stop(t)
	decisions, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(decisions), `"kind":"Trial","name":"AlwaysPullImages"`) ||
		!strings.Contains(string(decisions), "would change /spec/containers/0/imagePullPolicy") {
		t.Errorf("%v: the decision log has\n%s", err, decisions)
	}
	_, err = pods.Create(t.Context(), pod("down"), metav1.CreateOptions{})
	if err == nil || !strings.Contains(err.Error(), `failed calling webhook "validate.gatehouse.dev"`) {
		t.Errorf("without a replica the plugin that is enforced refuses: %v", err)
	}
}

// A process without rights prints them, once and in a form to apply, and goes on once it has them.
func TestMissingRights(t *testing.T) {
	kubeconfig, err := clientcmd.LoadFromFile(cluster.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range kubeconfig.AuthInfos {
		user.Impersonate = "webhooks"
	}
	file := write(t, "kubeconfig", "")
	if err := clientcmd.WriteToFile(*kubeconfig, file); err != nil {
		t.Fatal(err)
	}
	port := servertest.FreePort(t)
	r := launch(t, executable(t), fmt.Sprintf("--url=https://127.0.0.1:%d", port),
		fmt.Sprintf("--secure-port=%d", port), "--plugins=PodNodeSelector", "--kubeconfig="+file)
	servertest.Eventually(t, "the missing rights", func() bool {
		return strings.HasSuffix(r.log.String(), "  kind: User\n  name: webhooks\n")
	})
	said, rules, _ := strings.Cut(r.log.String(), "\n\n")
	if !strings.Contains(said, `User "webhooks" lacks rights`) {
		t.Errorf("it says\n%s", said)
	}
	if strings.Contains(said, "\nE") {
		t.Errorf("it complains as well:\n%s", said)
	}
	apply(t, rules)
	waitRegistered(t, r)
	r.stop(t)
	if log := r.log.String(); strings.Count(log, "kind: ClusterRole\n") != 2 { // itself, and what is bound
		t.Errorf("it says so more than once:\n%s", log)
	}
}
