// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	clienttesting "k8s.io/client-go/testing"

	"gatehouse.dev/plugin/plugintest"
)

// Upstream: Test_nodePlugin_Admit and, for owners, Test_nodePlugin_Admit_OwnerReference in
// k8s.io/kubernetes/plugin/pkg/admission/noderestriction/admission_test.go.
func TestMirrorPods(t *testing.T) {
	owner := func(change func(*metav1.OwnerReference)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.OwnerReferences[0]) }
	}
	volume := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} }
	}
	const (
		onlyOwner = `node "mine" can only create pods with an owner reference set to itself`
		noRefs    = `node "mine" can not create pods that reference `
	)
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		refused string
	}{
		"own": {mirrorPodOn("mine"), ""},
		"with harmless volumes": {mirrorPodOn("mine",
			volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}})), ""},
		"no mirror pod": {podOn("mine"),
			`pod does not have "kubernetes.io/config.mirror" annotation, node "mine" can only create mirror pods`},
		"of another node": {mirrorPodOn("other"),
			`node "mine" can only create pods with spec.nodeName set to itself`},
		"unbound": {mirrorPodOn(""),
			`node "mine" can only create pods with spec.nodeName set to itself`},
		"no owner": {mirrorPodOn("mine", func(p *corev1.Pod) { p.OwnerReferences = nil }), onlyOwner},
		"two owners": {mirrorPodOn("mine",
			func(p *corev1.Pod) { p.OwnerReferences = append(p.OwnerReferences, p.OwnerReferences[0]) }),
			`node "mine" can only create pods with a single owner reference set to itself`},
		"another owner": {mirrorPodOn("mine", owner(func(r *metav1.OwnerReference) { r.Name = "other" })),
			onlyOwner},
		"owner of another kind": {mirrorPodOn("mine", owner(func(r *metav1.OwnerReference) { r.Kind = "Pod" })),
			onlyOwner},
		"owner of another group": {mirrorPodOn("mine",
			owner(func(r *metav1.OwnerReference) { r.APIVersion = "example.com/v1" })), onlyOwner},
		"owner doesn't control": {mirrorPodOn("mine",
			owner(func(r *metav1.OwnerReference) { r.Controller = new(false) })),
			`node "mine" can only create pods with a controller owner reference set to itself`},
		"owner doesn't say": {mirrorPodOn("mine", owner(func(r *metav1.OwnerReference) { r.Controller = nil })),
			`node "mine" can only create pods with a controller owner reference set to itself`},
		"owner is blocked": {mirrorPodOn("mine",
			owner(func(r *metav1.OwnerReference) { r.BlockOwnerDeletion = new(true) })),
			`node "mine" must not set blockOwnerDeletion on an owner reference`},
		"owner isn't blocked": {mirrorPodOn("mine",
			owner(func(r *metav1.OwnerReference) { r.BlockOwnerDeletion = new(false) })), ""},
		"owner of another UID": {mirrorPodOn("mine", owner(func(r *metav1.OwnerReference) { r.UID = "before" })),
			`node mine UID mismatch: expected before got mine-uid`},

		"uses an account": {mirrorPodOn("mine", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "sa" }),
			noRefs + "serviceaccounts"},
		"uses a secret": {mirrorPodOn("mine",
			volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}})), noRefs + "secrets"},
		"uses a config map": {mirrorPodOn("mine",
			volume(corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}},
			})), noRefs + "configmaps"},
		"uses a claim": {mirrorPodOn("mine",
			volume(corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
			})), noRefs + "persistentvolumeclaims"},
		"uses a resource claim": {mirrorPodOn("mine",
			func(p *corev1.Pod) { p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}} }), noRefs +
			"resourceclaims"},
		"uses a trust bundle": {mirrorPodOn("mine",
			volume(corev1.VolumeSource{
				Projected: &corev1.ProjectedVolumeSource{
					Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}},
				},
			})), noRefs + "clustertrustbundles"},
		"uses who knows what": {mirrorPodOn("mine", volume(corev1.VolumeSource{})),
			`error checking mirror pod for API references: unknown volume type for volume "v"`},
	} {
		t.Run(name, func(t *testing.T) {
			subject := setup{objects: []runtime.Object{nodeNamed("mine"), nodeNamed("other")}}.build(t)
			verdict(t, subject.Admit(t, byMine(plugintest.Create(test.pod))), "pods", "p", test.refused)
			subject.Admit(t, plugintest.Create(test.pod)).Admitted(t) // by somebody else
		})
	}
	setup{}.build(t).Admit(t, byMine(plugintest.Create(mirrorPodOn("mine")))).Refused(t, 404, `nodes "mine" not found`)
}

