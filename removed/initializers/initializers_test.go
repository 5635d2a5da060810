// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initializers

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
	admissionregistrationv1alpha1 "gatehouse.dev/removed/apis/admissionregistration/v1alpha1"
	"gatehouse.dev/removed/apis/initializers"
)

const (
	anyone = "alice"
	// trusted has the verb initialize on pods of namespace ns, in v1.
	trusted = "initializer"
	// broken is a user about whom the authorizer can't be asked.
	broken = "broken"
)

var authorize = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string,
	error) {
	switch {
	case a.GetUser().GetName() == broken:
		return authorizer.DecisionNoOpinion, "", errors.New("no answer")
	case a.GetUser().GetName() == trusted && a.GetVerb() == "initialize" && a.IsResourceRequest() &&
		a.GetNamespace() == "ns" &&
		a.GetAPIGroup() == "" && a.GetAPIVersion() == "v1" && a.GetResource() == "pods" && a.GetSubresource() == "" &&
		(a.GetName() == "p" || a.GetName() == ""):
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "not today", nil
})

// configuration is an InitializerConfiguration with initializers, in YAML.
func configuration(t testing.TB, name, initializers string) *admissionregistrationv1alpha1.InitializerConfiguration {
	t.Helper()
	c := &admissionregistrationv1alpha1.InitializerConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1alpha1",
			Kind: "InitializerConfiguration"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
	}
	if err := yaml.UnmarshalStrict([]byte(initializers), &c.Initializers); err != nil {
		t.Fatal(err)
	}
	return c
}

func newPlugin(t testing.TB, configurations ...runtime.Object) *plugintest.Plugin {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := admissionregistrationv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := plugintest.NewCluster(t)
	c.Serve(scheme,
		map[schema.GroupVersionResource]string{
			admissionregistrationv1alpha1.InitializerConfigurations: "InitializerConfigurationList",
		}, configurations...)
	c.Env.Authorizer = authorize
	return c.Build(t, Descriptor, "")
}

// onPods is a configuration by which pods wait for two initializers.
const onPods = `
- {name: one.example.com, rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods]}]}
- {name: two.example.com, rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods]}]}
`

const both = "one.example.com,two.example.com"

// newPod is the pod p with annotations, of pairs of key and value.
func newPod(annotations ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for pair := range slices.Chunk(annotations, 2) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, pair[0], pair[1])
	}
	return pod
}

func pending(list string) *corev1.Pod { return newPod(initializers.PendingAnnotation, list) }

