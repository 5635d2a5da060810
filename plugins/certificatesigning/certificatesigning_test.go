// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package certificatesigning

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/plugins/internal/signers/signerstest"
)

func request(signer string, certificate []byte, conditions ...string) *certificatesv1.CertificateSigningRequest {
	r := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec:   certificatesv1.CertificateSigningRequestSpec{SignerName: signer},
		Status: certificatesv1.CertificateSigningRequestStatus{Certificate: certificate}}
	for _, condition := range conditions {
		r.Status.Conditions = append(r.Status.Conditions,
			certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.RequestConditionType(condition)})
	}
	return r
}

func status(object, old *certificatesv1.CertificateSigningRequest) plugintest.Request {
	return plugintest.Update(object, old).On("certificatesigningrequests", "status")
}

// Upstream: TestPlugin_Validate in plugin/pkg/admission/certificates/signing/admission_test.go.
func TestSigning(t *testing.T) {
	const signer = "abc.com/xyz"
	const refused = `certificatesigningrequests.certificates.k8s.io "r" is forbidden: user not permitted to sign ` +
		`requests with signerName "abc.com/xyz"`
	issued, approved := request(signer, []byte("data")), request(signer, nil, "Approved")
	for name, test := range map[string]struct {
		verb, granted string
		object, old   *certificatesv1.CertificateSigningRequest
		want          string
	}{
		"by the signer's name":  {"sign", signer, issued, request(signer, nil), ""},
		"by its domain":         {"sign", "abc.com/*", issued, request(signer, nil), ""},
		"another signer":        {"sign", "abc.com/other", issued, request(signer, nil), refused},
		"another verb":          {"approve", signer, issued, request(signer, nil), refused},
		"the authorizer fails":  {"", "", issued, request(signer, nil), refused},
		"a condition":           {"sign", "-", request(signer, nil, "Failed"), request(signer, nil), refused},
		"another condition":     {"sign", "-", request(signer, nil, "Approved", "Failed"), approved, refused},
		"no condition any more": {"sign", "-", request(signer, nil), approved, refused},
		"a certificate is gone": {"sign", "-", request(signer, nil), issued, refused},
		"an empty certificate":  {"sign", "-", request(signer, []byte{}), request(signer, nil), refused},
		"nothing changes":       {"sign", "-", issued, issued, ""},
		"no conditions, an empty list": {"sign", "-", &certificatesv1.CertificateSigningRequest{
			Status: certificatesv1.CertificateSigningRequestStatus{
				Conditions: []certificatesv1.CertificateSigningRequestCondition{}}}, request("", nil), ""},
		"the update's signer isn't asked for": {"sign", "allowed.com/xyz", request("allowed.com/xyz", []byte("data")),
			request(signer, nil), refused},
	} {
		t.Run(name, func(t *testing.T) {
			result := signerstest.New(t, Descriptor, test.verb, test.granted).Validate(t,
				status(test.object, test.old))
			if test.want == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, test.want)
			}
		})
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := signerstest.New(t, Descriptor, "", "")
	given, old := request("abc.com/xyz", []byte("data")), request("abc.com/xyz", nil)
	for name, other := range map[string]plugintest.Request{
		"create":   plugintest.Create(given),
		"update":   plugintest.Update(given, old),
		"approval": plugintest.Update(given, old).On("certificatesigningrequests", "approval"),
		"delete":   plugintest.Delete(given),
		"others":   plugintest.Update(given, old).On("others", "status"),
	} {
		if subject.Validate(t, other).Admitted(t).Handled {
			t.Errorf("%s is looked at", name)
		}
	}
	const noRequest = "CertificateSigning: the object of a request for certificatesigningrequests is a *v1.Status"
	wrong := status(given, old)
	wrong.Object = &metav1.Status{}
	subject.Validate(t, wrong).Refused(t, 400, noRequest)
	wrong.Object, wrong.OldObject = given, &metav1.Status{}
	subject.Validate(t, wrong).Refused(t, 400, noRequest)
}

func TestItNeedsAnAuthorizer(t *testing.T) {
	if _, err := Descriptor.New(nil, &plugin.Env{}); err == nil ||
		err.Error() != "CertificateSigning needs an authorizer" {
		t.Errorf("got %v", err)
	}
}
