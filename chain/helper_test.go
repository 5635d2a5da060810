// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/apis/example/install"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/plugin"
)

// The tests' server holds pods of k8s.io/apiserver's example group, which has an
// internal and a versioned type and real conversions between them.
var (
	scheme  = exampleScheme()
	podKind = examplev1.SchemeGroupVersion.WithKind("Pod")
	pods    = examplev1.SchemeGroupVersion.WithResource("pods")
)

func exampleScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	install.Install(s)
	return s
}

// interfaces are a server's ObjectInterfaces that count conversions, and fail them where told to.
type interfaces struct {
	admission.ObjectInterfaces
	toVersioned, toInternal atomic.Int32
	failTo                  any // a pointer of the type conversions to which fail
}

func newInterfaces() *interfaces {
	return &interfaces{ObjectInterfaces: admission.NewObjectInterfacesFromScheme(scheme)}
}

func (i *interfaces) GetObjectConvertor() runtime.ObjectConvertor {
	return countingConvertor{scheme, i}
}

func (i *interfaces) wantConversions(t *testing.T, toVersioned, toInternal int32) {
	t.Helper()
	if got := i.toVersioned.Load(); got != toVersioned {
		t.Errorf("converted to the versioned type %d times, want %d", got, toVersioned)
	}
	if got := i.toInternal.Load(); got != toInternal {
		t.Errorf("converted back %d times, want %d", got, toInternal)
	}
}

type countingConvertor struct {
	*runtime.Scheme
	count *interfaces
}

func (c countingConvertor) Convert(in, out, context any) error {
	switch out := out.(type) {
	case *examplev1.Pod:
		c.count.toVersioned.Add(1)
		if _, ok := c.count.failTo.(*examplev1.Pod); ok {
			return errors.New("conversion is broken")
		}
	case *example.Pod:
		c.count.toInternal.Add(1)
		if _, ok := c.count.failTo.(*example.Pod); ok {
			out.Name = "half"
			return errors.New("conversion is broken")
		}
	}
	return c.Scheme.Convert(in, out, context)
}

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

func newChain(t testing.TB, list []plugin.Descriptor, observers ...plugin.Observer) *Chain {
	t.Helper()
	c, err := New(list, nil, nil, observers...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newPod() *example.Pod {
	return &example.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       example.PodSpec{ServiceAccountName: "default", NodeSelector: map[string]string{"os": "linux"}},
	}
}

func create(obj runtime.Object) admission.Attributes { return createAs(obj, podKind) }

func createAs(obj runtime.Object, kind schema.GroupVersionKind) admission.Attributes {
	return admission.NewAttributesRecord(obj, nil, kind, "shop", "web", pods, "", admission.Create,
		&metav1.CreateOptions{}, false, &user.DefaultInfo{Name: "jane"})
}

func update(obj, old runtime.Object) admission.Attributes {
	return admission.NewAttributesRecord(obj, old, podKind, "shop", "web", pods, "", admission.Update,
		&metav1.UpdateOptions{}, false, &user.DefaultInfo{Name: "jane"})
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("error is\n\t%s\nwant\n\t%s", got, want)
	}
}

// look, label and refuse are what plugins do in these tests.
func look(a admission.Attributes) error { a.GetObject(); return nil }

func label(key, value string) func(a admission.Attributes) error {
	return func(a admission.Attributes) error {
		a.GetObject().(*examplev1.Pod).Labels[key] = value
		return nil
	}
}

func refuse(a admission.Attributes) error {
	return admission.NewForbidden(a, errors.New("no"))
}

func idle(admission.Attributes) error { return nil }

const v1Header = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"

// writeFiles writes the admission control configuration file, and others beside it, and returns its
// path.
func writeFiles(t testing.TB, config string, others map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("adm.yaml", config)
	for name, content := range others {
		write(name, content)
	}
	return filepath.Join(dir, "adm.yaml")
}

// loadFiles returns a configuration in files; see writeFiles.
func loadFiles(t testing.TB, text string, others map[string]string) *config.Config {
	t.Helper()
	c, err := config.Load(writeFiles(t, v1Header+text, others))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
