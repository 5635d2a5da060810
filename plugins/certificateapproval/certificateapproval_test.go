// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package certificateapproval

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/plugins/internal/signers/signerstest"
)

func request(signer string) *certificatesv1.CertificateSigningRequest {
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: signer}}
}

func approval(object, old *certificatesv1.CertificateSigningRequest) plugintest.Request {
	return plugintest.Update(object, old).On("certificatesigningrequests", "approval")
}

// Upstream: TestPlugin_Validate in plugin/pkg/admission/certificates/approval/admission_test.go.
func TestApproval(t *testing.T) {
	const refused = `certificatesigningrequests.certificates.k8s.io "r" is forbidden: user not permitted to approve ` +
		`requests with signerName "abc.com/xyz"`
	for name, test := range map[string]struct{ verb, granted, signer, want string }{
		"by the signer's name":                {"approve", "abc.com/xyz", "abc.com/xyz", ""},
		"by its domain":                       {"approve", "abc.com/*", "abc.com/xyz", ""},
		"another signer":                      {"approve", "abc.com/other", "abc.com/xyz", refused},
		"another verb":                        {"sign", "abc.com/xyz", "abc.com/xyz", refused},
		"the authorizer fails":                {"", "", "abc.com/xyz", refused},
		"the update's signer isn't asked for": {"approve", "allowed.com/xyz", "allowed.com/xyz", refused},
	} {
		t.Run(name, func(t *testing.T) {
			subject := signerstest.New(t, Descriptor, test.verb, test.granted)
			result := subject.Validate(t, approval(request(test.signer), request("abc.com/xyz")))
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
	given := request("abc.com/xyz")
	for name, other := range map[string]plugintest.Request{
		"create": plugintest.Create(given),
		"update": plugintest.Update(given, given),
		"status": plugintest.Update(given, given).On("certificatesigningrequests", "status"),
		"delete": plugintest.Delete(given),
		"others": plugintest.Update(given, given).On("others", "approval"),
	} {
		if subject.Validate(t, other).Admitted(t).Handled {
			t.Errorf("%s is looked at", name)
		}
	}
	wrong := approval(given, given)
	wrong.OldObject = &metav1.Status{}
	subject.Validate(t, wrong).Refused(t, 400,
		"CertificateApproval: the object of a request for certificatesigningrequests is a *v1.Status")
}

func TestItNeedsAnAuthorizer(t *testing.T) {
	if _, err := Descriptor.New(nil, &plugin.Env{}); err == nil ||
		err.Error() != "CertificateApproval needs an authorizer" {
		t.Errorf("got %v", err)
	}
}
