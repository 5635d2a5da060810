// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package mutatingadmissionpolicy

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func TestObjectsAreChanged(t *testing.T) {
	cluster := plugintest.NewCluster(t,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}},
		&admissionregistrationv1.MutatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{
					NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
						RuleWithOperations: admissionregistrationv1.RuleWithOperations{
							Operations: []admissionregistrationv1.OperationType{"*"},
							Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
								Resources: []string{"pods", "pods/*"}},
						},
					}},
				},
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType: admissionregistrationv1.PatchTypeApplyConfiguration,
					ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{
						Expression: `Object{metadata: Object.metadata{labels: {"by": "policy"}}}`},
				}},
			},
		},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "b"},
			Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "p"},
		})
	whole(cluster)
	subject := cluster.Build(t, Descriptor, "")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for name, request := range map[string]plugintest.Request{
		"create": plugintest.Create(pod), "update": plugintest.Update(pod, pod)} {
		result := subject.Admit(t, request).Admitted(t)
		if got := result.Object.(*corev1.Pod).Labels["by"]; got != "policy" {
			t.Errorf("%s: the label is %q", name, got)
		}
	}
	if subject.Admit(t, plugintest.Delete(pod)).Admitted(t).Handled {
		t.Error("what is deleted is handled")
	}
	result := subject.Admit(t, plugintest.Create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}})).Admitted(t)
	if result.Changed {
		t.Error("something else is changed")
	}
}

// whole gives the cluster all that the plugin needs.
func whole(cluster *plugintest.Cluster) {
	cluster.Serve(runtime.NewScheme(), nil)
	cluster.Env.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	cluster.Env.RESTMapper = meta.NewDefaultRESTMapper(nil)
}

func TestWhatIsMissing(t *testing.T) {
	cluster := plugintest.NewCluster(t)
	whole(cluster)
	for missing, remove := range map[string]func(*plugin.Env){
		"needs a client":                        func(e *plugin.Env) { e.Client = nil },
		"needs a dynamic client":                func(e *plugin.Env) { e.Dynamic = nil },
		"needs informers":                       func(e *plugin.Env) { e.Informers = nil },
		"needs an authorizer":                   func(e *plugin.Env) { e.Authorizer = nil },
		"needs a REST mapper":                   func(e *plugin.Env) { e.RESTMapper = nil },
		"needs to know when the server is done": func(e *plugin.Env) { e.Done = nil },
	} {
		env := *cluster.Env
		remove(&env)
		if _, err := Descriptor.New(nil, &env); err == nil || err.Error() != missing {
			t.Errorf("the error is %v, want %s", err, missing)
		}
	}
	for config, want := range map[string]string{
		`{"kind":"MutatingAdmissionPolicyConfiguration"}`: `apiVersion "", kind ` +
			`"MutatingAdmissionPolicyConfiguration": must be kind MutatingAdmissionPolicyConfiguration in apiVersion ` +
			`apiserver.config.k8s.io/v1`,
		`{"kind":"MutatingAdmissionPolicyConfiguration","apiVersion":"apiserver.config.k8s.io/v1","nope":1}`: "nope",
		`{"kind":"MutatingAdmissionPolicyConfiguration","apiVersion":"apiserver.config.k8s.io/v1",` +
			`"staticManifestsDir":"/x"}`: `staticManifestsDir: Invalid value: "/x": unable to read`,
	} {
		if _, err := Descriptor.New(strings.NewReader(config), cluster.Env); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %s", config, err, want)
		}
	}
}
