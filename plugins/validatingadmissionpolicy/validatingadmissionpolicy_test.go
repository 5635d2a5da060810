// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package validatingadmissionpolicy

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

func TestRequestsAreJudged(t *testing.T) {
	cluster := plugintest.NewCluster(t,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}},
		&admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{
					NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
						RuleWithOperations: admissionregistrationv1.RuleWithOperations{
							Operations: []admissionregistrationv1.OperationType{"CREATE"},
							Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"},
								Resources: []string{"pods"}},
						},
					}},
				},
				Validations: []admissionregistrationv1.Validation{{Expression: "object.metadata.name != 'p'",
					Message: "not today"}},
			},
		},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "b"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p",
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}},
		})
	whole(cluster)
	subject := cluster.Build(t, Descriptor, "")
	subject.Validate(t, plugintest.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}})).
		Refused(t, 422,
			`pods "p" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not today`)
	subject.Validate(t,
		plugintest.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}})).Admitted(t)
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
		`{"kind":"ValidatingAdmissionPolicyConfiguration"}`: `apiVersion "", kind ` +
			`"ValidatingAdmissionPolicyConfiguration": must be kind ValidatingAdmissionPolicyConfiguration in ` +
			`apiVersion ` +
			`apiserver.config.k8s.io/v1`,
		`{"kind":"ValidatingAdmissionPolicyConfiguration","apiVersion":"apiserver.config.k8s.io/v1","nope":1}`: "nope",
		`{"kind":"ValidatingAdmissionPolicyConfiguration","apiVersion":"apiserver.config.k8s.io/v1",` +
			`"staticManifestsDir":"/x"}`: `staticManifestsDir: Invalid value: "/x": unable to read`,
	} {
		if _, err := Descriptor.New(strings.NewReader(config), cluster.Env); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %s", config, err, want)
		}
	}
}
