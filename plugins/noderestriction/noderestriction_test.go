// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func deny(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
}

// Upstream: nodeidentifier.NewDefaultNodeIdentifier, for which a user in the group with another
// name is no node.
func TestWhoIsANode(t *testing.T) {
	subject := setup{}.build(t)
	other := plugintest.Create(nodeNamed("other"))
	const foreign = `node "mine" is not allowed to modify node "other"`
	for name, test := range map[string]struct {
		user    string
		groups  []string
		refused string
	}{
		"a node":           {"system:node:mine", []string{"system:authenticated", "system:nodes"}, foreign},
		"not in the group": {"system:node:mine", []string{"system:authenticated"}, ""},
		"a user":           {"alice", []string{"system:masters"}, ""},
		"another name":     {"alice", []string{"system:nodes"}, `could not determine node from user "alice"`},
		"no name": {"system:node:", []string{"system:nodes"},
			`could not determine node from user "system:node:"`},
		"a name that begins like": {"system:nodes:mine", []string{"system:nodes"},
			`could not determine node from user "system:nodes:mine"`},
	} {
		t.Run(name, func(t *testing.T) {
			verdict(t, subject.Admit(t, other.By(test.user, test.groups...)), "nodes", "other", test.refused)
		})
	}
	nobody := other
	nobody.User = nil
	subject.Admit(t, nobody).Admitted(t)

	// Also for what nodes may write freely.
	event := plugintest.Create(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "e"}})
	verdict(t, subject.Admit(t, event.By("alice", "system:nodes")), "events", "e",
		`could not determine node from user "alice"`)
}

// Upstream: "unrelated object" in Test_nodePlugin_Admit.
func TestOtherResources(t *testing.T) {
	subject := setup{}.build(t)
	for _, object := range []runtime.Object{
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "e"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa"}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}},
	} {
		for _, request := range []plugintest.Request{plugintest.Create(object), plugintest.Update(object, object),
			plugintest.Delete(object)} {
			subject.Admit(t, byMine(request)).Admitted(t)
		}
	}
	if result := subject.Admit(t,
		byMine(plugintest.Connect(podOn("other"), "exec", &corev1.PodExecOptions{}))); result.Handled {
		t.Error("CONNECT is handled, which authorization decides")
	}
	if calls := subject.Calls(); len(calls) > 0 {
		t.Errorf("calls %q", calls)
	}
}

// Where the chain runs once more after a webhook, what the webhook made of the request is judged as
// if the node had sent it: it would be a way around the rules.
func TestASecondRunIsJudged(t *testing.T) {
	p := setup{objects: []runtime.Object{nodeNamed("mine")}}.build(t).Built.(*nodeRestriction)
	labelled := nodeNamed("mine",
		func(n *corev1.Node) { n.Labels = map[string]string{"node-restriction.kubernetes.io/pool": "a"} })
	again := func(request plugintest.Request) error {
		object := request.Object.(metav1.Object)
		a := admission.NewAttributesRecord(request.Object, request.OldObject, request.Kind, object.GetNamespace(),
			object.GetName(), request.Resource, request.Subresource, request.Operation, nil, false,
			&user.DefaultInfo{Name: "system:node:mine", Groups: []string{"system:nodes"}})
		a.GetReinvocationContext().SetIsReinvoke()
		return p.Admit(t.Context(), a, nil)
	}
	for what, request := range map[string]plugintest.Request{
		"a new node":   plugintest.Create(labelled),
		"a node":       plugintest.Update(labelled, nodeNamed("mine")),
		"a mirror pod": plugintest.Create(mirrorPodOn("other")),
	} {
		if err := again(request); !apierrors.IsForbidden(err) {
			t.Errorf("%s in the second run: %v", what, err)
		}
	}
	for what, request := range map[string]plugintest.Request{
		"a new node":   plugintest.Create(nodeNamed("mine")),
		"a mirror pod": plugintest.Create(mirrorPodOn("mine")),
	} {
		if err := again(request); err != nil {
			t.Errorf("%s in the second run: %v", what, err)
		}
	}
}

// The informers of this host never start; ten seconds pass at once in the bubble. What needs no
// cache doesn't wait for one.
func TestRequestsWaitForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		built, err := Descriptor.New(nil, emptyEnv(t))
		if err != nil {
			t.Fatal(err)
		}
		subject := plugintest.Plugin{Built: built}
		subject.Admit(t, byMine(plugintest.Create(mirrorPodOn("mine")))).Refused(t, 403,
			`pods "p" is forbidden: not yet ready to handle request`)
		subject.Admit(t, byMine(plugintest.Create(nodeNamed("mine")))).Admitted(t)
		subject.Admit(t, plugintest.Create(mirrorPodOn("other"))).Admitted(t)
	})
}

// What isn't a node's costs nothing.
func TestOthersDoNotAllocate(t *testing.T) {
	p := setup{}.build(t).Built.(*nodeRestriction)
	a := admission.NewAttributesRecord(podOn("mine"), nil, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
		corev1.SchemeGroupVersion.WithResource("pods"), "",
		admission.Create, nil, false, &user.DefaultInfo{Name: "alice", Groups: []string{"dev", "system:authenticated"}})
	if n := testing.AllocsPerRun(100, func() {
		if err := p.Admit(t.Context(), a, nil); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNew(t *testing.T) {
	for want, spoil := range map[string]func(*plugin.Env){
		"NodeRestriction needs a client":      func(e *plugin.Env) { e.Client = nil },
		"NodeRestriction needs informers":     func(e *plugin.Env) { e.Informers = nil },
		"NodeRestriction needs an authorizer": func(e *plugin.Env) { e.Authorizer = nil },
		"NodeRestriction needs feature gates": func(e *plugin.Env) { e.Features = nil },
		"NodeRestriction needs the feature gate PodCertificateRequest, on or off": func(e *plugin.Env) {
			few := featuregate.NewFeatureGate()
			if err := few.Add(map[featuregate.Feature]featuregate.FeatureSpec{
				insecureRequests:    {PreRelease: featuregate.Deprecated},
				audienceRestriction: {PreRelease: featuregate.Beta},
			}); err != nil {
				t.Fatal(err)
			}
			e.Features = few
		},
	} {
		env := emptyEnv(t)
		spoil(env)
		if _, err := Descriptor.New(nil, env); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := Descriptor.New(strings.NewReader("a: b"), emptyEnv(t)); err == nil ||
		err.Error() != "NodeRestriction takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
	if Descriptor.Default {
		t.Error("it is on by default")
	}
}
