// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"io"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/apis/example/install"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/chain"
	"gatehouse.dev/plugin"
)

// fake is a plugin made of functions.
type fake struct {
	operations      []admission.Operation // nil is all
	admit, validate func(a admission.Attributes) error
}

func (f fake) Handles(operation admission.Operation) bool {
	for _, o := range f.operations {
		if o == operation {
			return true
		}
	}
	return f.operations == nil
}

func (f fake) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if f.admit == nil {
		return nil
	}
	return f.admit(a)
}

func (f fake) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if f.validate == nil {
		return nil
	}
	return f.validate(a)
}

func described(name string, p plugin.Plugin) plugin.Descriptor {
	d := plugin.Descriptor{Name: name, New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return p, nil }}
	if f, ok := p.(fake); ok {
		if f.admit != nil {
			d.Phases |= plugin.Mutating
		}
		if f.validate != nil {
			d.Phases |= plugin.Validating
		}
	}
	return d
}

// mutators are plugins a, b, c ... that call the functions in the mutating phase.
func mutators(functions ...func(a admission.Attributes) error) []plugin.Descriptor {
	var list []plugin.Descriptor
	for i, f := range functions {
		list = append(list, described(string(rune('a'+i)), fake{admit: f}))
	}
	return list
}

func validators(functions ...func(a admission.Attributes) error) []plugin.Descriptor {
	var list []plugin.Descriptor
	for i, f := range functions {
		list = append(list, described(string(rune('a'+i)), fake{validate: f}))
	}
	return list
}

func newChain(t testing.TB, list []plugin.Descriptor, observers ...plugin.Observer) *chain.Chain {
	t.Helper()
	c, err := chain.New(list, nil, nil, observers...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newInterfaces() admission.ObjectInterfaces {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return admission.NewObjectInterfacesFromScheme(scheme)
}

func newPod() *example.Pod {
	return &example.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       example.PodSpec{ServiceAccountName: "default", NodeSelector: map[string]string{"os": "linux"}},
	}
}

func create(obj runtime.Object) admission.Attributes {
	return admission.NewAttributesRecord(obj, nil, examplev1.SchemeGroupVersion.WithKind("Pod"), "shop", "web",
		examplev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, &metav1.CreateOptions{}, false,
		&user.DefaultInfo{Name: "jane"})
}

func idle(admission.Attributes) error { return nil }

func label(key, value string) func(a admission.Attributes) error {
	return func(a admission.Attributes) error {
		a.GetObject().(*examplev1.Pod).Labels[key] = value
		return nil
	}
}

func refuse(a admission.Attributes) error {
	return admission.NewForbidden(a, errors.New("no"))
}

func look(a admission.Attributes) error { a.GetObject(); return nil }
