// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package ownerreferencespermissionenforcement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// refs are owner references of "kind/name", with "!" behind it where it blocks, "?" where it says
// that it doesn't, and "@uid" where the uid isn't the name.
func refs(texts ...string) []metav1.OwnerReference {
	var all []metav1.OwnerReference
	for _, text := range texts {
		kind, name, _ := strings.Cut(text, "/")
		name, uid, hasUID := strings.Cut(name, "@")
		ref := metav1.OwnerReference{APIVersion: "v1", Kind: kind}
		switch {
		case strings.HasSuffix(text, "!"):
			ref.BlockOwnerDeletion = new(true)
		case strings.HasSuffix(text, "?"):
			ref.BlockOwnerDeletion = new(false)
		}
		ref.Name = strings.TrimRight(name, "!?")
		ref.UID = types.UID(ref.Name)
		if hasUID {
			ref.UID = types.UID(strings.TrimRight(uid, "!?"))
		}
		if kind == "DaemonSet" {
			ref.APIVersion = "apps/v1"
		}
		all = append(all, ref)
	}
	return all
}

func pod(owners ...string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", OwnerReferences: refs(owners...)}}
}

func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper(nil)
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("ReplicationController"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	m.Add(appsv1.SchemeGroupVersion.WithKind("DaemonSet"), meta.RESTScopeNamespace)
	return m
}

// rights is an authorizer. Users may do everything but what their name has in denied, as "verb
// resource/subresource".
type rights struct {
	denied []string
	reason string
	err    error
	asked  []string
}

func (r *rights) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	what := strings.TrimSuffix(a.GetVerb()+" "+a.GetResource()+"/"+a.GetSubresource(), "/")
	r.asked = append(r.asked, fmt.Sprintf("%s %s of %s/%s %s/%s", a.GetUser().GetName(), what, a.GetAPIGroup(),
		a.GetAPIVersion(), a.GetNamespace(), a.GetName()))
	if !a.IsResourceRequest() {
		return authorizer.DecisionDeny, "not a request for a resource", nil
	}
	if slices.Contains(r.denied, what) {
		return authorizer.DecisionNoOpinion, r.reason, r.err
	}
	return authorizer.DecisionAllow, "", nil
}

func newPlugin(t plugintest.TB, r *rights, m meta.RESTMapper) *plugintest.Plugin {
	t.Helper()
	cluster := plugintest.NewCluster(t)
	cluster.Env.Authorizer, cluster.Env.RESTMapper = r, m
	return cluster.Build(t, Descriptor, "")
}

const (
	everything = "update */finalizers"
	noDelete   = `pods "p" is forbidden: cannot set an ownerRef on a resource you can't delete: not allowed to ` +
		`delete pods "p"`
	noBlock = `pods "p" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource ` +
		`you can't set finalizers on: not allowed to update `
	noMapping = `pods "p" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping ` +
		`for APIVersion `
)

