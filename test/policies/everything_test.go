// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policies_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/kubeapiserver/admission/exclusion"

	"gatehouse.dev/test/servertest"
)

// What can be written is shown to the policies and webhooks that are for it, by every verb of every
// resource in every version that a server may serve, subresources and connections too: in the
// version that was asked for to those that take it as it is, in the one that they name to those
// that take what is equivalent. Discovery says what there is, so that nothing is left out.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/admission_policy_test.go#testPolicyAdmission 6db869e2
// Source: k8s.io/kubernetes/test/integration/apiserver/admissionwebhook/admission_test.go#testWebhookAdmission 2ed6b91e
// Source: k8s.io/kubernetes/test/integration/apiserver/admissionwebhook/admission_test.go#holder.record 00197659
func TestEverythingIsSeen(t *testing.T) {
	t.Parallel()
	p := servertest.NewProcess(t,
		"--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection",
		"--feature-gates=ClusterTrustBundle=true,GenericWorkload=true,PodCertificateRequest=true,"+
			"StorageVersionMigrator=true",
		"--runtime-config=api/all=true,admissionregistration.k8s.io/v1beta1=true,apps/v1beta1=true,apps/v1beta2=true,"+
			"extensions/v1beta1=true,policy/v1beta1/podsecuritypolicies=true,settings.k8s.io/v1alpha1=true")
	p.Start(t)
	newEverything(t, p.Connect(t),
		`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: NAME},
		spec: {matchConstraints: CONSTRAINTS, matchConditions: [CONDITION, {name: has-metadata, expression:
		"has(object.metadata)"}], reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration,
		applyConfiguration: {expression: 'Object{metadata: Object.metadata{annotations: {"example.com/NAME": SEEN}}}'}}]}}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding, metadata: {name: NAME},
		spec: {policyName: NAME}}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: NAME},
		webhooks: [WEBHOOK]}`,
		`{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: NAME},
		webhooks: [WEBHOOK]}`).walk(t)
}

// A server that is to be like the oldest Kubernetes that it knows shows all that this one has.
func TestEverythingOfAnOlderVersionIsSeen(t *testing.T) {
	t.Parallel()
	p := servertest.NewProcess(t, "--emulated-version=1.34",
		"--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection", "--runtime-config=api/all=true")
	p.Start(t)
	newEverything(t, p.Connect(t)).walk(t)
}

// walk asks for everything and compares what was seen of it with what is wanted.
func (e *everything) walk(t *testing.T) {
	e.discover(t)
	rules := make([]string, 0, len(e.preferred))
	for _, resource := range slices.Sorted(maps.Keys(e.preferred)) {
		gvr := e.preferred[resource]
		rules = append(rules, rule(gvr.Group, gvr.Version, gvr.Resource, `["*"]`))
	}
	e.install(t, exact, "{matchPolicy: Exact, resourceRules: ["+rule("*", "*", "*/*", `["*"]`)+"]}")
	e.install(t, equivalent, "{matchPolicy: Equivalent, resourceRules: ["+strings.Join(rules, ", ")+"]}")
	asked := 0
	for _, gvr := range e.order {
		resource := e.resources[gvr]
		t.Run(strings.ReplaceAll(gvr.GroupVersion().String()+" "+gvr.Resource, "/", "."), func(t *testing.T) {
			e := e.in(t)
			for _, verb := range []string{"create", "update", "patch", "deletecollection", "delete"} {
				if !slices.Contains(resource.Verbs, verb) {
					continue
				}
				for _, r := range e.requests(gvr, verb) {
					asked++
					e.check(gvr, verb, r)
				}
			}
		})
	}
	t.Logf("%d requests for %d resources", asked, len(e.order))
	if asked < 500 {
		t.Errorf("only %d requests for %d resources", asked, len(e.order))
	}
}