// Upstream: "forbid update of mirror pod bound to self", "allow delete of normal pod bound to self"
// and so on in Test_nodePlugin_Admit.
func TestPods(t *testing.T) {
	subject := setup{}.build(t)
	const notUpdate = `unexpected operation "UPDATE", node "mine" can only create and delete mirror pods`
	const notDelete = `node "mine" can only delete pods with spec.nodeName set to itself`
	for name, test := range map[string]struct {
		request plugintest.Request
		refused string
	}{
		"update own pod":              {plugintest.Update(podOn("mine"), podOn("mine")), notUpdate},
		"update own mirror pod":       {plugintest.Update(mirrorPodOn("mine"), mirrorPodOn("mine")), notUpdate},
		"delete own pod":              {plugintest.Delete(podOn("mine")), ""},
		"delete own mirror pod":       {plugintest.Delete(mirrorPodOn("mine")), ""},
		"delete another node's pod":   {plugintest.Delete(podOn("other")), notDelete},
		"delete another's mirror pod": {plugintest.Delete(mirrorPodOn("other")), notDelete},
		"delete an unbound pod":       {plugintest.Delete(podOn("")), notDelete},
	} {
		t.Run(name, func(t *testing.T) { verdict(t, subject.Admit(t, byMine(test.request)), "pods", "p", test.refused) })
	}
	for _, subresource := range []string{"binding", "ephemeralcontainers", "resize"} {
		verdict(t, subject.Admit(t, byMine(plugintest.Update(podOn("mine"), podOn("mine")).On("pods", subresource))),
			"pods", "p",
			fmt.Sprintf("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", subresource))
	}
	if calls := subject.Calls(); len(calls) > 0 {
		t.Errorf("calls %q: all is in the requests", calls)
	}
}

// Upstream: "pod status" in Test_nodePlugin_Admit, and Test_resourceClaimStatusesEqual,
// Test_extendedResourceClaimStatusEqual.
func TestPodStatus(t *testing.T) {
	labelled := func(labels ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels = map[string]string{}
			for _, label := range labels {
				p.Labels[label] = "x"
			}
		}
	}
	claim := func(statuses ...corev1.PodResourceClaimStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.ResourceClaimStatuses = statuses }
	}
	extended := func(status *corev1.PodExtendedResourceClaimStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.ExtendedResourceClaimStatus = status }
	}
	// allocatable says what of the node's resources the pod has by a claim, none if it has none.
	allocatable := func(claim, container, mapped, perPod string) func(*corev1.Pod) {
		quantity := func(text string) *resource.Quantity {
			if text == "" {
				return nil
			}
			return new(resource.MustParse(text))
		}
		return func(p *corev1.Pod) {
			p.Status.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{{
				ResourceClaimName: claim, Containers: []string{container},
				Mapping:  []corev1.NodeAllocatableMappedResources{{Name: "cpu", Quantity: quantity(mapped)}},
				Overhead: []corev1.NodeAllocatableOverheadResources{{Name: "memory", PerPod: quantity(perPod)}},
			}}
		}
	}
	const (
		foreign       = `node "mine" can only update pod status for pods with spec.nodeName set to itself`
		noLabels      = `node "mine" cannot update labels through pod status`
		noClaims      = `node "mine" cannot update resource claim statues`
		noExtended    = `node "mine" cannot update extended resource claim status`
		noAllocatable = `node "mine" cannot update node allocatable resource claim statuses`
	)
	one := corev1.PodResourceClaimStatus{Name: "a", ResourceClaimName: new("claim")}
	status := func(request string) *corev1.PodExtendedResourceClaimStatus {
		return &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "claim",
			RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "c", ResourceName: "r",
				RequestName: request}}}
	}
	for name, test := range map[string]struct {
		before, after *corev1.Pod
		refused       string
	}{
		"own": {podOn("mine"), podOn("mine", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }),
			""},
		"own mirror pod":    {mirrorPodOn("mine"), mirrorPodOn("mine"), ""},
		"another node's":    {podOn("other"), podOn("other"), foreign},
		"unbound":           {podOn(""), podOn(""), foreign},
		"made one's own":    {podOn("other"), podOn("mine"), foreign},
		"same labels":       {podOn("mine", labelled("a")), podOn("mine", labelled("a")), ""},
		"another label":     {podOn("mine", labelled("a")), podOn("mine", labelled("b")), noLabels},
		"one label more":    {podOn("mine", labelled("a")), podOn("mine", labelled("a", "b")), noLabels},
		"no label any more": {podOn("mine", labelled("a")), podOn("mine"), noLabels},
		"same claims": {podOn("mine", claim(one)),
			podOn("mine", claim(corev1.PodResourceClaimStatus{Name: "a", ResourceClaimName: new("claim")})), ""},
		"one claim more": {podOn("mine"), podOn("mine", claim(one)), noClaims},
		"one claim less": {podOn("mine", claim(one)), podOn("mine"), noClaims},
		"another claim name": {podOn("mine", claim(one)),
			podOn("mine", claim(corev1.PodResourceClaimStatus{Name: "a", ResourceClaimName: new("other")})), noClaims},
		"no claim name": {podOn("mine", claim(one)),
			podOn("mine", claim(corev1.PodResourceClaimStatus{Name: "a"})), noClaims},
		"another pod claim": {podOn("mine", claim(one)),
			podOn("mine", claim(corev1.PodResourceClaimStatus{Name: "b", ResourceClaimName: new("claim")})), noClaims},
		"same extended":    {podOn("mine", extended(status("r"))), podOn("mine", extended(status("r"))), ""},
		"new extended":     {podOn("mine"), podOn("mine", extended(status("r"))), noExtended},
		"removed extended": {podOn("mine", extended(status("r"))), podOn("mine"), noExtended},
		"another extended": {podOn("mine", extended(status("r"))), podOn("mine", extended(status("s"))), noExtended},
		"same allocatable": {podOn("mine", allocatable("a", "c", "1", "")), podOn("mine", allocatable("a", "c", "1000m", "")),
			""},
		"new allocatable":     {podOn("mine"), podOn("mine", allocatable("a", "c", "1", "")), noAllocatable},
		"removed allocatable": {podOn("mine", allocatable("a", "c", "1", "")), podOn("mine"), noAllocatable},
		"another allocatable's claim": {podOn("mine", allocatable("a", "c", "1", "")),
			podOn("mine", allocatable("b", "c", "1", "")), noAllocatable},
		"another allocatable's container": {podOn("mine", allocatable("a", "c", "1", "")),
			podOn("mine", allocatable("a", "d", "1", "")), noAllocatable},
		"more allocatable": {podOn("mine", allocatable("a", "c", "1", "")), podOn("mine", allocatable("a", "c", "2", "")),
			noAllocatable},
		"more allocatable overhead": {podOn("mine", allocatable("a", "c", "1", "")),
			podOn("mine", allocatable("a", "c", "1", "1Gi")), noAllocatable},
	} {
		t.Run(name, func(t *testing.T) {
			verdict(t, setup{}.build(t).Admit(t,
				byMine(plugintest.Update(test.after, test.before).On("pods", "status"))), "pods", "p", test.refused)
		})
	}
	for _, request := range []plugintest.Request{plugintest.Create(podOn("mine")), plugintest.Delete(podOn("mine"))} {
		verdict(t, setup{}.build(t).Admit(t, byMine(request.On("pods", "status"))), "pods", "p",
			fmt.Sprintf("unexpected operation %q", request.Operation))
	}
}

