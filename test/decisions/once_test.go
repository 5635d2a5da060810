// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decisions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/plugin"
	"gatehouse.dev/test/servertest"
)

// doings are what the plugin does about a ConfigMap, by its namespace and name.
var doings sync.Map

type doing func(ctx context.Context, a admission.Attributes) error

// obedient is a plugin of the shared server that does what a test says, of the objects of that test
// alone.
var obedient = plugin.Descriptor{
	Name:   "Obedient",
	Phases: plugin.Mutating, Operations: []admission.Operation{admission.Create, admission.Update},
	Resources: plugin.On(corev1.Resource("configmaps")),
	Default:   true,
	New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) {
		return obeys{}, nil
	},
}

type obeys struct{}

// Admit implements admission.MutationInterface.
func (obeys) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if do, ok := doings.Load(a.GetNamespace() + "/" + a.GetName()); ok {
		return do.(doing)(ctx, a)
	}
	return nil
}

// A request has one decision, and the true one, however it ends. A plugin that goes on after that
// changes neither the decision nor what is stored.
func TestOneDecision(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	create := func(ctx context.Context, name string, timeout time.Duration) error {
		return c.Client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("configmaps").Timeout(timeout).
			Body(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}).Do(ctx).Error()
	}
	for name, test := range map[string]struct {
		panics, goes bool
		timeout      time.Duration
		answer       func(err error) bool
		want         string
	}{
		"panic":       {panics: true, answer: apierrors.IsInternalError, want: "Failed 500 by Obedient"},
		"client-gone": {goes: true, answer: isCanceled, want: "Failed 504 by Obedient"},
		// That is enough for the plugin to be asked, on a busy machine too.
		"timeout": {timeout: 5 * time.Second, answer: apierrors.IsTimeout, want: "Failed 504 by Obedient"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			entered, release, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
			doings.Store(namespace+"/"+name, doing(func(ctx context.Context, _ admission.Attributes) error {
				defer close(left)
				close(entered)
				if test.panics {
					panic("on purpose")
				}
				<-ctx.Done()
				<-release
				return nil
			}))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.goes {
				go func() { <-entered; cancel() }()
			}
			if err := create(ctx, name, test.timeout); !test.answer(err) {
				t.Errorf("the answer is %v", err)
			}
			servertest.Eventually(t, "the decision about "+name, func() bool {
				return len(decisions(t, c, namespace, name)) > 0
			})
			close(release)
			select {
			case <-entered:
				<-left
			default:
				t.Fatal("the plugin wasn't asked")
			}
			after(t, c, namespace)
			if diff := cmp.Diff([]string{test.want}, decisions(t, c, namespace, name)); diff != "" {
				t.Errorf("decided: -want +got:\n%s", diff)
			}
			if _, err := c.Client.CoreV1().ConfigMaps(namespace).Get(t.Context(), name,
				metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("it wasn't admitted, and yet it is there: %v", err)
			}
		})
	}
}

func isCanceled(err error) bool { return errors.Is(err, context.Canceled) }