// requests are what a verb of a resource is asked by.
func (e *everything) requests(gvr schema.GroupVersionResource, verb string) []asked {
	name, sub, _ := strings.Cut(gvr.Resource, "/")
	object := e.object(gvr)
	base := asked{name: object.GetName(), operation: "UPDATE", object: true, old: true, options: "UpdateOptions"}
	if sub != "" {
		base.name = e.object(parent(gvr)).GetName()
	}
	connect := asked{method: http.MethodPost, name: base.name, operation: "CONNECT", object: true}
	with := func(a asked, methods ...string) (all []asked) {
		for _, method := range methods {
			a.method = method
			all = append(all, a)
		}
		return all
	}
	switch {
	case sub == "proxy":
		// whether there is something behind it doesn't matter
		return with(connect, map[string][]string{
			"create": {http.MethodPost, http.MethodGet, http.MethodHead, http.MethodOptions},
			"update": {http.MethodPut}, "patch": {http.MethodPatch}, "delete": {http.MethodDelete}}[verb]...)
	case name == "pods" && slices.Contains([]string{"attach", "exec", "portforward"}, sub):
		return with(connect, http.MethodPost, http.MethodGet)
	case verb == "create":
		base.operation, base.old, base.options = "CREATE", false, "CreateOptions"
		return with(base, http.MethodPost)
	case verb == "update":
		return with(base, http.MethodPut)
	case verb == "patch":
		return with(base, http.MethodPatch)
	}
	base.operation, base.object, base.options = "DELETE", false, "DeleteOptions"
	if verb == "deletecollection" {
		base.name = "" // the request's, which is for the collection
		return with(base, http.MethodDelete)
	}
	// what goes at once, and what stays until its finalizers have gone
	finalized := base
	finalized.finalizer = true
	return []asked{with(base, http.MethodDelete)[0], with(finalized, http.MethodDelete)[0]}
}

// check sends one request and compares who has seen it, and how.
func (e *everything) check(gvr schema.GroupVersionResource, verb string, r asked) {
	e.t.Helper()
	want := map[string]string{}
	for _, by := range []string{exact, equivalent} {
		as := gvr
		if by == equivalent {
			as = e.preferred[gvr.Resource]
		}
		line := e.line(gvr, as, r)
		if !policiesExempt(gvr.GroupResource()) {
			namespaceObject := "none"
			if e.resources[gvr].Namespaced {
				namespaceObject = everywhere
			}
			want["policy "+by] = line + ", in " + namespaceObject
			if e.mutations && r.object && r.operation != "CONNECT" {
				want["mutation "+by] = want["policy "+by]
			}
		}
		if e.mutations && !webhooksExempt(gvr.GroupResource()) {
			want["MutatingWebhookConfiguration "+by] = line
			want["ValidatingWebhookConfiguration "+by] = line
		}
	}
	got := e.send(gvr, verb, r)
	if diff := cmp.Diff(want, got); diff != "" {
		e.t.Errorf("%s %s %s (-want +seen):\n%s", r.method, verb, gvr, diff)
	}
}

// line is what should be seen of a request for gvr by who takes it as another version.
func (e *everything) line(gvr, as schema.GroupVersionResource, r asked) string {
	namespace := ""
	if e.resources[gvr].Namespaced {
		namespace = everywhere
	} else if gvr.Group == "" && parent(gvr).Resource == "namespaces" {
		namespace = r.name // a Namespace is in itself, for admission
	}
	kind := e.kind(as)
	version, name := kind.ToAPIVersionAndKind()
	object, old, options := "none", "none", "none"
	if r.object {
		object = version + " " + name
	}
	if r.old {
		old = version + " " + name
	}
	if r.options != "" {
		options = "meta.k8s.io/v1 " + r.options
	}
	resource, sub, _ := strings.Cut(as.Resource, "/")
	wanted := e.kind(gvr)
	return sight{r.operation, metav1.GroupVersionResource{Group: as.Group, Version: as.Version, Resource: resource},
		sub,
		metav1.GroupVersionKind(kind), namespace, r.name, object, old, options,
		metav1.GroupVersionResource{Group: gvr.Group, Version: gvr.Version, Resource: strings.Split(gvr.Resource,
			"/")[0]},
		metav1.GroupVersionKind(wanted)}.String()
}

// policiesExempt is what policies never see: themselves and each other, and questions.
func policiesExempt(resource schema.GroupResource) bool {
	if resource.Group == "admissionregistration.k8s.io" {
		return strings.Contains(resource.Resource, "admissionpolic")
	}
	return slices.Contains(exclusion.Excluded(), resource)
}

// webhooksExempt is what webhooks never see: themselves, policies, and questions.
func webhooksExempt(resource schema.GroupResource) bool {
	return resource.Group == "admissionregistration.k8s.io" || slices.Contains(exclusion.Excluded(), resource)
}
