// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package certificatesubjectrestriction

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

const signer = "kubernetes.io/kube-apiserver-client"

// asking is a certificate request for members of groups, in PEM.
func asking(t testing.TB, groups ...string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "jane", Organization: groups}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func request(signer string, content []byte) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer, Request: content}}
}

// Upstream: TestPlugin_Validate in
// plugin/pkg/admission/certificates/subjectrestriction/admission_test.go.
func TestSubjects(t *testing.T) {
	const (
		forbidden = `certificatesigningrequests.certificates.k8s.io "r" is forbidden: `
		masters   = forbidden + `use of kubernetes.io/kube-apiserver-client signer with system:masters group is not ` +
			`allowed`
		noPEM = forbidden + `failed to parse CSR: PEM block type must be CERTIFICATE REQUEST`
	)
	_, noRequest := x509.ParseCertificateRequest([]byte("no"))
	subject := plugintest.New(t, Descriptor, "")
	for name, test := range map[string]struct {
		signer  string
		content []byte
		want    string
	}{
		"no group":                 {signer, asking(t), ""},
		"another group":            {signer, asking(t, "system:admin"), ""},
		"the group":                {signer, asking(t, "system:masters"), masters},
		"the group beside another": {signer, asking(t, "a", "system:masters", "b"), masters},
		"the group in upper case":  {signer, asking(t, "SYSTEM:MASTERS"), ""},
		"for kubelets":             {"kubernetes.io/kube-apiserver-client-kubelet", asking(t, "system:masters"), ""},
		"another signer":           {"example.com/client", asking(t, "system:masters"), ""},
		"no PEM for another":       {"example.com/client", []byte("no"), ""},
		"nothing":                  {signer, nil, noPEM},
		"no PEM":                   {signer, []byte("this is not a CSR"), noPEM},
		"another PEM block":        {signer, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE"}), noPEM},
		"what is no request": {signer, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("no")}),
			forbidden + "failed to parse CSR: " + noRequest.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			result := subject.Validate(t, plugintest.Create(request(test.signer, test.content)))
			if test.want == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, test.want)
			}
		})
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	given := request(signer, asking(t, "system:masters"))
	for name, other := range map[string]plugintest.Request{
		"update":   plugintest.Update(given, given),
		"approval": plugintest.Create(given).On("certificatesigningrequests", "approval"),
		"delete":   plugintest.Delete(given),
		"others":   plugintest.Create(given).On("others", ""),
	} {
		if subject.Validate(t, other).Admitted(t).Handled {
			t.Errorf("%s is looked at", name)
		}
	}
	wrong := plugintest.Create(given)
	wrong.Object = &metav1.Status{}
	subject.Validate(t, wrong).Refused(t, 400,
		"CertificateSubjectRestriction: the object of a request for certificatesigningrequests is a *v1.Status")
}

func TestItTakesNoConfiguration(t *testing.T) {
	_, err := Descriptor.New(strings.NewReader("a: b"), &plugin.Env{})
	if err == nil || err.Error() != "CertificateSubjectRestriction takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}

// Whatever a request is made of, it is admitted only where it can be read and isn't for masters.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("no"))
	f.Add(asking(f, "a"))
	f.Add(asking(f, "system:masters"))
	subject := plugintest.New(f, Descriptor, "")
	f.Fuzz(func(t *testing.T, content []byte) {
		result := subject.Validate(t, plugintest.Create(request(signer, content)))
		asked, err := parse(content)
		if err == nil && strings.Contains(asked.Subject.String(), "system:masters") {
			return // in whatever part of the subject
		}
		if (result.Err == nil) != (err == nil) {
			t.Errorf("%q: %v, parsed: %v", content, result.Err, err)
		}
	})
}
