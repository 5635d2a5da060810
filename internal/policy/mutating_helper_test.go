// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"io"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"

	"gatehouse.dev/internal/policy/mutation"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// documents are what a server says of Kubernetes' own kinds.
type documents struct{ openapi.Client }

func (d documents) OpenAPIV3() openapi.Client { return d.Client }

var schemas = mutation.NewSchemas(documents{openapitest.NewEmbeddedFileClient()})

var mutatingDescriptor = plugin.Descriptor{
	Name: "MutatingAdmissionPolicy", Phases: plugin.Mutating, Operations: plugin.EveryOperation, Server: plugin.Server{Only: "it is the server's"},
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		subject, err := NewMutating(config, env)
		if err != nil {
			return nil, err
		}
		subject.schemas = schemas // the client is a fake one
		return subject, nil
	},
}

// mutatingOf is a policy on pods, with the API's defaults, of which spec says what differs.
func mutatingOf(t testing.TB, name, spec string) *admissionregistrationv1.MutatingAdmissionPolicy {
	t.Helper()
	fail := admissionregistrationv1.Fail
	p := &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy:      &fail,
			MatchConstraints:   resources("pods"),
			ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		},
	}
	read(t, spec, &p.Spec)
	return p
}

// bindMutating is a binding of the policy, with the same name.
func mutatingBinding(t testing.TB, policy, spec string) *admissionregistrationv1.MutatingAdmissionPolicyBinding {
	t.Helper()
	b := &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: policy + "-binding"},
		Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: policy},
	}
	read(t, spec, &b.Spec)
	return b
}

func startMutating(t testing.TB, objects ...runtime.Object) *plugintest.Plugin {
	t.Helper()
	return cluster(t, objects...).Build(t, mutatingDescriptor, "")
}

// mutatingAll are policies with one ApplyConfiguration each, which may say %d for the policy's
// number.
func mutatingAll(t testing.TB, n int, expression string) (objects []runtime.Object) {
	for i := range n {
		name := fmt.Sprintf("p%04d", i)
		p := mutatingOf(t, name, "")
		p.Spec.Mutations = []admissionregistrationv1.Mutation{{
			PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
			ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: fmt.Sprintf(expression, i)},
		}}
		objects = append(objects, p, mutatingBinding(t, name, ""))
	}
	return objects
}
