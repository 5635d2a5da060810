// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"context"
	"errors"
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin/plugintest"
)

func askToken(ref *authenticationv1.BoundObjectReference, audiences ...string) plugintest.Request {
	asked := &authenticationv1.TokenRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa"},
		Spec:       authenticationv1.TokenRequestSpec{BoundObjectRef: ref, Audiences: audiences},
	}
	r := plugintest.Create(asked)
	r.Resource = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	return byMine(r.On("serviceaccounts", "token"))
}

func boundTo(name, uid string) *authenticationv1.BoundObjectReference {
	return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: types.UID(uid)}
}

func changed(ref *authenticationv1.BoundObjectReference,
	change func(*authenticationv1.BoundObjectReference)) *authenticationv1.BoundObjectReference {
	change(ref)
	return ref
}

// own has the volume that every pod has.
func own(p *corev1.Pod) { p.Spec.Volumes = append(p.Spec.Volumes, projectedToken("")) }

func projectedToken(audience string) corev1.Volume {
	return corev1.Volume{Name: "token",
		VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{DownwardAPI: &corev1.DownwardAPIProjection{}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience}},
		}}}}
}

// Upstream: "Service accounts" in Test_nodePlugin_Admit.
func TestTokens(t *testing.T) {
	const notBound = "node requested token not bound to a pod"
	for name, test := range map[string]struct {
		ref     *authenticationv1.BoundObjectReference
		pod     *corev1.Pod
		refused string
	}{
		"of an own pod": {boundTo("p", "p-uid"), podOn("mine", own), ""},
		"of another node's": {boundTo("p", "p-uid"), podOn("other", own),
			"node requested token bound to a pod scheduled on a different node"},
		"of an unbound pod": {boundTo("p", "p-uid"), podOn("", own),
			"node requested token bound to a pod scheduled on a different node"},
		"of another pod's UID": {boundTo("p", "before"), podOn("mine", own),
			"the UID in the bound object reference (before) does not match the UID in record. The object might have " +
				"been deleted and then recreated"},
		"without UID": {boundTo("p", ""), podOn("mine", own),
			"node requested token with a pod binding without a uid"},
		"not bound":    {nil, podOn("mine", own), notBound},
		"without name": {boundTo("", "p-uid"), podOn("mine", own), notBound},
		"bound to a secret": {changed(boundTo("p", "p-uid"),
			func(r *authenticationv1.BoundObjectReference) { r.Kind = "Secret" }), podOn("mine", own), notBound},
		"bound to a node": {changed(boundTo("mine", "mine-uid"),
			func(r *authenticationv1.BoundObjectReference) { r.Kind = "Node" }), podOn("mine", own), notBound},
		"of another group": {changed(boundTo("p", "p-uid"),
			func(r *authenticationv1.BoundObjectReference) { r.APIVersion = "example.com/v1" }), podOn("mine", own),
			notBound},
	} {
		t.Run(name, func(t *testing.T) {
			subject := setup{objects: []runtime.Object{test.pod}}.build(t)
			verdict(t, subject.Admit(t, askToken(test.ref)), "serviceaccounts", "sa", test.refused)
		})
	}
	setup{}.build(t).Admit(t, askToken(boundTo("p", "p-uid"))).Refused(t, 404, `pods "p" not found`)
}

// The chain from pod to driver; what is missing of it isn't made.
func storage(claimName, volumeName string, volume corev1.PersistentVolumeSource) []runtime.Object {
	return []runtime.Object{
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: claimName},
			Spec: corev1.PersistentVolumeClaimSpec{VolumeName: volumeName}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: volume}},
	}
}

func driver(name string, audiences ...string) *storagev1.CSIDriver {
	d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, audience := range audiences {
		d.Spec.TokenRequests = append(d.Spec.TokenRequests, storagev1.TokenRequest{Audience: audience})
	}
	return d
}

