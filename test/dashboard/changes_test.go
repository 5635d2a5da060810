// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/chromium"
	"gatehouse.dev/test/servertest"
)

// change is what changes pods twice: a LimitRange's default is replaced, a label removed, and the
// first policy is asked once more since the second one changed the object, too.
const change = `
apiVersion: v1
kind: LimitRange
metadata: {name: defaults}
spec: {limits: [{type: Container, default: {memory: 128Mi}}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: first}
spec:
  reinvocationPolicy: IfNeeded
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        [JSONPatch{op: "replace", path: "/spec/containers/0/resources/limits/memory", value: "256Mi"}] +
        (has(object.metadata.labels.temporary) ?
        [JSONPatch{op: "remove", path: "/metadata/labels/temporary"}] : []) +
        (has(object.metadata.annotations) && "second" in object.metadata.annotations ?
        [JSONPatch{op: "replace", path: "/metadata/annotations/second", value: "seen"}] : [])
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: first}
spec: {policyName: first}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: second}
spec:
  reinvocationPolicy: Never
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{annotations: {"second": "here"}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: second}
spec: {policyName: second}
`

// What was replaced and removed is told with what it had been, and by whom, and so is what the
// plugins did when they were asked once more.
func TestChanges(t *testing.T) {
	b := newBrowser(t)
	cluster := servertest.Start(t)
	if _, err := cluster.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubectl := cluster.Kubectl(t, "shop")
	kubectl.OK(change, "apply", "--filename=-")
	pods := cluster.Client.CoreV1().Pods("shop")
	var made *corev1.Pod
	servertest.Retry(t, "the policies to be in force", func() (err error) {
		if made, err = pods.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "web-",
				Labels: map[string]string{"app": "web", "temporary": "1"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
		}, metav1.CreateOptions{}); err != nil {
			return err
		}
		if made.Annotations["second"] != "seen" {
			return fmt.Errorf("annotations %v", made.Annotations)
		}
		return nil
	})
	address := command(t, "--kubeconfig="+cluster.Kubeconfig)
	b.As(width, height, "light", "no-preference")
	visit(b, address)
	b.Until(row("pods/" + made.Name))
	chromium.See[any](b.Page, row("pods/"+made.Name)+".click()")
	b.Until("document.querySelector('#request h2')?.textContent.includes(" + chromium.Quoted("pods/"+made.Name) + ")")
	b.Press("e")
	phases := chromium.See[[]string](b.Page, "[...document.querySelectorAll('.phase h4')].map(e => e.textContent)")
	if !slices.ContainsFunc(phases, func(title string) bool { return strings.Contains(title, "once more") }) ||
		len(phases) != 3 {
		t.Errorf("the phases are %q", phases)
	}
	for _, want := range []struct{ round, kind, field, was, now string }{
		{"Mutate-0", "replace", "spec.containers[0].resources.limits.memory", "128Mi set by LimitRanger", "256Mi"},
		{"Mutate-0", "remove", "metadata.labels.temporary", "as it was sent", "gone"},
		{"Mutate-1", "replace", "metadata.annotations.second", "here set by second", "seen"},
	} {
		changes := chromium.See[[]string](b.Page, fmt.Sprintf(
			"[...document.querySelectorAll('[aria-labelledby=phase-%s] .change.%s')].map(e => e.textContent)",
			want.round, want.kind))
		if !slices.ContainsFunc(changes, func(text string) bool {
			return strings.Contains(text, want.field) && strings.Contains(flat(text), flat(want.was)) &&
				strings.Contains(flat(text), flat("now"+want.now))
		}) {
			t.Errorf("%s: want %+v in %q", want.round, want, changes)
		}
	}
	b.quiet(address)
}

// flat is a text without what elements are set apart by, and without quotes.
func flat(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, `"`, "")), "")
}