// Which initializers an object waits for: getting the list is all that happens to it.
func TestListOfANewObject(t *testing.T) {
	deployment := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": map[string]any{"namespace": "ns", "name": "p"},
	}}
	review := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": map[string]any{},
	}}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	for name, test := range map[string]struct {
		configurations map[string]string
		request        plugintest.Request
		want           string
	}{
		"without configurations": {nil, plugintest.Create(newPod()), ""},
		"those of a rule":        {map[string]string{"c": onPods}, plugintest.Create(newPod()), both},
		"of another resource": {map[string]string{"c": onPods},
			plugintest.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}), ""},
		"in the order of the configurations' names": {
			map[string]string{
				"b": `[{name: one.example.com, rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}]`,
				"a": `[{name: two.example.com, rules: [{apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}]`,
			},
			plugintest.Create(newPod()), "two.example.com,one.example.com",
		},
		"each once": {map[string]string{"a": onPods, "b": onPods}, plugintest.Create(newPod()), both},
		"one of several rules": {
			map[string]string{"c": `[{name: a.example.com, rules: [
				{apiGroups: [apps], apiVersions: [v1], resources: [deployments]}, {apiGroups: [""], apiVersions: [v1], resources: [pods, secrets]}]}]`},
			plugintest.Create(newPod()), "a.example.com",
		},
		"of another group": {map[string]string{"c": `[{name: a.example.com, rules: [{apiGroups: [apps], ` +
			`apiVersions: ["*"], resources: ["*"]}]}]`}, plugintest.Create(newPod()), ""},
		"of another version": {map[string]string{"c": `[{name: a.example.com, rules: [{apiGroups: [apps], ` +
			`apiVersions: [v1], resources: ["*"]}]}]`}, plugintest.Create(deployment), ""},
		"of this version": {map[string]string{"c": `[{name: a.example.com, rules: [{apiGroups: [apps], ` +
			`apiVersions: [v1beta1], resources: ["*"]}]}]`}, plugintest.Create(deployment), "a.example.com"},
		"without rules": {map[string]string{"c": `[{name: a.example.com}]`}, plugintest.Create(newPod()), ""},
		// Source: the same exception in plugin/pkg/admission/initialization of Kubernetes 1.13.
		"of a mirror pod": {map[string]string{"c": onPods},
			plugintest.Create(newPod(corev1.MirrorPodAnnotationKey, "x")), ""},
		"of a review": {map[string]string{"c": `[{name: a.example.com, rules: [{apiGroups: ["*"], ` +
			`apiVersions: ["*"], resources: ["*"]}]}]`}, plugintest.Create(review), ""},
		"of a binding": {map[string]string{"c": `[{name: a.example.com, rules: [{apiGroups: ["*"], ` +
			`apiVersions: ["*"], resources: ["*"]}]}]`}, plugintest.Create(binding), ""},
		"of a subresource":  {map[string]string{"c": onPods}, plugintest.Create(binding).On("pods", "binding"), ""},
		"of what's updated": {map[string]string{"c": onPods}, plugintest.Update(newPod(), newPod()), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var configurations []runtime.Object
			for name, initializers := range test.configurations {
				configurations = append(configurations, configuration(t, name, initializers))
			}
			result := newPlugin(t, configurations...).Admit(t, test.request).Admitted(t)
			object := result.Object.(metav1.Object)
			if got := object.GetAnnotations()[initializers.PendingAnnotation]; got != test.want ||
				result.Changed != (test.want != "") {
				t.Errorf("the list is %q, changed: %t; want %q", got, result.Changed, test.want)
			}
		})
	}
}

// What is stated here is initialization_test.go in plugin/pkg/admission/initialization of
// Kubernetes 1.13, where it isn't about annotations.
func TestCreateWithAList(t *testing.T) {
	subject := newPlugin(t, configuration(t, "c", onPods))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p",
		Annotations: map[string]string{initializers.PendingAnnotation: "x"}}}
	for name, test := range map[string]struct {
		object runtime.Object
		user   string
		code   int // 0: admitted, as it came
		want   string
	}{
		"the same that it would get": {object: pending(both), user: anyone},
		"an empty one": {pending(""), anyone, 403,
			`pods "p" is forbidden: create with initializers denied: not today`},
		"an empty one, by right": {object: pending(""), user: trusted},
		"another": {pending("one.example.com"), anyone, 403,
			`pods "p" is forbidden: create with initializers denied: not today`},
		"another, by right": {object: pending("own.example.com"), user: trusted},
		"where none is asked for": {secret, anyone, 403,
			`secrets "p" is forbidden: create with initializers denied: not today`},
		"who can't be asked about": {pending(""), broken, 500,
			`Internal error occurred: create with initializers denied: no answer`},
		"names that are none": {
			pending("own,own"), trusted, 422,
			`Pod "p" is invalid: [metadata.annotations[initializers.gatehouse.dev/pending]: Invalid value: "own": ` +
				`should be a domain with at least three segments separated by dots, ` +
				`metadata.annotations[initializers.gatehouse.dev/pending]: Duplicate value: "own"]`,
		},
		"an error": {
			newPod(initializers.ErrorAnnotation, "no"), trusted, 403,
			`pods "p" is forbidden: metadata.annotations[initializers.gatehouse.dev/error]: Forbidden: may be set ` +
				`only by an initializer that the object waits for`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			request := plugintest.Create(test.object).By(test.user)
			if test.code != 0 {
				subject.Admit(t, request).Refused(t, test.code, test.want)
				return
			}
			if result := subject.Admit(t, request).Admitted(t); result.Changed {
				t.Errorf("the object becomes %v", result.Object)
			}
			subject.Validate(t, request).Admitted(t)
		})
	}
}

