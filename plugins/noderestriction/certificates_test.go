// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package noderestriction

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin/plugintest"
)

// requestPEM is a certificate request for a common name.
func requestPEM(t testing.TB, commonName string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: commonName, Organization: []string{"system:nodes"}}},
		key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func signingRequest(signer string, request []byte) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr"},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: signer, Request: request},
	}
}

// Upstream: "allowed CSR create correct node serving" and so on in Test_nodePlugin_Admit.
func TestSigningRequests(t *testing.T) {
	const serving, client, others = "kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet",
		"kubernetes.io/kube-apiserver-client"
	const foreign = "can only create a node CSR with CN=system:node:mine"
	mine, other := requestPEM(t, "system:node:mine"), requestPEM(t, "system:node:other")
	for name, test := range map[string]struct {
		signer  string
		request []byte
		gate    bool
		refused string
	}{
		"own serving certificate":           {serving, mine, false, ""},
		"own client certificate":            {client, mine, false, ""},
		"another node's serving":            {serving, other, false, foreign},
		"another node's client":             {client, other, false, foreign},
		"another node's, gate on":           {serving, other, true, ""},
		"nobody's":                          {serving, requestPEM(t, ""), false, foreign},
		"a name that begins like one's own": {serving, requestPEM(t, "system:node:mine2"), false, foreign},
		"another signer":                    {others, other, false, ""},
		"another signer, anything":          {"example.com/signer", []byte("x"), false, ""},
		"no PEM": {serving, []byte("x"), false,
			"unable to parse csr: PEM block type must be CERTIFICATE REQUEST"},
		"another PEM": {serving, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"}), false,
			"unable to parse csr: PEM block type must be CERTIFICATE REQUEST"},
		"no request in it": {serving, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST"}),
			false, "unable to parse csr: asn1: syntax error: sequence truncated"},
	} {
		t.Run(name, func(t *testing.T) {
			var s setup
			if test.gate {
				s.on = []featuregate.Feature{insecureRequests}
			}
			object := signingRequest(test.signer, test.request)
			subject := s.build(t)
			verdict(t, subject.Admit(t, byMine(plugintest.Create(object))),
				"certificatesigningrequests.certificates.k8s.io", "csr", test.refused)
			subject.Admit(t, byMine(plugintest.Update(object, object))).Admitted(t)
			subject.Admit(t, byMine(plugintest.Delete(object))).Admitted(t)
		})
	}
}

// Whatever a request holds, it is read or refused.
func FuzzSigningRequest(f *testing.F) {
	for _, seed := range [][]byte{
		nil, []byte("x"), requestPEM(f, "system:node:mine"), requestPEM(f, "system:node:mine")[:100],
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Headers: map[string]string{"a": "b"},
			Bytes: []byte{0x30, 0x80}}),
	} {
		f.Add(seed)
	}
	subject := setup{}.build(f)
	f.Fuzz(func(t *testing.T, request []byte) {
		result := subject.Admit(t, byMine(plugintest.Create(signingRequest("kubernetes.io/kubelet-serving", request))))
		parsed, err := parseRequest(request)
		if mine := err == nil && parsed.Subject.CommonName == "system:node:mine"; mine != (result.Err == nil) ||
			!mine && result.Code() != 403 {
			t.Errorf("admitted with %v, refused with %v", parsed, result.Err)
		}
	})
}

