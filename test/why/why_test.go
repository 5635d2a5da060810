// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package why_test asks `gatehouse why` about what happened on a running server, as its users do.
package why_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/cli"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/plugins"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

var suite servertest.Suite

func TestMain(m *testing.M) { suite.Main(m) }

// shared is a server with its defaults.
var shared = sync.OnceValue(func() *servertest.Cluster { return servertest.Start(&suite) })

// why is what the command says, and its exit code.
func why(t *testing.T, c *servertest.Cluster, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(t.Context(), plugins.List, append([]string{"why", "--kubeconfig=" + c.Kubeconfig}, args...), &out,
		&errs)
	return out.String(), errs.String(), code
}

// says wants the command to find something, and to say each of want, line breaks aside.
func says(t *testing.T, c *servertest.Cluster, args []string, want ...string) {
	t.Helper()
	stdout, stderr, code := why(t, c, args...)
	if code != 0 || stderr != "" {
		t.Errorf("why %q: exit code %d, %s", args, code, stderr)
	}
	words := strings.Join(strings.Fields(stdout), " ")
	for _, text := range want {
		if !strings.Contains(words, text) {
			t.Errorf("why %q says\n%sand should say %q", args, stdout, text)
		}
	}
}

// fails wants the command to find nothing, and to say each of want.
func fails(t *testing.T, c *servertest.Cluster, args []string, code int, want ...string) {
	t.Helper()
	stdout, stderr, got := why(t, c, args...)
	if got != code {
		t.Errorf("why %q: exit code %d, want %d\n%s%s", args, got, code, stdout, stderr)
	}
	for _, text := range want {
		if !strings.Contains(stdout+stderr, text) {
			t.Errorf("why %q says\n%s%sand should say %q", args, stdout, stderr, text)
		}
	}
}

// Two installations of one injector, with real backends, give a pod the same container.
func TestTwoInjectors(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	configurations := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	for _, name := range []string{namespace + "-canary", namespace + "-stable"} {
		backend := webhooktest.New(t, webhooktest.Patch(
			`[{"op":"add","path":"/spec/containers/-","value":{"name":"proxy","image":"`+name+`"}}]`))
		webhook := admissionregistrationv1.MutatingWebhook{
			Name: "inject.example.com", ClientConfig: backend.ClientConfig("/"),
			AdmissionReviewVersions: []string{"v1"},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			NamespaceSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{corev1.LabelMetadataName: namespace},
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{"CREATE"},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
					Resources: []string{"pods"}},
			}},
		}
		if _, err := configurations.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.MutatingWebhook{webhook},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	servertest.Eventually(t, "both webhooks are in force", func() bool {
		_, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), servertest.Pod("web"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInvalid(err)
	})
	says(t, c, []string{"pod/web", "-n", namespace}, "pods/web in namespace "+namespace+" (not stored)",
		`Duplicate value: "proxy"`,
		"because spec.containers[1] was set to {name: proxy, image: "+namespace+"-canary} by "+
			"MutatingAdmissionWebhook: webhook inject.example.com of "+namespace+"-canary",
		"spec.containers[2] was set to {name: proxy, image: "+namespace+"-stable} by MutatingAdmissionWebhook: "+
			"webhook "+
			"inject.example.com of "+namespace+"-stable", "a dry run")
}

// A Deployment tells what became of the pods of its ReplicaSets; whatever its type is called.
func TestDeployment(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	kubectl := c.Kubectl(t, namespace)
	kubectl.OK("", "create", "deployment", "web", "--image=nginx")
	says(t, c, []string{"deploy/web", "-n", namespace}, "No controller has looked at it yet")
	uid := kubectl.OK("", "get", "deployment", "web", "--output=jsonpath={.metadata.uid}")
	kubectl.OK(`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"web-5d",`+
		`"ownerReferences":[{"apiVersion":`+
		`"apps/v1","kind":"Deployment","name":"web","uid":"`+uid+`","controller":true}]},"spec":{"selector":`+
		`{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},`+
		`"spec":{"containers":[{"name":"c",`+
		`"image":"nginx"}]}}}}`, "create", "--filename=-")
	if _, err := c.Client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "compute"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("0")}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	set, err := c.Client.AppsV1().ReplicaSets(namespace).Get(t.Context(), "web-5d", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the quota and the ServiceAccount are ready", func() bool {
		quota, _ := c.Client.CoreV1().ResourceQuotas(namespace).Get(t.Context(), "compute", metav1.GetOptions{})
		_, err := c.Client.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return len(quota.Status.Used) > 0 && err == nil
	})
	for range 3 {
		pod := servertest.Pod("")
		pod.GenerateName = "web-5d-"
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set.Name,
			UID: set.UID, Controller: ptr.To(true)}}
		_, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) {
			t.Fatalf("the pod isn't refused: %v", err)
		}
	}
	for _, args := range [][]string{{"deploy/web"}, {"deployment", "web"}, {"deployments.apps/web"},
		{"Deployment.v1.apps", "web"}, {"Deployment/web"}} {
		says(t, c, append(args, "-n", namespace), "deployments.apps/web in namespace "+namespace,
			"3 attempts to create pods for ReplicaSet web-5d were refused by ResourceQuota.",
			"by ResourceQuota: quota compute: pods: 0 of 0 used, 1 requested, which is too much",
			"kubectl describe resourcequota compute -n "+namespace, "Made for it, and admitted: replicasets (1)")
	}
	says(t, c, []string{"rs/web-5d", "-n", namespace}, "3 attempts to create pods")
	says(t, c, []string{"--last-refused", "-n", namespace}, "pods/web-5d-", "exceeded quota: compute")
	says(t, c, []string{"ns/" + namespace}, "namespaces/"+namespace+" Admitted CREATE")
}

