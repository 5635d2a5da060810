// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/plugin/plugintest"
	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
)

// permissive is a policy's spec that allows what has to be said to be any.
const permissive = `
seLinux: {rule: RunAsAny}
runAsUser: {rule: RunAsAny}
supplementalGroups: {rule: RunAsAny}
fsGroup: {rule: RunAsAny}
`

// newPSP is a policy with a spec, in YAML, that is permissive where it says nothing.
func newPSP(t testing.TB, name, spec string) *policyv1beta1.PodSecurityPolicy {
	t.Helper()
	psp := &policyv1beta1.PodSecurityPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	parse(t, permissive, &psp.Spec)
	parse(t, spec, &psp.Spec)
	return psp
}

// newPod is a pod with a spec, in YAML.
func newPod(t testing.TB, spec string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	parse(t, spec, &pod.Spec)
	return pod
}

func annotated(pod *corev1.Pod, key, value string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Annotations = withAnnotation(pod.Annotations, key, value)
	return pod
}

func parse(t testing.TB, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// text is a spec as YAML.
func text(t testing.TB, spec any) string {
	t.Helper()
	content, err := yaml.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// verdict is what a policy makes of a pod: the pod with its defaults, and what it has against that.
func verdict(psp *policyv1beta1.PodSecurityPolicy, pod *corev1.Pod) (*corev1.Pod, []string) {
	d := &draft{pod: pod, creating: true}
	p := newPolicy(psp)
	if p.unusable != nil {
		return pod, []string{p.unusable.Error()}
	}
	p.setDefaults(d)
	var found []string
	for _, reason := range p.check(d.pod) {
		found = append(found, reason.Error())
	}
	return d.pod, found
}

// specTest states what a policy makes of a pod. Specs are YAML.
type specTest struct {
	policy            string
	policyAnnotations map[string]string
	pod               string
	podAnnotations    map[string]string
	becomes           string // the pod's spec with the policy's defaults; empty for unchanged
	reasons           []string
}

func (test specTest) run(t *testing.T) {
	t.Helper()
	psp, pod := newPSP(t, "policy", test.policy), newPod(t, test.pod)
	psp.Annotations, pod.Annotations = test.policyAnnotations, test.podAnnotations
	before := pod.DeepCopy()
	got, reasons := verdict(psp, pod)
	want := test.becomes
	if want == "" {
		want = test.pod
	}
	if got, want := text(t, got.Spec), text(t, newPod(t, want).Spec); got != want {
		t.Errorf("the pod becomes\n%s, want\n%s", got, want)
	}
	if !slices.Equal(reasons, test.reasons) {
		t.Errorf("reasons\n%s\nwant\n%s", strings.Join(reasons, "\n"), strings.Join(test.reasons, "\n"))
	}
	if got, want := text(t, pod), text(t, before); got != want {
		t.Errorf("the pod itself is changed:\n%s, was\n%s", got, want)
	}
	// On what has its defaults, the policy sets nothing more.
	if len(reasons) == 0 {
		again := &draft{pod: got, creating: true}
		if newPolicy(psp).setDefaults(again); again.set != nil {
			t.Errorf("sets %s again", again.set)
		}
	}
}

func runSpecTests(t *testing.T, tests map[string]specTest) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, test.run)
	}
}

// rights are who may use which policy: "user policy", or "user policy namespace".
type rights []string

func (r rights) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.GetVerb() != "use" || a.GetResource() != "podsecuritypolicies" || !a.IsResourceRequest() ||
		a.GetAPIGroup() != "policy" {
		return authorizer.DecisionNoOpinion, "", nil
	}
	right := a.GetUser().GetName() + " " + a.GetName()
	if slices.Contains(r, right) || slices.Contains(r, right+" "+a.GetNamespace()) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", fmt.Errorf("%s may not", right)
}

// cluster is a plugin in a cluster with policies.
type cluster struct {
	*plugintest.Plugin
	client *fake.FakeDynamicClient
}

func newCluster(t testing.TB, authorizer authorizer.UnconditionalAuthorizer, policies ...*policyv1beta1.PodSecurityPolicy) cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := policyv1beta1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	for _, p := range policies {
		objects = append(objects, p)
	}
	c := plugintest.NewCluster(t)
	client := c.Serve(scheme,
		map[schema.GroupVersionResource]string{policyv1beta1.PodSecurityPolicies: "PodSecurityPolicyList"}, objects...)
	c.Env.Authorizer = authorizer
	return cluster{c.Build(t, Descriptor, ""), client}
}