// Upstream: TestGCAdmission in k8s.io/kubernetes/plugin/pkg/admission/gc/gc_admission_test.go.
func TestChangesNeedDelete(t *testing.T) {
	for name, test := range map[string]struct {
		request plugintest.Request
		needs   bool
	}{
		"create without": {plugintest.Create(pod()), false},
		"create with":    {plugintest.Create(pod("Pod/a", "Pod/b")), false},
		"update without": {plugintest.Update(pod(), pod()), false},
		"same":           {plugintest.Update(pod("Pod/a"), pod("Pod/a")), false},
		"nil and empty": {plugintest.Update(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns",
			Name: "p", OwnerReferences: []metav1.OwnerReference{}}}, pod()), false},
		"first":                   {plugintest.Update(pod("Pod/a"), pod()), true},
		"one more":                {plugintest.Update(pod("Pod/a", "Pod/b"), pod("Pod/a")), true},
		"one less":                {plugintest.Update(pod("Pod/a"), pod("Pod/a", "Pod/b")), true},
		"none any more":           {plugintest.Update(pod(), pod("Pod/a")), true},
		"another order":           {plugintest.Update(pod("Pod/b", "Pod/a"), pod("Pod/a", "Pod/b")), true},
		"another name":            {plugintest.Update(pod("Pod/b@u"), pod("Pod/a@u")), true},
		"another uid":             {plugintest.Update(pod("Pod/a@u"), pod("Pod/a@v")), true},
		"another kind":            {plugintest.Update(pod("Node/a"), pod("Pod/a")), true},
		"another version":         {plugintest.Update(pod("DaemonSet/a"), pod("Pod/a")), true},
		"doesn't block, and says": {plugintest.Update(pod("Pod/a?"), pod("Pod/a")), true},
		"status":                  {plugintest.Update(pod("Pod/a"), pod()).On("pods", "status"), false},
		"another subresource":     {plugintest.Update(pod("Pod/a"), pod()).On("pods", "resize"), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rights{denied: []string{everything, "delete pods", "delete pods/resize"}}
			result := newPlugin(t, r, mapper()).Validate(t, test.request.By("u"))
			switch {
			case !test.needs:
				result.Admitted(t)
				if len(r.asked) > 0 {
					t.Errorf("asked %q", r.asked)
				}
			case test.request.Subresource != "":
				result.Refused(t, 403, strings.Replace(noDelete, "delete pods ", "delete pods/resize ", 1))
			default:
				result.Refused(t, 403, noDelete)
				if !slices.Equal(r.asked, []string{"u delete pods of /v1 ns/p"}) {
					t.Errorf("asked %q", r.asked)
				}
			}
			r = &rights{}
			newPlugin(t, r, mapper()).Validate(t, test.request).Admitted(t)
		})
	}
}

