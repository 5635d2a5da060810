// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// labelled are the objects of one case.
func labelled(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"case": name}}
}

// refusedWith has a request refused, as soon as what refuses it is in force, and wants the remedy
// for that, and no other.
func refusedWith(t *testing.T, c *servertest.Cluster, namespace, name, object string, request func() error,
	want []string) {
	t.Helper()
	servertest.Eventually(t, name+" is refused", func() bool { return request() != nil })
	says(t, c, []string{object, "-n", namespace, "--limit=1"}, want...)
}

// A webhook that fails is told apart from the others by how it does.
func TestFailuresOfWebhooks(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	at := func(s *webhooktest.Server) admissionregistrationv1.WebhookClientConfig {
		return s.ClientConfig("/review")
	}
	good := func() *webhooktest.Server { return webhooktest.New(t, webhooktest.Allow()) }
	expired := good()
	expired.UseCertificate(expired.Authority.Serving(time.Now().Add(-time.Hour), "127.0.0.1"))
	otherName := good()
	otherName.UseCertificate(otherName.Authority.Serving(time.Now().Add(time.Hour), "elsewhere.example.com"))
	noBundle := at(good())
	noBundle.CABundle = nil
	anew := at(good())
	anew.CABundle = webhooktest.NewAuthority(t).PEM()
	refusing := "https://" + webhooktest.Refusing(t) + "/review"
	plain := "https://" + webhooktest.Plaintext(t) + "/review"
	unknown := "https://webhook.invalid/review"
	cases := []struct {
		name   string
		client admissionregistrationv1.WebhookClientConfig
		change func(*admissionregistrationv1.MutatingWebhook)
		want   string
	}{
		{name: "404", client: at(webhooktest.New(t, webhooktest.Status(404, "text/plain", "no such page"))),
			want: "Correct the path in the webhook's clientConfig: its server answers 404 to https://127.0.0.1:"},
		{name: "expired", client: at(expired), want: "Have the certificate of the webhook's server " +
			"(https://127.0.0.1:"},
		{name: "other-name", client: at(otherName), want: "Give the webhook's server a certificate for the " +
			"name, or IP"},
		{name: "no-bundle", client: noBundle, want: "into clientConfig.caBundle, which is empty"},
		{name: "anew", client: anew, want: `the one there has the same name, "webhooktest-ca", and another key`},
		{name: "uid", client: at(webhooktest.New(t, webhooktest.WrongUID())),
			want: "Have the webhook's server put the request's uid into its response"},
		{name: "patch", client: at(webhooktest.New(t, webhooktest.Patch(`[{"op":"remove","path":"/spec/nothing"}]`))),
			want: "Have the webhook's patch corrected"},
		{name: "no-patch", client: at(webhooktest.New(t, webhooktest.Patch(`{}`))),
			want: "Have the webhook's patch corrected"},
		{name: "timeout", client: at(webhooktest.New(t, webhooktest.Hang())),
			change: func(w *admissionregistrationv1.MutatingWebhook) { w.TimeoutSeconds = ptr.To(int32(1)) },
			want:   "raise the webhook's timeoutSeconds (30 at most)"},
		{name: "refused", client: admissionregistrationv1.WebhookClientConfig{URL: &refusing},
			want: "Start the webhook's server: nothing listens at https://127.0.0.1:"},
		{name: "plain", client: admissionregistrationv1.WebhookClientConfig{URL: &plain},
			want: "speak HTTPS, or name the port where it does"},
		{name: "unknown", client: admissionregistrationv1.WebhookClientConfig{URL: &unknown},
			want: "nothing is found at https://webhook.invalid/review"},
		{name: "condition", client: at(good()), change: func(w *admissionregistrationv1.MutatingWebhook) {
			w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "team",
				Expression: "object.metadata.annotations.team == 'a'"}}
		}, want: `Nobody was asked: correct the webhook's match condition "team"`},
		{name: "html", client: at(webhooktest.New(t, webhooktest.HTML())), want: "answer with an AdmissionReview"},
		{name: "nothing", client: at(webhooktest.New(t, webhooktest.NoResponse())),
			want: "answer with an AdmissionReview"},
		{name: "ends", client: at(webhooktest.New(t, webhooktest.CloseMidBody())),
			want: "why it ends connections without an answer"},
		{name: "broken", client: at(webhooktest.New(t, webhooktest.Status(500, "text/plain", "no database"))),
			want: "what is wrong: it answers with an error"},
		{name: "denied", client: at(webhooktest.New(t, webhooktest.Deny(403, "no"))),
			want: "Change what the webhook's words name, or ask who runs it"},
	}
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	for _, test := range cases {
		w := mutating(test.name, namespace, test.client, rule("CREATE", "", "pods"))
		if test.change != nil {
			test.change(&w)
		}
		configuration.Webhooks = append(configuration.Webhooks, w)
	}
	configurations := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := configurations.Create(t.Context(), configuration, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, test := range cases {
		refusedWith(t, c, namespace, test.name, "pod/"+test.name, dryCreate(t, c, namespace, test.name),
			[]string{test.want, "kubectl get mutatingwebhookconfiguration " + namespace})
	}
}

// mutating returns the webhook of one case, which is labelled, in a namespace.
func mutating(name, namespace string, client admissionregistrationv1.WebhookClientConfig,
	rules ...admissionregistrationv1.RuleWithOperations) admissionregistrationv1.MutatingWebhook {
	return admissionregistrationv1.MutatingWebhook{
		Name: name + ".example.com", ClientConfig: client, AdmissionReviewVersions: []string{"v1"},
		SideEffects:    ptr.To(admissionregistrationv1.SideEffectClassNone),
		ObjectSelector: labelled(name), Rules: rules,
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
	}
}