// Upstream: the cases of Test_nodePlugin_Admit whose names have
// ServiceAccountNodeAudienceRestriction in them.
func TestAudiences(t *testing.T) {
	csi := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d"}}
	ebs := corev1.PersistentVolumeSource{
		AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://az/vol-1"},
	}
	nfs := corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}}
	volume := func(source corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: "data", VolumeSource: source}
	}
	claimed := volume(
		corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}})
	ephemeral := volume(
		corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{}},
		})
	inline := volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}})
	inlineEBS := volume(
		corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://az/vol-1"}})
	with := func(objects []runtime.Object, more ...runtime.Object) []runtime.Object {
		return append(objects, more...)
	}

	const notFound = `system:node:mine is not authorized to request tokens for audience "a"`
	const unknown = `error validating audience "a": `
	allow := authorizer.DecisionAllow
	for name, test := range map[string]struct {
		asked   []string
		volumes []corev1.Volume
		objects []runtime.Object
		may     authorizer.Decision
		mayErr  error
		off     bool // the gate
		refused string
	}{
		"projected": {asked: []string{"a"},
			volumes: []corev1.Volume{projectedToken("b"), projectedToken("a")}},
		"projected, the server's": {volumes: []corev1.Volume{projectedToken("")}},
		"projected, another": {asked: []string{"a"},
			volumes: []corev1.Volume{projectedToken("b"), projectedToken("")}, refused: notFound},
		"the server's, not wanted": {volumes: []corev1.Volume{projectedToken("b")},
			refused: `system:node:mine is not authorized to request tokens for audience ""`},
		"no volumes": {asked: []string{"a"}, refused: notFound},
		"two": {asked: []string{"a", "b"},
			volumes: []corev1.Volume{projectedToken("a"), projectedToken("b")}, may: allow,
			refused: "node may only request 0 or 1 audiences"},
		"two, gate off":        {asked: []string{"a", "b"}, off: true},
		"no volumes, gate off": {asked: []string{"a"}, off: true},
		"role":                 {asked: []string{"a"}, may: allow},
		"role, and an error":   {asked: []string{"a"}, may: allow, mayErr: errors.New("role r not found")},
		"no role, and an error": {asked: []string{"a"}, mayErr: errors.New("role r not found"),
			refused: `error authorizing system:node:mine to request tokens for audience "a": role r not found`},
		"CSI": {asked: []string{"a"}, volumes: []corev1.Volume{inline},
			objects: []runtime.Object{driver("d", "b", "a")}},
		"CSI, another": {asked: []string{"a"}, volumes: []corev1.Volume{inline},
			objects: []runtime.Object{driver("d", "b")}, refused: notFound},
		"CSI, no driver": {asked: []string{"a"}, volumes: []corev1.Volume{inline}, may: allow,
			refused: unknown + `csidriver.storage.k8s.io "d" not found`},
		"CSI, no driver, projected": {asked: []string{"a"}, volumes: []corev1.Volume{inline, projectedToken("a")}},
		"CSI, no driver, gate off":  {asked: []string{"a"}, volumes: []corev1.Volume{inline}, off: true},
		"claim": {asked: []string{"a"}, volumes: []corev1.Volume{claimed},
			objects: with(storage("c", "v", csi), driver("d", "a"))},
		"claim, another": {asked: []string{"a"}, volumes: []corev1.Volume{claimed},
			objects: with(storage("c", "v", csi), driver("d", "b")), refused: notFound},
		"claim, none": {asked: []string{"a"}, volumes: []corev1.Volume{claimed},
			objects: storage("x", "v", csi), refused: unknown + `persistentvolumeclaim "c" not found`},
		"claim, not bound": {asked: []string{"a"}, volumes: []corev1.Volume{claimed},
			objects: storage("c", "", csi), refused: unknown + `persistentvolumeclaim "c" is not bound`},
		"claim, no volume": {asked: []string{"a"}, volumes: []corev1.Volume{claimed},
			objects: storage("c", "x", csi), refused: unknown + `persistentvolume "x" not found`},
		"claim, no driver's": {asked: []string{"a"}, volumes: []corev1.Volume{claimed},
			objects: storage("c", "v", nfs), refused: notFound},
		"claim, in-tree": {asked: []string{"a"}, volumes: []corev1.Volume{claimed},
			objects: with(storage("c", "v", ebs), driver("ebs.csi.aws.com", "a"))},
		"ephemeral": {asked: []string{"a"}, volumes: []corev1.Volume{ephemeral},
			objects: with(storage("p-data", "v", csi), driver("d", "a"))},
		"ephemeral, another": {asked: []string{"a"}, volumes: []corev1.Volume{ephemeral},
			objects: with(storage("p-data", "v", csi), driver("d", "b")), refused: notFound},
		"ephemeral, other's claim": {asked: []string{"a"}, volumes: []corev1.Volume{ephemeral},
			objects: with(storage("data", "v", csi), driver("d", "a")), refused: unknown +
				`persistentvolumeclaim "p-data" not found`},
		"inline, in-tree": {asked: []string{"a"}, volumes: []corev1.Volume{inlineEBS},
			objects: []runtime.Object{driver("ebs.csi.aws.com", "a")}},
		"inline, in-tree, another": {asked: []string{"a"}, volumes: []corev1.Volume{inlineEBS},
			objects: []runtime.Object{driver("ebs.csi.aws.com", "b")}, refused: notFound},
	} {
		t.Run(name, func(t *testing.T) {
			s := setup{objects: append(test.objects,
				podOn("mine", func(p *corev1.Pod) { p.Spec.Volumes = test.volumes }))}
			s.authorizer = func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
				return test.may, "", test.mayErr
			}
			if test.off {
				s.off = []featuregate.Feature{audienceRestriction}
			}
			verdict(t, s.build(t).Admit(t, askToken(boundTo("p", "p-uid"), test.asked...)), "serviceaccounts", "sa",
				test.refused)
		})
	}
}

// Upstream: validateNodeServiceAccountAudience.
func TestWhatTheAuthorizerIsAsked(t *testing.T) {
	var asked string
	s := setup{objects: []runtime.Object{podOn("mine")}}
	s.authorizer = func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		asked = fmt.Sprintf("%s %s group %q version %s resource %s of %s/%s %t", a.GetUser().GetName(), a.GetVerb(),
			a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetNamespace(), a.GetName(), a.IsResourceRequest())
		return authorizer.DecisionAllow, "", nil
	}
	s.build(t).Admit(t, askToken(boundTo("p", "p-uid"), "https://vault.example")).Admitted(t)
	want := `system:node:mine request-serviceaccounts-token-audience group "" version v1 resource ` +
		`https://vault.example of ns/sa true`
	if asked != want {
		t.Errorf("got  %s\nwant %s", asked, want)
	}
}