// Upstream: TestBlockOwnerDeletionAdmission.
func TestBlockingNeedsFinalizersOfTheOwner(t *testing.T) {
	const rc, node, ds = "update replicationcontrollers/finalizers", "update nodes/finalizers",
		"update daemonsets/finalizers"
	denied := func(what ...string) []string { return append(what, everything) }
	for name, test := range map[string]struct {
		denied  []string
		request plugintest.Request
		refused string
	}{
		"create": {denied(), plugintest.Create(pod("ReplicationController/a!")), ""},
		"create, may not": {denied(rc), plugintest.Create(pod("ReplicationController/a!")), noBlock +
			`replicationcontrollers/finalizers "a"`},
		"may everything": {[]string{rc}, plugintest.Create(pod("ReplicationController/a!")), ""},
		"doesn't block": {denied(rc),
			plugintest.Create(pod("ReplicationController/a", "ReplicationController/b?")), ""},
		"second": {denied(rc), plugintest.Create(pod("Node/n!", "ReplicationController/a!")),
			noBlock + `replicationcontrollers/finalizers "a"`},
		"cluster-scoped owner": {denied(node), plugintest.Create(pod("Node/n!")), noBlock +
			`nodes/finalizers "n"`},
		"of a group": {denied(ds), plugintest.Create(pod("DaemonSet/d!")), noBlock +
			`daemonsets.apps/finalizers "d"`},
		"update, first": {denied(rc), plugintest.Update(pod("ReplicationController/a!"), pod()), noBlock +
			`replicationcontrollers/finalizers "a"`},
		"update, one more": {denied(rc), plugintest.Update(pod("ReplicationController/a!",
			"ReplicationController/b!"), pod("ReplicationController/a!")), noBlock +
			`replicationcontrollers/finalizers "b"`},
		"update, one that blocks not": {denied(rc), plugintest.Update(pod("ReplicationController/a!",
			"ReplicationController/b"), pod("ReplicationController/a!")), ""},
		"update, begins to block": {denied(rc), plugintest.Update(pod("ReplicationController/a!"),
			pod("ReplicationController/a")), noBlock + `replicationcontrollers/finalizers "a"`},
		"update, from false": {denied(rc), plugintest.Update(pod("ReplicationController/a!"),
			pod("ReplicationController/a?")), noBlock + `replicationcontrollers/finalizers "a"`},
		"update, blocks no more": {denied(rc),
			plugintest.Update(pod("ReplicationController/a?"), pod("ReplicationController/a!")), ""},
		"update, removed": {denied(rc), plugintest.Update(pod(), pod("ReplicationController/a!")), ""},
		"update, same": {denied(rc),
			plugintest.Update(pod("ReplicationController/a!"), pod("ReplicationController/a!")), ""},
		"update, same, moved": {denied(rc),
			plugintest.Update(pod("Pod/x", "ReplicationController/a!"), pod("ReplicationController/a!")), ""},
		"update, another object": {denied(rc), plugintest.Update(pod("ReplicationController/a@v!"),
			pod("ReplicationController/a@u!")), noBlock + `replicationcontrollers/finalizers "a"`},
		"unknown kind": {denied(), plugintest.Create(pod("Unknown/a!")), noMapping +
			`v1 Kind Unknown: no matches for kind "Unknown" in version "v1"`},
		"unknown kind, may everything": {nil, plugintest.Create(pod("Unknown/a!")), ""},
		"unknown kind, blocks not":     {denied(), plugintest.Create(pod("Unknown/a")), ""},
		"no delete, no finalizers": {denied(rc, "delete pods"),
			plugintest.Update(pod("ReplicationController/a!"), pod()), noDelete},
	} {
		t.Run(name, func(t *testing.T) {
			result := newPlugin(t, &rights{denied: test.denied}, mapper()).Validate(t, test.request)
			if test.refused == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, test.refused)
			}
		})
	}

	bad := pod("Pod/a!")
	bad.OwnerReferences[0].APIVersion = "a/b/c"
	newPlugin(t, &rights{denied: denied()}, mapper()).Validate(t, plugintest.Create(bad)).
		Refused(t, 403, noMapping+"a/b/c Kind Pod: unexpected GroupVersion string: a/b/c")
}

// What is asked, to the letter: upstream's finalizeAnythingRecord and
// ownerRefToDeleteAttributeRecords.
func TestWhatTheAuthorizerIsAsked(t *testing.T) {
	r := &rights{denied: []string{everything}}
	newPlugin(t, r, mapper()).Validate(t, plugintest.Update(pod("Node/n!", "DaemonSet/d!"), pod()).By("u")).Admitted(t)
	want := []string{
		"u delete pods of /v1 ns/p",
		"u update */finalizers of */* /*",
		"u update nodes/finalizers of /v1 /n",
		"u update daemonsets/finalizers of apps/v1 ns/d",
	}
	if !slices.Equal(r.asked, want) {
		t.Errorf("got  %q\nwant %q", r.asked, want)
	}
}

// twice maps every kind to two resources.
type twice struct{ meta.RESTMapper }

func (m twice) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	mapping := func(resource string) *meta.RESTMapping {
		return &meta.RESTMapping{Resource: schema.GroupVersionResource{Version: "v1", Resource: resource},
			Scope: meta.RESTScopeNamespace}
	}
	return []*meta.RESTMapping{mapping("ones"), mapping("others")}, nil
}

func TestAllResourcesOfAKindMustBeAllowed(t *testing.T) {
	r := &rights{denied: []string{everything, "update others/finalizers"}}
	newPlugin(t, r, twice{}).Validate(t, plugintest.Create(pod("Thing/a!"))).Refused(t, 403,
		noBlock+`others/finalizers "a"`)
	r = &rights{denied: []string{everything}}
	newPlugin(t, r, twice{}).Validate(t, plugintest.Create(pod("Thing/a!"))).Admitted(t)
}