// Upstream: "deny node1 create PCR when feature gate disabled" and so on in Test_nodePlugin_Admit.
// What it answers with 500, as its cache may be late, is read live here, and so a refusal.
func TestPodCertificateRequests(t *testing.T) {
	type spec = certificatesv1beta1.PodCertificateRequestSpec
	const resource, of = "podcertificaterequests.certificates.k8s.io", `PodCertificateRequest for pod "ns/p" `
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa", UID: "sa-uid"}}
	same := func(*spec) {}
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		change  func(*spec)
		off     bool
		refused string
	}{
		"own": {podOn("mine", certifiedBy("example.com/s")), same, false, ""},
		"of another signer than the pod's": {podOn("mine", certifiedBy("example.com/other")), same, false,
			`pod "ns/p" does not mount a podCertificate projected volume for signer "example.com/s"`},
		"gate off": {podOn("mine"), same, true, "PodCertificateRequest feature gate is disabled"},
		"of another node": {podOn("other"), func(s *spec) { s.NodeName, s.NodeUID = "other", "other-uid" },
			false, `PodCertificateRequest.Spec.NodeName="other", which is not the requesting node "mine"`},
		"another node's pod": {podOn("other"), same, false,
			`pod "ns/p" is not running on node "mine" named in the PodCertificateRequest`},
		"mirror pod": {mirrorPodOn("mine"), same, false, `pod "ns/p" is a mirror pod`},
		"another UID of the node": {podOn("mine"), func(s *spec) { s.NodeUID = "before" }, false, of +
			`names node UID "before", inconsistent with the running node ("mine-uid")`},
		"another UID of the pod": {podOn("mine"), func(s *spec) { s.PodUID = "before" }, false, of +
			`contains pod UID ("before") which differs from running pod "p-uid"`},
		"another account": {podOn("mine"), func(s *spec) { s.ServiceAccountName = "admin" }, false, of +
			`contains serviceAccountName ("admin") that differs from running pod ("sa")`},
		"another UID of it": {podOn("mine"), func(s *spec) { s.ServiceAccountUID = "before" }, false, of +
			`names service account UID "before", which differs from the running service account ("sa-uid")`},
	} {
		t.Run(name, func(t *testing.T) {
			s := setup{objects: []runtime.Object{test.pod, account, nodeNamed("mine"), nodeNamed("other")}}
			if test.off {
				s.off = []featuregate.Feature{podCertificates}
			}
			subject, asked := s.build(t), podCertificateRequest(test.change)
			for _, object := range []runtime.Object{asked, inV1(asked)} {
				verdict(t, subject.Admit(t, byMine(plugintest.Create(object))), resource, "pcr", test.refused)
			}
		})
	}

	for missing, objects := range map[string][]runtime.Object{
		`nodes "mine" not found`:         {podOn("mine"), account},
		`pods "p" not found`:             {nodeNamed("mine"), account},
		`serviceaccounts "sa" not found`: {nodeNamed("mine"), podOn("mine")},
	} {
		setup{objects: objects}.build(t).Admit(t,
			byMine(plugintest.Create(podCertificateRequest(same)))).Refused(t, 404, missing)
	}
	subject, object := setup{}.build(t), podCertificateRequest(same)
	for _, request := range []plugintest.Request{plugintest.Update(object, object), plugintest.Delete(object)} {
		verdict(t, subject.Admit(t, byMine(request)), resource, "pcr",
			fmt.Sprintf("unexpected operation %s", request.Operation))
	}
	verdict(t, subject.Admit(t, byMine(plugintest.Create(object).On("podcertificaterequests", "status"))), resource,
		"pcr", "unexpected subresource status")
}

// Upstream: validateNodePodCertificateSigner.
func TestPodCertificateSigners(t *testing.T) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa", UID: "sa-uid"}}
	for name, test := range map[string]struct {
		decision authorizer.Decision
		err      error
		refused  string
	}{
		"a role grants it":                   {authorizer.DecisionAllow, nil, ""},
		"... although another can't be read": {authorizer.DecisionAllow, errors.New("role r not found"), ""},
		"none can be read": {authorizer.DecisionNoOpinion, errors.New("role r not found"),
			`error authorizing system:node:mine to request podcertificaterequests for signer "example.com/s": role r not found`},
		"none grants it": {authorizer.DecisionDeny, nil,
			`pod "ns/p" does not mount a podCertificate projected volume for signer "example.com/s"`},
	} {
		t.Run(name, func(t *testing.T) {
			var asked string
			s := setup{objects: []runtime.Object{podOn("mine"), account, nodeNamed("mine")}}
			s.authorizer = func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				asked = fmt.Sprintf("%s %s group %q version %s resource %s of %s/%s %t", a.GetUser().GetName(), a.GetVerb(),
					a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetNamespace(), a.GetName(), a.IsResourceRequest())
				return test.decision, "", test.err
			}
			object := podCertificateRequest(func(*certificatesv1beta1.PodCertificateRequestSpec) {})
			verdict(t, s.build(t).Admit(t, byMine(plugintest.Create(object))), "podcertificaterequests.certificates.k8s.io",
				"pcr", test.refused)
			want := `system:node:mine request-serviceaccounts-podcertificate-signer group "certificates.k8s.io" version ` +
				`v1beta1 resource example.com:s of ns/sa true`
			if asked != want {
				t.Errorf("got  %s\nwant %s", asked, want)
			}
		})
	}
}

// certifiedBy gives a pod a volume with a certificate of a signer.
func certifiedBy(signer string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{PodCertificate: &corev1.PodCertificateProjection{SignerName: signer}}}}}})
	}
}

// inV1 is the same request in the other version.
func inV1(r *certificatesv1beta1.PodCertificateRequest) *certificatesv1.PodCertificateRequest {
	s := &r.Spec
	return &certificatesv1.PodCertificateRequest{ObjectMeta: r.ObjectMeta,
		Spec: certificatesv1.PodCertificateRequestSpec{SignerName: s.SignerName, PodName: s.PodName, PodUID: s.PodUID,
			ServiceAccountName: s.ServiceAccountName, ServiceAccountUID: s.ServiceAccountUID, NodeName: s.NodeName,
			NodeUID: s.NodeUID}}
}

func podCertificateRequest(change func(
	*certificatesv1beta1.PodCertificateRequestSpec)) *certificatesv1beta1.PodCertificateRequest {
	r := &certificatesv1beta1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pcr"},
		Spec: certificatesv1beta1.PodCertificateRequestSpec{
			SignerName: "example.com/s", PodName: "p", PodUID: "p-uid", ServiceAccountName: "sa", ServiceAccountUID: "sa-uid",
			NodeName: types.NodeName("mine"), NodeUID: "mine-uid",
		},
	}
	change(&r.Spec)
	return r
}
