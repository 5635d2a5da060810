// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package matching

import (
	"context"
	"errors"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// testNamespaces has namespace ns of team a in its cache, and whatever is created with the client
// live.
func testNamespaces(t testing.TB) (Namespaces, *fake.Clientset) {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"team": "a"}}}
	if err := indexer.Add(ns); err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	return Namespaces{Cache: corelisters.NewNamespaceLister(indexer), Client: client}, client
}

// match is what one request and one MatchResources come to, as text.
func match(ctx context.Context, a admission.Attributes, namespaces Namespaces, mapper runtime.EquivalentResourceMapper,
	m *admissionregistrationv1.MatchResources) string {
	candidates := webhooks(NewResourceCriteria(m)).Candidates(TargetOf(a), mapper)
	if len(candidates) == 0 {
		return "no candidate"
	}
	r := NewRequest(a, nil, namespaces)
	found, mismatch, err := r.Match(ctx, candidates[0])
	switch {
	case err != nil:
		return "error: " + err.Error()
	case mismatch != Matches:
		return string(mismatch)
	}
	text := fmt.Sprintf("%s %s", found.Resource.GroupVersion(), found.Kind.Kind)
	if found.Converted {
		text += ", converted"
	}
	return text
}

// Source: TestMatcher in k8s.io/apiserver/pkg/admission/plugin/policy/matching, and
// TestMatchNamespaceSelector in k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace.
func TestMatch(t *testing.T) {
	mapper := deployments(t)
	pods := ruleList{named(aRule("*", "", "v1", "pods"))}
	all := named(aRule("*", "*", "*", "*/*"))
	webPod, otherPod := aPod(map[string]string{"app": "web"}), aPod(map[string]string{"app": "other"})
	aDeployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"}}
	asV1beta1 := request(create, schema.GroupVersionKind{Group: "apps", Version: "v1beta1", Kind: "Deployment"},
		"deployments", "ns", "d", aDeployment, nil)
	v1 := named(aRule("*", "apps", "v1", "deployments"))
	asV1 := request(create, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, "deployments",
		"ns", "d", aDeployment, nil)
	node := request(create, corev1.SchemeGroupVersion.WithKind("Node"), "nodes", "", "n", &corev1.Node{}, nil)
	namespace := func(operation admission.Operation, object, old runtime.Object) admission.Attributes {
		return request(operation, corev1.SchemeGroupVersion.WithKind("Namespace"), "namespaces", "ns", "ns", object,
			old)
	}
	teamB := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: map[string]string{"team": "b"}}}
	elsewhere := request(create, corev1.SchemeGroupVersion.WithKind("Pod"), "pods", "nowhere", "p", webPod, nil)
	a, b := selecting("team", "a"), selecting("team", "b")

	for name, test := range map[string]struct {
		request   admission.Attributes
		resources *admissionregistrationv1.MatchResources
		want      string
	}{
		"a binding without matchResources": {podRequest(create, webPod, nil), nil, "v1 Pod"},
		"no rules":                         {podRequest(create, webPod, nil), resources(nil), "v1 Pod"},
		"… but an exclusion": {podRequest(create, webPod, nil),
			resources(nil, excluding(pods...)), "no candidate"},
		"a rule":       {podRequest(create, webPod, nil), resources(pods), "v1 Pod"},
		"another rule": {node, resources(pods), "no candidate"},
		"a rule for this name": {podRequest(create, webPod, nil),
			resources(ruleList{named(aRule("*", "", "v1", "pods"), "o", "p")}), "v1 Pod"},
		"a rule for another name": {podRequest(create, webPod, nil),
			resources(ruleList{named(aRule("*", "", "v1", "pods"), "o")}),
			"resourceNames of no rule name the object"},
		"the second rule, for this name": {podRequest(create, webPod, nil),
			resources(ruleList{named(aRule("*", "", "v1", "pods"), "o"), named(aRule("*", "", "*", "*"), "p")}),
			"v1 Pod"},
		"an exclusion": {podRequest(create, webPod, nil), resources(ruleList{all}, excluding(pods...)), "no candidate"},
		"an exclusion of something else": {podRequest(create, webPod, nil),
			resources(ruleList{all}, excluding(named(aRule("DELETE", "", "v1", "pods")))), "v1 Pod"},
		"an exclusion of this name": {podRequest(create, webPod, nil),
			resources(ruleList{all}, excluding(named(aRule("*", "", "v1", "pods"), "p"))),
			"excludeResourceRules exclude the object"},
		"an exclusion of another name": {podRequest(create, webPod, nil),
			resources(ruleList{all}, excluding(named(aRule("*", "", "v1", "pods"), "o"))), "v1 Pod"},

		"an equivalent resource": {asV1beta1, resources(ruleList{v1}), "apps/v1 Deployment, converted"},
		"… of this name": {asV1beta1, resources(ruleList{named(v1.RuleWithOperations, "d")}),
			"apps/v1 Deployment, converted"},
		"… of another name": {asV1beta1, resources(ruleList{named(v1.RuleWithOperations, "e")}),
			"resourceNames of no rule name the object"},
		"… named exactly":         {asV1beta1, resources(ruleList{v1}, exactly), "no candidate"},
		"an equivalent exclusion": {asV1beta1, resources(ruleList{all}, excluding(v1)), "no candidate"},
		"… named exactly, is none": {asV1beta1,
			resources(ruleList{all}, excluding(v1), exactly), "apps/v1beta1 Deployment"},
		"the kind of what it came as": {asV1, resources(ruleList{v1}), "apps/v1 Deployment"},

		"namespace": {podRequest(create, webPod, nil), resources(pods, inNamespace(a)), "v1 Pod"},
		"another namespace": {podRequest(create, webPod, nil),
			resources(pods, inNamespace(b)), string(NamespaceSelector)},
		"a node has none":      {node, resources(ruleList{all}, inNamespace(b)), "v1 Node"},
		"a namespace, created": {namespace(create, teamB, nil), resources(nil, inNamespace(b)), "v1 Namespace"},
		"a namespace, deleted": {namespace(remove, nil, teamB), resources(nil, inNamespace(a)), "v1 Namespace"},
		"no such namespace": {elsewhere, resources(pods, inNamespace(a)),
			`error: namespaces "nowhere" not found`},
		"… whoever wants any": {elsewhere, resources(pods), "v1 Pod"},
		"… for an excluded object": {elsewhere,
			resources(pods, inNamespace(a), excluding(named(pods[0].RuleWithOperations, "p"))), string(Excluded)},
		"… for an unnamed object": {elsewhere,
			resources(ruleList{named(pods[0].RuleWithOperations, "o")}, inNamespace(a)), string(ResourceNames)},
		"object": {podRequest(create, webPod, nil), resources(pods, onObject(selecting("app", "web"))), "v1 Pod"},
		"old object": {podRequest(update, otherPod, webPod), resources(pods, onObject(selecting("app", "web"))),
			"v1 Pod"},
		"another object": {podRequest(create, otherPod, nil), resources(pods, onObject(selecting("app", "web"))),
			string(ObjectSelector)},
		"no object": {podRequest(admission.Connect, nil, nil), resources(pods, onObject(selecting("app", "web"))),
			string(ObjectSelector)},
		"a selector that isn't one": {podRequest(create, webPod, nil), resources(pods, inNamespace(broken)),
			`error: namespaceSelector: "Has" is not a valid label selector operator`},
		"… while another isn't met": {podRequest(create, webPod, nil),
			resources(pods, inNamespace(broken), onObject(selecting("app", "api"))), string(ObjectSelector)},
		"an object selector that isn't one": {podRequest(create, webPod, nil), resources(pods, onObject(broken)),
			`error: objectSelector: "Has" is not a valid label selector operator`},
		"no selector": {podRequest(create, webPod, nil), resources(pods, onObject(nil)),
			"error: objectSelector: a nil selector was passed, please ensure selectors are initialized properly"},
	} {
		t.Run(name, func(t *testing.T) {
			namespaces, _ := testNamespaces(t)
			if got := match(t.Context(), test.request, namespaces, mapper, test.resources); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// What can't be converted is an error, of exclusions before that of rules, unless an option before
// it is taken.
func TestUnknownKind(t *testing.T) {
	mapper := unknowing{deployments(t)}
	v1 := aRule("*", "apps", "v1", "deployments")
	a := request(create, schema.GroupVersionKind{Group: "apps", Version: "v1beta1", Kind: "Deployment"}, "deployments",
		"ns", "d", &appsv1.Deployment{}, nil)
	const want = "error: unable to convert to apps/v1, Resource=deployments: unknown kind"
	for name, test := range map[string]struct {
		resources *admissionregistrationv1.MatchResources
		want      string
	}{
		"rule":                  {resources(ruleList{named(v1)}), want},
		"rule for another name": {resources(ruleList{named(v1, "e")}), want},
		"exclusion": {resources(ruleList{named(aRule("*", "", "v1", "pods"))}, excluding(named(v1))),
			want},
		"exclusion before it": {resources(nil, excluding(named(v1), named(aRule("*", "*", "v1beta1", "*")))),
			"no candidate"},
		"exclusion by name": {resources(nil, excluding(named(v1), named(aRule("*", "*", "v1beta1", "*"), "d"))),
			string(Excluded)},
		"as it came, which does": {resources(ruleList{named(v1), named(aRule("*", "*", "v1beta1", "*"))}),
			"apps/v1beta1 Deployment"},
	} {
		t.Run(name, func(t *testing.T) {
			namespaces, _ := testNamespaces(t)
			if got := match(t.Context(), a, namespaces, mapper, test.resources); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// unknowing knows what is equivalent, but no kinds.
type unknowing struct {
	runtime.EquivalentResourceMapper
}

func (unknowing) KindFor(schema.GroupVersionResource, string) schema.GroupVersionKind {
	return schema.GroupVersionKind{}
}

// A namespace that the cache lacks is read live, once a request, whether it exists or not. If that
// fails, matching fails.
func TestNamespaceIsReadLive(t *testing.T) {
	namespaces, client := testNamespaces(t)
	fresh := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fresh", Labels: map[string]string{"team": "b"}}}
	if err := client.Tracker().Add(fresh); err != nil {
		t.Fatal(err)
	}
	a := request(create, corev1.SchemeGroupVersion.WithKind("Pod"), "pods", "fresh", "p", aPod(nil), nil)
	index := webhooks(NewResourceCriteria(resources(nil, inNamespace(selecting("team", "b")))),
		NewResourceCriteria(resources(nil, inNamespace(selecting("team", "c")))))
	candidates := index.Candidates(TargetOf(a), nil)

	r := NewRequest(a, nil, namespaces)
	for i, want := range []Mismatch{Matches, NamespaceSelector} {
		if _, mismatch, err := r.Match(t.Context(), candidates[i]); mismatch != want || err != nil {
			t.Errorf("%d: %q (%v), want %q", i, mismatch, err, want)
		}
	}
	if n := len(client.Actions()); n != 1 {
		t.Errorf("the namespace was read %d times", n)
	}

	client.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("etcd is on holiday")
	})
	r = NewRequest(a, nil, namespaces)
	for _, c := range candidates {
		_, _, err := r.Match(t.Context(), c)
		var failure *SelectorError
		if !errors.As(err, &failure) || failure.Field != "namespaceSelector" || apierrors.IsNotFound(err) ||
			err.Error() != "namespaceSelector: etcd is on holiday" {
			t.Errorf("the error is %v", err)
		}
	}
	if n := len(client.Actions()); n != 2 {
		t.Errorf("the namespace was read %d times", n-1)
	}
}

// counting counts how often selectors are evaluated.
type counting struct {
	labels.Selector
	count *int
}

func (s counting) Matches(l labels.Labels) bool {
	*s.count++
	return s.Selector.Matches(l)
}

// Selectors that say the same, however they say it, are evaluated once a request; and anew once the
// object has changed.
func TestEqualSelectorsAreEvaluatedOnce(t *testing.T) {
	namespaces, _ := testNamespaces(t)
	evaluated := 0
	other := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "app", Operator: metav1.LabelSelectorOpExists}}}
	var all []*Criteria
	for i := range 100 {
		s := selecting("team", "a")
		c := NewResourceCriteria(resources(nil, inNamespace(s), onObject(selecting("app", "web"))))
		if i == 0 {
			c = NewResourceCriteria(resources(nil, inNamespace(s), onObject(other)))
		}
		c.namespaceSelector.Selector = counting{c.namespaceSelector.Selector, &evaluated}
		c.objectSelector.Selector = counting{c.objectSelector.Selector, &evaluated}
		all = append(all, c)
	}
	pod := aPod(map[string]string{"app": "web"})
	a := podRequest(create, pod, nil)
	candidates := webhooks(all...).Candidates(TargetOf(a), nil)
	r := NewRequest(a, nil, namespaces)
	count := func() (matched int) {
		for _, c := range candidates {
			if _, mismatch, err := r.Match(t.Context(), c); err != nil {
				t.Fatal(err)
			} else if mismatch == Matches {
				matched++
			}
		}
		return matched
	}
	if matched := count(); matched != 100 || evaluated != 3 {
		t.Errorf("%d match after %d evaluations", matched, evaluated)
	}
	pod.Labels["app"] = "other"
	r.ObjectChanged()
	if matched := count(); matched != 1 {
		t.Errorf("with another label %d match", matched)
	}
}