// Who may everything is never kept waiting for a mapping. Upstream: neverReturningRESTMapper.
func TestWhoMayEverythingNeedsNoMapping(t *testing.T) {
	newPlugin(t, &rights{}, twice{nil}).Validate(t, plugintest.Create(pod("Thing/a!"))).Admitted(t)
}

func TestTheAuthorizersReasonIsTold(t *testing.T) {
	r := &rights{denied: []string{"delete pods"}, reason: "RBAC says no", err: errors.New("role r not found")}
	newPlugin(t, r, mapper()).Validate(t, plugintest.Update(pod("Pod/a"), pod())).Refused(t, 403,
		noDelete+", RBAC says no, role r not found")
}

// Objects are not converted for the plugin: it takes metadata wherever it is.
func TestMetadataOfAnyObject(t *testing.T) {
	if !Descriptor.Server.Internal {
		t.Error("every object that is written is converted")
	}
	custom := func(owners ...string) runtime.Object {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"}}
		object.SetNamespace("ns")
		object.SetName("p")
		object.SetOwnerReferences(refs(owners...))
		return object
	}
	partial := func(owners ...string) runtime.Object {
		return &metav1.PartialObjectMetadata{ObjectMeta: pod(owners...).ObjectMeta}
	}
	for name, object := range map[string]func(...string) runtime.Object{"custom": custom, "partial": partial} {
		t.Run(name, func(t *testing.T) {
			subject := newPlugin(t, &rights{denied: []string{everything, "delete pods",
				"update replicationcontrollers/finalizers"}}, mapper())
			update := func(after, before runtime.Object) plugintest.Result {
				request := plugintest.Update(pod(), pod())
				request.Object, request.OldObject = after, before
				return subject.Validate(t, request)
			}
			update(object("Pod/a"), object("Pod/a")).Admitted(t)
			update(object("Pod/a"), object()).Refused(t, 403, noDelete)
			create := plugintest.Create(pod())
			create.Object = object("ReplicationController/a!")
			subject.Validate(t, create).Refused(t, 403, noBlock+`replicationcontrollers/finalizers "a"`)
		})
	}
}

func TestWhatHasNoReferencesIsLeftAlone(t *testing.T) {
	r := &rights{denied: []string{everything, "delete deployments/scale"}}
	subject := newPlugin(t, r, mapper())
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"}}
	request := plugintest.Update(scale, scale)
	request.Resource = appsv1.SchemeGroupVersion.WithResource("deployments")
	request.Subresource = "scale"
	subject.Validate(t, request).Admitted(t)
	options := plugintest.Create(&corev1.Pod{})
	options.Object = &runtime.Unknown{} // no metadata at all
	subject.Validate(t, options).Admitted(t)
	subject.Validate(t, plugintest.Delete(pod("Pod/a!"))).Admitted(t)
	if len(r.asked) > 0 {
		t.Errorf("asked %q", r.asked)
	}
}

func TestWithoutReferencesNothingIsAllocated(t *testing.T) {
	p := newPlugin(t, &rights{}, mapper()).Built.(*ownerReferencesPermissionEnforcement)
	a := admission.NewAttributesRecord(pod("Pod/a!"), pod("Pod/a!"), corev1.SchemeGroupVersion.WithKind("Pod"), "ns",
		"p",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Update, nil, false, nil)
	if n := testing.AllocsPerRun(100, func() {
		if err := p.Validate(t.Context(), a, nil); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNew(t *testing.T) {
	for want, env := range map[string]*plugin.Env{
		name + " needs an authorizer": {RESTMapper: mapper()},
		name + " needs a REST mapper": {Authorizer: &rights{}},
	} {
		if _, err := Descriptor.New(nil, env); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := Descriptor.New(strings.NewReader("a: b"), &plugin.Env{}); err == nil ||
		err.Error() != name+" takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
	if Descriptor.Default {
		t.Error("it is on by default")
	}
}
