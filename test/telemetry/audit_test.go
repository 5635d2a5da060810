// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/klog/v2"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// The annotations in which an audit event says what the chain did.
const (
	refusedBy = "admission.gatehouse.dev/refused-by"
	changedBy = "admission.gatehouse.dev/changed-by"
)

// lines are those of a file, each as T.
func lines[T any](t *testing.T, file string) []T {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for line := range bytes.Lines(content) {
		var one T
		if !bytes.HasSuffix(line, []byte("\n")) {
			continue // it is being written
		}
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatalf("%v in line %q", err, line)
		}
		all = append(all, one)
	}
	return all
}

// audited waits for the events of requests of a verb about objects of that name in a namespace, of
// the stage that says how it ended.
func audited(t *testing.T, verb, namespace, name string, count int) []auditv1.Event {
	t.Helper()
	var found []auditv1.Event
	servertest.Eventually(t, fmt.Sprintf("%d events of %s %s/%s", count, verb, namespace, name), func() bool {
		found = nil
		for _, e := range lines[auditv1.Event](t, auditLog) {
			if e.Stage == auditv1.StageResponseComplete && e.Verb == verb && e.ObjectRef != nil &&
				e.ObjectRef.Namespace == namespace && e.ObjectRef.Name == name {
				found = append(found, e)
			}
		}
		return len(found) >= count
	})
	return found
}

// warnings are what the server logs of audit annotations.
type warnings struct {
	mu  sync.Mutex
	log bytes.Buffer
}

func (w *warnings) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytes.Contains(line, []byte("annotation")) {
		w.log.Write(line)
	}
	return len(line), nil
}

// Audit events say who changed the object, and who refused the request: at level Metadata, which
// has no bodies.
func TestAudit(t *testing.T) {
	logged := &warnings{}
	klog.SetOutput(logged)
	defer klog.SetOutput(&warnings{})
	ns := namespace(t)
	hook := &told{}
	configure(t, ns, webhooktest.New(t, hook.handler()))
	pods := client.CoreV1().Pods(ns)
	create := func(name string, labels map[string]string, options metav1.CreateOptions) error {
		_, err := pods.Create(t.Context(), pod(name, labels), options)
		return err
	}
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	denyExec(t, ns)

	if err := create("p", map[string]string{"a": ""}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := create("bad", map[string]string{"bad": ""}, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	if err := create("dry", map[string]string{"a": ""}, dryRun); err != nil {
		t.Fatal(err)
	}
	if err := create("drybad", map[string]string{"bad": ""}, dryRun); !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	changes := "ServiceAccount,DefaultTolerationSeconds,Priority,MutatingAdmissionWebhook"
	for _, test := range []struct{ verb, name, refused, changed string }{
		{"create", "p", "", changes},
		{"create", "bad", "ValidatingAdmissionPolicy", changes},
		{"create", "dry", "", changes},
		{"create", "drybad", "ValidatingAdmissionPolicy", changes},
	} {
		e := audited(t, test.verb, ns, test.name, 1)[0]
		if e.Annotations[refusedBy] != test.refused || !sameNames(e.Annotations[changedBy], test.changed) {
			t.Errorf("%s %s: the annotations are %v", test.verb, test.name, e.Annotations)
		}
		if e.Level != auditv1.LevelMetadata || e.RequestObject != nil {
			t.Errorf("%s %s: the event is at level %s", test.verb, test.name, e.Level)
		}
	}
	// A refused connection.
	err := client.CoreV1().RESTClient().Post().Namespace(ns).Resource("pods").Name("p").SubResource("exec").
		Param("command", "sh").Do(t.Context()).Error()
	if !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	exec := slices.DeleteFunc(audited(t, "create", ns, "p", 2), func(e auditv1.Event) bool {
		return e.ObjectRef.Subresource != "exec"
	})
	if len(exec) != 1 || exec[0].Annotations[refusedBy] != "ValidatingAdmissionPolicy" ||
		exec[0].Annotations[changedBy] != "" {
		t.Errorf("the events of exec are %+v", exec)
	}
	t.Run("retries", func(t *testing.T) { auditRetries(t, ns, hook) })
	t.Run("late", auditLate)

	logged.mu.Lock()
	defer logged.mu.Unlock()
	if logged.log.Len() > 0 {
		t.Errorf("the server logged:\n%s", logged.log.String())
	}
}

// sameNames tells whether two lists have the same names, in any order.
func sameNames(a, b string) bool {
	names := func(list string) []string { return slices.Sorted(slices.Values(strings.Split(list, ","))) }
	return slices.Equal(names(a), names(b))
}

// denyExec has a policy refuse exec in a namespace.
func denyExec(t *testing.T, namespace string) {
	t.Helper()
	name := namespace + "-exec"
	api := client.AdmissionregistrationV1()
	_, err := api.ValidatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: inNamespace(namespace),
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{"CONNECT"},
						Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
							Resources: []string{"pods/exec"}},
					},
				}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "no exec here"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.ValidatingAdmissionPolicyBindings().Create(t.Context(),
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: name,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = api.ValidatingAdmissionPolicies().Delete(context.Background(), name, metav1.DeleteOptions{})
		_ = api.ValidatingAdmissionPolicyBindings().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	servertest.Eventually(t, "the policy to be in force", func() bool {
		err := client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name("none").
			SubResource("exec").Param("command", "sh").Do(t.Context()).Error()
		return apierrors.IsInvalid(err)
	})
}

// auditRetries has patches of one object meet, so that storage asks the chain again for some.
func auditRetries(t *testing.T, ns string, hook *told) {
	const patchers = 8
	for round := range 20 {
		before := hook.calls()
		var all sync.WaitGroup
		for i := range patchers {
			all.Go(func() {
				// Nothing is stored of a patch that changes nothing.
				patch := fmt.Sprintf(`{"metadata":{"labels":{"hooked":null,"n%d":"%d"}}}`, i, round)
				if _, err := client.CoreV1().Pods(ns).Patch(t.Context(), "p", types.MergePatchType, []byte(patch),
					metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		if hook.calls()-before > patchers {
			for _, e := range audited(t, "patch", ns, "p", patchers) {
				if e.Annotations[changedBy] != "MutatingAdmissionWebhook" || e.Annotations[refusedBy] != "" {
					t.Errorf("the annotations of a patch are %v", e.Annotations)
				}
			}
			return
		}
	}
	t.Error("storage never asked again")
}

// auditLate has pods meet in a quota for one, so that some are refused by the plugin, and some when
// storage would charge them.
func auditLate(t *testing.T) {
	ns := namespace(t)
	_, err := client.CoreV1().ResourceQuotas(ns).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("2")}, // with kube-root-ca.crt
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the root certificate", func() bool {
		_, err := client.CoreV1().ConfigMaps(ns).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err == nil
	})
	const clients = 16
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			_, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(),
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i)}}, metav1.CreateOptions{})
			if err != nil && !apierrors.IsForbidden(err) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	refused := 0
	for i := range clients {
		e := audited(t, "create", ns, fmt.Sprintf("c%d", i), 1)[0]
		want := ""
		if e.ResponseStatus.Code == 403 {
			want, refused = "ResourceQuota", refused+1
		}
		if e.Annotations[refusedBy] != want {
			t.Errorf("of an answer of %d the annotations are %v", e.ResponseStatus.Code, e.Annotations)
		}
	}
	if refused != clients-1 {
		t.Errorf("%d of %d were refused", refused, clients)
	}
}