// rule is for one resource, in all versions.
func rule(operation admissionregistrationv1.OperationType, group,
	resource string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{operation},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"},
			Resources: []string{resource}},
	}
}

// dryCreate creates a pod of a case, or would.
func dryCreate(t *testing.T, c *servertest.Cluster, namespace, name string) func() error {
	return func() error {
		pod := servertest.Pod(name)
		pod.Labels = map[string]string{"case": name}
		_, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
}

// A policy that fails is told apart from the others by how it does.
func TestFailuresOfPolicies(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	kubectl := c.Kubectl(t, namespace)
	const create, deletes = "CREATE", "DELETE"
	for _, test := range []struct {
		name, operation, spec, bind string
		want                        []string
	}{
		{"params", create, "paramKind: {apiVersion: v1, kind: ConfigMap}\n  validations: [{expression: 'true'}]",
			"paramRef: {name: limits, parameterNotFoundAction: Deny}",
			[]string{fmt.Sprintf(`Create what the paramRef of the binding %[1]s-params names (ConfigMap "limits" in `+
				`namespace %[1]q)`, namespace), "kubectl get validatingadmissionpolicybinding " +
				"" + namespace + "-params"}},
		{"selected-params", create,
			"paramKind: {apiVersion: v1, kind: ConfigMap}\n  validations: [{expression: 'true'}]",
			"paramRef: {selector: {matchLabels: {a: b}}, parameterNotFoundAction: Deny}",
			[]string{"(a ConfigMap in namespace", "with labels that its selector selects (a=b))"}},
		{"condition", create,
			"matchConditions: [{name: c, expression: object.metadata.annotations.team == 'a'}]\n" +
				"  validations: [{expression: 'true'}]",
			"", []string{"Nothing was judged: correct the policy's match conditions"}},
		{"key", create, "validations: [{expression: object.metadata.annotations.team == 'a'}]", "",
			[]string{"Correct the policy: its expression reads", "has() before"}},
		{"deleted", deletes, "validations: [{expression: object.metadata.name != 'a'}]", "",
			[]string{"Have the policy's expression read oldObject: on DELETE object is null"}},
		{"holds", create, "validations: [{expression: 'false', message: all spec.containers need a memory " +
			"limit}]", "",
			[]string{"Change the object so that the policy's expression holds"}},
	} {
		name := namespace + "-" + test.name
		kubectl.OK(fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %s}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}
    objectSelector: {matchLabels: {case: %s}}
    resourceRules:
    - {operations: [%s], apiGroups: [""], apiVersions: [v1], resources: [pods]}
  %s
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny]
  %[6]s
`, name, namespace, test.name, test.operation, test.spec, test.bind), "create", "--filename=-")
		request := dryCreate(t, c, namespace, test.name)
		if test.operation == deletes {
			pod := servertest.Pod(test.name)
			pod.Labels = map[string]string{"case": test.name}
			if _, err := c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod,
				metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			request = func() error {
				return c.Client.CoreV1().Pods(namespace).Delete(t.Context(), test.name,
					metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
			}
		}
		refusedWith(t, c, namespace, test.name, "pod/"+test.name, request, test.want)
		if out, _, _ := why(t, c, "pod/"+test.name, "-n", namespace); strings.Contains(out, "because") {
			t.Errorf("no plugin's change is the cause:\n%s", out)
		}
	}
}

// What a quota misses, an invalid name and a missing namespace have remedies of their own, and none
// speaks of namespaces that have nothing to do with it.
func TestFailuresOfRequests(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	kubectl := c.Kubectl(t, namespace)
	if _, err := c.Client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "compute"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.cpu": resource.MustParse("1")}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, c, namespace, "unstated", "pod/unstated", dryCreate(t, c, namespace, "unstated"),
		[]string{"Set what the quota counts in the resources of each container that is named (requests.cpu for: ",
			"or have a LimitRange of the namespace give it by default",
			"kubectl describe resourcequota compute -n " + namespace})

	kubectl.Fails("", []string{"create", "configmap", "UPPER"}, "Invalid value")
	says(t, c, []string{"cm/UPPER", "-n", namespace}, "take a name of the form that the message describes")

	missing := namespace + "-missing"
	kubectl.Fails("", []string{"create", "configmap", "a", "--namespace=" + missing}, "not found")
	says(t, c, []string{"cm/a", "-n", missing}, "to pass Create the namespace, or name one that exists. "+
		"kubectl create namespace "+missing)
	if out, _, _ := why(t, c, "cm/a", "-n", missing); strings.Contains(out, "default") {
		t.Errorf("the namespace default has nothing to do with it:\n%s", out)
	}
	kubectl.Fails("", []string{"delete", "namespace", "default"}, "may not be deleted")
	says(t, c, []string{"ns/default"}, "to pass Nobody can delete this namespace")

	const later = "A later one is in namespace "
	kubectl.Fails("", []string{"create", "configmap", "UPPER"}, "Invalid value")
	says(t, c, []string{"--last-refused"}, "namespaces/default", later)
	for _, args := range [][]string{{"--last-refused", "-A"}, {"--last-refused", "-n", "default"},
		{"--last-refused", "-n", namespace}, {"--last-refused", "-o", "yaml"}} {
		if out, _, _ := why(t, c, args...); out == "" || strings.Contains(out, later) {
			t.Errorf("%q hints at another refusal:\n%s", args, out)
		}
	}
}
