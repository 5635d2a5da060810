package webhook

import (
	"fmt"
	"reflect"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// snapshotOf is one of these webhooks; those named static are.
func snapshotOf(t testing.TB, webhooks ...admissionregistrationv1.MutatingWebhook) *snapshot {
	c := testCompiler(t)
	hooks := make([]*hook, len(webhooks))
	for i, w := range webhooks {
		hooks[i] = c.compile(w, w.Name, "configuration", w.Name == "static")
	}
	return newSnapshot(hooks)
}

func rules(rules ...admissionregistrationv1.RuleWithOperations) func(*admissionregistrationv1.MutatingWebhook) {
	return func(w *admissionregistrationv1.MutatingWebhook) { w.Rules = rules }
}

// found is the candidates as text: name, position, and what they get if that isn't what was sent.
func found(candidates []candidate) []string {
	var all []string
	for _, c := range candidates {
		text := fmt.Sprintf("%s %d", c.name, c.index)
		if c.converted {
			text += fmt.Sprintf(" %s %s", c.resource.GroupVersion(), c.kind.GroupVersion())
		}
		all = append(all, text)
	}
	return all
}

func deployment(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apps", Version: version, Kind: "Deployment"}
}

// Source: TestShouldCallHook in k8s.io/apiserver/pkg/admission/plugin/webhook/generic.
func TestCandidates(t *testing.T) {
	mapper := runtime.NewEquivalentResourceRegistryWithIdentity(func(r schema.GroupResource) string {
		if r.Resource == "deployments" {
			return "deployments"
		}
		return ""
	})
	mapper.RegisterKindFor(gvr("extensions", "v1beta1", "deployments"), "",
		schema.GroupVersionKind{Group: "extensions", Version: "v1beta1", Kind: "Deployment"})
	mapper.RegisterKindFor(gvr("apps", "v1", "deployments"), "", deployment("v1"))
	mapper.RegisterKindFor(gvr("apps", "v1beta1", "deployments"), "", deployment("v1beta1"))
	mapper.RegisterKindFor(gvr("apps", "v1", "deployments"), "scale",
		schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"})
	mapper.RegisterKindFor(gvr("apps", "v1beta1", "deployments"), "scale",
		schema.GroupVersionKind{Group: "apps", Version: "v1beta1", Kind: "Scale"})

	s := snapshotOf(t,
		aWebhook("static", nobody(), rules(aRule("*", "*", "*", "*/*"))),
		aWebhook("pods", nobody(), rules(aRule("*", "", "v1", "pods"))),
		aWebhook("exact", nobody(), rules(aRule("*", "apps", "v1", "deployments/*"))),
		aWebhook("equivalent", nobody(), equivalent, rules(aRule("*", "apps", "v1", "deployments/*"))),
		aWebhook("first rule", nobody(), equivalent, rules(aRule("*", "", "v1", "pods"),
			aRule("*", "extensions", "v1beta1", "deployments"), aRule("*", "apps", "v1", "deployments"))),
		aWebhook("as it came first", nobody(), equivalent,
			rules(aRule("*", "extensions", "v1beta1", "deployments"), aRule("*", "apps", "*", "deployments"))),
	)
	for name, test := range map[string]struct {
		request target
		want    []string
	}{
		"pods": {target{operation: create, resource: gvr("", "v1", "pods")},
			[]string{"static 0", "pods 1", "first rule 4"}},
		"no webhook": {target{operation: create, resource: gvr("", "v1", "nodes")}, []string{"static 0"}},
		"exact version": {target{operation: create, resource: gvr("apps", "v1", "deployments")},
			[]string{"static 0", "exact 2", "equivalent 3", "first rule 4", "as it came first 5"}},
		"another version": {target{operation: create, resource: gvr("apps", "v1beta1", "deployments")},
			[]string{"static 0", "equivalent 3 apps/v1 apps/v1", "first rule 4 extensions/v1beta1 extensions/v1beta1",
				"as it came first 5"}},
		"another group": {target{operation: create, resource: gvr("extensions", "v1beta1", "deployments")},
			[]string{"static 0", "equivalent 3 apps/v1 apps/v1", "first rule 4", "as it came first 5"}},
		"a subresource": {target{operation: update, resource: gvr("apps", "v1beta1", "deployments"),
			subresource: "scale"},
			[]string{"static 0", "equivalent 3 apps/v1 autoscaling/v1"}},
		"an unknown resource": {target{operation: create, resource: gvr("apps", "v2", "deployments")},
			[]string{"static 0", "equivalent 3 apps/v1 apps/v1", "first rule 4 extensions/v1beta1 extensions/v1beta1",
				"as it came first 5"}},
		"a configuration": {target{operation: create, resource: gvr("", "v1", "pods"), configuration: true},
			[]string{"static 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 { // as found, and as remembered
				if got := found(s.candidates(test.request, mapper)); !reflect.DeepEqual(got, test.want) {
					t.Errorf("found %q\nwant  %q", got, test.want)
				}
			}
		})
	}
}

// A custom resource gets versions, and may be deleted and created with another kind. What was
// remembered isn't held on to.
func TestCandidatesFollowTheMapper(t *testing.T) {
	s := snapshotOf(t, aWebhook("w", nobody(), equivalent, rules(aRule("*", "e", "v1", "es"))))
	request := target{operation: create, resource: gvr("e", "v2", "es")}
	versions := func(kinds map[string]string, order ...string) runtime.EquivalentResourceMapper {
		mapper := runtime.NewEquivalentResourceRegistry()
		for _, version := range order {
			mapper.RegisterKindFor(gvr("e", version, "es"), "",
				schema.GroupVersionKind{Group: "e", Version: version, Kind: kinds[version]})
		}
		return mapper
	}
	es := map[string]string{"v1": "E", "v2": "E"}
	for i, step := range []struct {
		mapper runtime.EquivalentResourceMapper
		want   string
	}{
		{nil, ""},
		{versions(es, "v2"), ""},
		{versions(es, "v2", "v1"), "E"},
		{versions(map[string]string{"v1": "F", "v2": "E"}, "v2", "v1"), "F"},
		{versions(es, "v1"), "E"},
		{versions(es, "v2"), ""},
	} {
		candidates := s.candidates(request, step.mapper)
		got := ""
		if len(candidates) == 1 {
			got = candidates[0].kind.Kind
		}
		if got != step.want {
			t.Errorf("step %d: the kind is %q, want %q", i, got, step.want)
		}
	}
}

// What a request pays doesn't grow with the webhooks that can't match, and is no memory.
func TestCandidatesAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	mapper := runtime.NewEquivalentResourceRegistry()
	mapper.RegisterKindFor(gvr("", "v1", "pods"), "", corev1.SchemeGroupVersion.WithKind("Pod"))
	for _, n := range []int{0, 10, 2000} {
		s := snapshotOf(t, unrelated(n)...)
		a := newAttributes(create, newPod(), nil)
		if allocations := testing.AllocsPerRun(100, func() { s.candidates(targetOf(a), mapper) }); allocations != 0 {
			t.Errorf("with %d webhooks: %v allocations", n, allocations)
		}
	}
}

// unrelated are n webhooks that don't want pods.
func unrelated(n int) []admissionregistrationv1.MutatingWebhook {
	var webhooks []admissionregistrationv1.MutatingWebhook
	for i := range n {
		webhooks = append(webhooks, aWebhook(fmt.Sprintf("w%d.example.com", i), nobody(), equivalent,
			rules(aRule("*", "example.com", "*", fmt.Sprintf("things%d", i)), aRule("DELETE", "*", "*", "pods"))))
	}
	return webhooks
}

// The index doesn't grow without end as custom resources come and go.
func TestIndexIsBounded(t *testing.T) {
	s := snapshotOf(t, unrelated(1)...)
	for i := range maxTargets + 10 {
		s.candidates(target{resource: gvr("", "v1", fmt.Sprint(i))}, nil)
	}
	if n := len(*s.index.Load()); n > maxTargets {
		t.Errorf("the index has %d entries", n)
	}
}