// decisions are those about a ConfigMap, as the verdict, the code and who decided, in their order.
func decisions(t *testing.T, c *servertest.Cluster, namespace, name string) []string {
	t.Helper()
	var all []string
	for _, d := range decisionsAbout(t, c, namespace, name) {
		text := fmt.Sprintf("%s %d", d.Verdict, d.Code)
		if d.By != "" {
			text += " by " + d.By
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

func decisionsAbout(t *testing.T, c *servertest.Cluster, namespace, name string) []v1alpha1.Decision {
	t.Helper()
	found, err := list(t, c.Dynamic, namespace, "request.resource=configmaps,request.name="+name)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]v1alpha1.Decision, len(found))
	for i := range found {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found[i].Object, &all[i]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// after has another request decided, so that those before it are.
func after(t *testing.T, c *servertest.Cluster, namespace string) {
	t.Helper()
	created, err := c.Client.CoreV1().ConfigMaps(namespace).Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "after-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, "the decision after it", func() bool {
		return len(decisions(t, c, namespace, created.Name)) > 0
	})
}

// Where storage has a conflict the chain is asked once more, and the decision is of what was stored
// in the end.
func TestOneDecisionOfAConflict(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	configMaps := c.Client.CoreV1().ConfigMaps(namespace)
	entered, release := make(chan struct{}), make(chan struct{})
	var asked int
	doings.Store(namespace+"/held", doing(func(_ context.Context, a admission.Attributes) error {
		object := a.GetObject().(*corev1.ConfigMap)
		if a.GetOperation() == admission.Update && object.Data["by"] == "held" {
			asked++
			object.Data["asked"] = fmt.Sprint(asked)
			if asked == 1 {
				close(entered)
				<-release
			}
		}
		return nil
	}))
	if _, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(key, value string) error {
		_, err := configMaps.Patch(t.Context(), "held", types.MergePatchType,
			fmt.Appendf(nil, `{"data":{%q:%q}}`, key, value), metav1.PatchOptions{})
		return err
	}
	done := make(chan error)
	go func() { done <- patch("by", "held") }()
	<-entered
	if err := patch("other", "first"); err != nil {
		t.Fatal(err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	stored, err := configMaps.Get(t.Context(), "held", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if asked < 2 || stored.Data["other"] != "first" || stored.Data["asked"] != fmt.Sprint(asked) {
		t.Fatalf("there was no conflict: the plugin was asked %d times, %v is stored", asked, stored.Data)
	}
	after(t, c, namespace)
	if diff := cmp.Diff([]string{"Admitted 200", "Admitted 200", "Admitted 201"}, decisions(t, c, namespace,
		"held")); diff != "" {
		t.Errorf("decided: -want +got:\n%s", diff)
	}
	for _, d := range decisionsAbout(t, c, namespace, "held") {
		if slices.Contains(d.ChangedBy, obedient.Name) {
			patch := stepsOf(&d)[0].Patch
			if value, _ := json.Marshal(patch); len(patch) != 1 || !strings.Contains(string(value), fmt.Sprint(asked)) {
				t.Errorf("what the plugin changed at last is %s", value)
			}
		}
	}
}

// stepsOf are the steps of the tests' own plugin.
func stepsOf(d *v1alpha1.Decision) []v1alpha1.Step {
	return slices.DeleteFunc(slices.Clone(d.Steps), func(s v1alpha1.Step) bool { return s.Plugin != obedient.Name })
}

// PATCHes side by side to one object have as many decisions as answers, and the same.
func TestOneDecisionEach(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	configMaps := c.Client.CoreV1().ConfigMaps(namespace)
	if _, err := configMaps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "busy"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	answers := make(chan string, 8*8)
	var writing sync.WaitGroup
	for i := range 8 {
		writing.Go(func() {
			for n := range 8 {
				_, err := configMaps.Patch(t.Context(), "busy", types.MergePatchType,
					fmt.Appendf(nil, `{"data":{"by-%d":"%d"}}`, i, n), metav1.PatchOptions{})
				if status := apierrors.APIStatus(nil); errors.As(err, &status) {
					answers <- fmt.Sprintf("Refused %d", status.Status().Code)
				} else if err != nil {
					answers <- err.Error()
				} else {
					answers <- "Admitted 200"
				}
			}
		})
	}
	writing.Wait()
	close(answers)
	want := append(slices.Collect(func(yield func(string) bool) {
		for answer := range answers {
			if !yield(answer) {
				return
			}
		}
	}), "Admitted 201")
	slices.Sort(want)
	after(t, c, namespace)
	if diff := cmp.Diff(want, decisions(t, c, namespace, "busy")); diff != "" {
		t.Errorf("decided: -answers +got:\n%s", diff)
	}
}

// What is asked again since another changed the object is in the same decision, as another round.
func TestOneDecisionOfARerun(t *testing.T) {
	c := shared()
	namespace := c.Namespace(t, nil)
	configMaps := c.Client.CoreV1().ConfigMaps(namespace)
	for name, expression := range map[string]string{
		"first":  `Object{data: {"first": has(object.data) ? "after second" : "alone"}}`,
		"second": `Object{data: {"second": "yes"}}`,
	} {
		for _, manifest := range []string{`
kind: MutatingAdmissionPolicy
metadata: {name: ` + namespace + "-" + name + `}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ` + namespace + `}}
    resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
  matchConditions:
  - name: one
    expression: object.metadata.?name.orValue('') == 'again'
  failurePolicy: Fail
  reinvocationPolicy: IfNeeded
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: '` + expression + `'}}]
`, `
kind: MutatingAdmissionPolicyBinding
metadata: {name: ` + namespace + "-" + name + `}
spec: {policyName: ` + namespace + "-" + name + `}
`} {
			object := servertest.Parsed(t, "apiVersion: admissionregistration.k8s.io/v1\n"+strings.TrimPrefix(manifest,
				"\n"))
			resource := admissionregistrationv1.SchemeGroupVersion.WithResource(strings.Replace(
				strings.ToLower(object.GetKind())+"s", "policys", "policies", 1))
			if _, err := c.Dynamic.Resource(resource).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = c.Dynamic.Resource(resource).Delete(context.Background(), object.GetName(), metav1.DeleteOptions{})
			})
		}
	}
	again := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "again"}}
	before := 0
	servertest.Eventually(t, "both policies", func() bool {
		before++
		made, err := configMaps.Create(t.Context(), again, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && made.Data["first"] == "after second" && made.Data["second"] == "yes"
	})
	if _, err := configMaps.Create(t.Context(), again, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	after(t, c, namespace)
	all := decisionsAbout(t, c, namespace, "again")
	if len(all) != before+1 {
		t.Errorf("there are %d decisions of %d requests", len(all), before+1)
	}
	for _, d := range all {
		rounds := map[int32]bool{}
		for _, step := range d.Steps {
			rounds[step.Round] = true
		}
		if !d.Request.DryRun && (d.Verdict != v1alpha1.Admitted || !rounds[1]) {
			t.Errorf("it is %s, with the rounds %v", d.Verdict, rounds)
		}
	}
}