func evict(name string) plugintest.Request {
	r := plugintest.Create(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}).On("pods",
		"eviction")
	r.Resource = corev1.SchemeGroupVersion.WithResource("pods")
	return byMine(r)
}

// Upstream: the evictions of Test_nodePlugin_Admit.
func TestEvictions(t *testing.T) {
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		refused string
	}{
		"own":            {podOn("mine"), ""},
		"own mirror pod": {mirrorPodOn("mine"), ""},
		"another node's": {podOn("other"), "node mine can only evict pods with spec.nodeName set to itself"},
		"unbound":        {podOn(""), "node mine can only evict pods with spec.nodeName set to itself"},
	} {
		t.Run(name, func(t *testing.T) {
			subject := setup{objects: []runtime.Object{test.pod}}.build(t)
			verdict(t, subject.Admit(t, evict("p")), "pods", "p", test.refused)
		})
	}
	subject := setup{objects: []runtime.Object{podOn("mine")}}.build(t)
	subject.Admit(t, evict("unknown")).Refused(t, 404, `pods "unknown" not found`)
	subject.Admit(t, evict("")).Refused(t, 403, `pods "Unknown" is forbidden: could not determine pod from request data`)
	for _, operation := range []admission.Operation{admission.Update, admission.Delete} {
		request := evict("p")
		request.Operation = operation
		verdict(t, subject.Admit(t, request), "pods", "p", "unexpected operation "+string(operation))
	}
}

// The cache of the API server may be behind the kubelet's.
func TestAPodThatTheCacheDoesNotShowYet(t *testing.T) {
	stale := podOn("") // not bound yet
	for name, test := range map[string]struct {
		live    *corev1.Pod
		err     error
		refused string
	}{
		"is bound by now":   {podOn("mine"), nil, ""},
		"is bound to other": {podOn("other"), nil, "node mine can only evict pods with spec.nodeName set to itself"},
		"can't be read":     {nil, errors.New("no leader"), `error looking up "p": no leader`},
	} {
		t.Run(name, func(t *testing.T) {
			subject := setup{objects: []runtime.Object{stale}}.build(t)
			subject.Client.PrependReactor("get", "pods",
				func(clienttesting.Action) (bool, runtime.Object, error) { return true, test.live, test.err })
			verdict(t, subject.Admit(t, evict("p")), "pods", "p", test.refused)
		})
	}
	subject := setup{objects: []runtime.Object{podOn("mine")}}.build(t)
	subject.Admit(t, evict("p")).Admitted(t)
	if calls := subject.Calls(); len(calls) > 0 {
		t.Errorf("calls %q although the cache is right", calls)
	}
	subject.Admit(t, evict("unknown"))
	if calls := subject.Calls(); !slices.Equal(calls, []string{"get pods ns/unknown"}) {
		t.Errorf("calls %q", calls)
	}
}