// By its audit ID a request is found in any namespace, and it is the Decision that is printed.
func TestAuditID(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	kubectl := c.Kubectl(t, namespace)
	kubectl.OK("", "create", "configmap", "greeting", "--from-literal=text=hello")
	stdout, stderr, code := why(t, c, "cm/greeting", "-n", namespace, "-o", "json")
	var list v1alpha1.DecisionList
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != 0 || list.Kind != "DecisionList" ||
		len(list.Items) != 1 || list.Items[0].Request.Name != "greeting" {
		t.Fatalf("got exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	id := list.Items[0].Name
	says(t, c, []string{id}, "configmaps/greeting in namespace "+namespace+" Admitted CREATE", "audit ID "+id)
	says(t, c, []string{id, "-o", "yaml"}, "kind: Decision", "name: "+id)
	fails(t, c, []string{id, "-n", "default"}, 1,
		`no request with the audit ID "`+id+`" is recorded in namespace default`)
	fails(t, c, []string{"nonesuch"}, 1, `no request with the audit ID "nonesuch" is recorded anywhere`)
	fails(t, c, []string{"pods"}, 2, `"pods" is a type: say which object, as pods/NAME`)
	fails(t, c, []string{"frobs/web"}, 2, `the server doesn't have a resource type "frobs"`)
	fails(t, c, []string{"pod/nonesuch"}, 1,
		`pods "nonesuch" in namespace "default" not found, and nothing about it is`)
	fails(t, c, []string{"--last-refused", "-n", namespace}, 1, "no refusal is recorded in namespace "+namespace)
}

// Who may not see decisions is told what would let them.
func TestRights(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	c.Kubectl(t, namespace).OK("", "create", "configmap", "greeting")
	asJane := []string{"cm/greeting", "-n", namespace, "--as=jane"}
	fails(t, c, asJane, 1, "you may not see", "--clusterrole="+v1alpha1.ViewerRole)
	if _, err := c.Client.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: v1alpha1.ViewerRole},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "jane may see decisions", func() bool {
		_, _, code := why(t, c, asJane...)
		return code == 0
	})
	says(t, c, asJane, "configmaps/greeting in namespace "+namespace, "Admitted CREATE")
	fails(t, c, []string{"cm/greeting", "-n", "default", "--as=jane"}, 1, "you may not see")
}

// Where nothing is recorded, as on kube-apiserver, managedFields and events tell what they can.
func TestNotRecorded(t *testing.T) {
	c := servertest.Start(t, gatehousetest.WithConfig(func(config *server.Config) { config.Decisions.Enabled = false }))
	kubectl := c.Kubectl(t, "default")
	kubectl.OK("", "create", "configmap", "greeting", "--from-literal=text=hello")
	if _, err := c.Client.CoreV1().Events("default").Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "greeting.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "ConfigMap", Namespace: "default", Name: "greeting"},
		Type:           "Warning", Reason: "Impolite", Message: "it says hello only",
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	fails(t, c, []string{"cm/greeting"}, 1, "the server doesn't record decisions", "--decisions=false",
		"kubectl-create (update", "data.text", "Warning Impolite, about ConfigMap greeting: it says hello only")
	fails(t, c, []string{"--last-refused"}, 1, "the server doesn't record decisions")
	fails(t, c, []string{"an-audit-id"}, 1, "the server doesn't record decisions")
}