// Run once more after a webhook, the plugin stands by what it did, though the configurations have
// changed.
func TestReinvocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := configuration(t, "c", onPods)
		subject := newPlugin(t, c)
		object := newPod()
		r := plugintest.Create(object).By(anyone)
		a := admission.NewAttributesRecord(object, nil, r.Kind, r.Namespace, r.Name, r.Resource, "", admission.Create,
			r.Options, false, r.User)
		interfaces := admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme)
		mutating := subject.Built.(plugin.Mutator)
		if err := mutating.Admit(t.Context(), a, interfaces); err != nil {
			t.Fatal(err)
		}
		if err := subject.Env.Dynamic.Resource(
			admissionregistrationv1alpha1.InitializerConfigurations).Delete(t.Context(), "c",
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		a.GetReinvocationContext().SetIsReinvoke()
		if err := mutating.Admit(t.Context(), a, interfaces); err != nil {
			t.Error(err)
		}
		if got := object.Annotations[initializers.PendingAnnotation]; got != both {
			t.Errorf("the list is %q", got)
		}
		subject.Admit(t, plugintest.Create(pending(both)).By(anyone)).Refused(t, 403,
			`pods "p" is forbidden: create with initializers denied: not today`)
	})
}

func TestNeeds(t *testing.T) {
	env := plugintest.NewCluster(t).Env
	for _, test := range []struct{ config, want string }{
		{"a: b", "Initializers takes no configuration, but is given one"},
		{"", "Initializers needs an authorizer"},
	} {
		if _, err := Descriptor.New(strings.NewReader(test.config), env); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
	env.Authorizer = authorize
	if _, err := Descriptor.New(nil, env); err == nil || err.Error() != "Initializers needs a dynamic client" {
		t.Errorf("got %v", err)
	}
	if _, err := Descriptor.New(nil, &plugin.Env{Authorizer: authorize}); err == nil {
		t.Error("builds in an empty environment")
	}
}

// Where there is no configuration, and where none has a rule for the object, the plugin allocates
// nothing.
func TestAllocatesNothing(t *testing.T) {
	other := `[{name: a.example.com, rules: [{apiGroups: [apps], apiVersions: ["*"], resources: ["*"]}]}]`
	for name, subject := range map[string]*plugintest.Plugin{
		"no configuration":    newPlugin(t),
		"of another resource": newPlugin(t, configuration(t, "c", other)),
	} {
		for _, request := range []plugintest.Request{plugintest.Create(newPod("a", "b")),
			plugintest.Update(newPod("a", "b"), newPod())} {
			run := call(subject, request)
			if n := testing.AllocsPerRun(100, func() { run(t) }); n != 0 {
				t.Errorf("%s, %s: %v allocations", name, request.Operation, n)
			}
		}
	}
}

func BenchmarkNoConfiguration(b *testing.B) {
	subject := newPlugin(b)
	for _, request := range []plugintest.Request{plugintest.Create(newPod("a", "b")),
		plugintest.Update(newPod("a", "b"), newPod())} {
		b.Run(string(request.Operation), func(b *testing.B) {
			run := call(subject, request)
			b.ReportAllocs()
			for b.Loop() {
				run(b)
			}
		})
	}
}

// call is both phases of a request.
func call(subject *plugintest.Plugin, r plugintest.Request) func(testing.TB) {
	a := admission.NewAttributesRecord(r.Object, r.OldObject, r.Kind, r.Namespace, r.Name, r.Resource, r.Subresource,
		r.Operation, r.Options, false, r.User)
	interfaces := admission.NewObjectInterfacesFromScheme(clientgoscheme.Scheme)
	mutating, validating := subject.Built.(plugin.Mutator),
		subject.Built.(plugin.Validator)
	ctx := context.Background()
	return func(t testing.TB) {
		if err := mutating.Admit(ctx, a, interfaces); err != nil {
			t.Fatal(err)
		}
		if err := validating.Validate(ctx, a, interfaces); err != nil {
			t.Fatal(err)
		}
	}
}
