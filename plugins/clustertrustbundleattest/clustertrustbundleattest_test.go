// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package clustertrustbundleattest

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
	"gatehouse.dev/plugins/internal/signers/signerstest"
)

const signer = "abc.com/xyz"

func bundle(signer, content string, change ...func(*metav1.ObjectMeta)) runtime.Object {
	b := &certificatesv1beta1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec: certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: content}}
	for _, f := range change {
		f(&b.ObjectMeta)
	}
	return b
}

func alpha(signer, content string) runtime.Object {
	return &certificatesv1alpha1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec: certificatesv1alpha1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: content}}
}

func stable(signer, content string) runtime.Object {
	return &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: content}}
}

func owned(m *metav1.ObjectMeta) {
	m.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "p"}}
}
func finalized(m *metav1.ObjectMeta) {
	m.Finalizers, m.ManagedFields = []string{"example.com/f"}, []metav1.ManagedFieldsEntry{{Manager: "m"}}
}
func labeled(m *metav1.ObjectMeta) { m.Labels = map[string]string{"a": "b"} }

// Upstream: TestPluginValidate in plugin/pkg/admission/certificates/ctbattest/admission_test.go.
func TestAttest(t *testing.T) {
	const refused = `clustertrustbundles.certificates.k8s.io "b" is forbidden: user not permitted to attest for ` +
		`signerName "abc.com/xyz"`
	for name, test := range map[string]struct {
		verb, granted string
		request       plugintest.Request
		want          string
	}{
		"create, by the signer's name":   {"attest", signer, plugintest.Create(bundle(signer, "1")), ""},
		"create, by its domain":          {"attest", "abc.com/*", plugintest.Create(bundle(signer, "1")), ""},
		"create, of another signer":      {"attest", "abc.com/other", plugintest.Create(bundle(signer, "1")), refused},
		"create, by another verb":        {"sign", signer, plugintest.Create(bundle(signer, "1")), refused},
		"create, the authorizer fails":   {"", "", plugintest.Create(bundle(signer, "1")), refused},
		"create, in v1alpha1":            {"attest", "-", plugintest.Create(alpha(signer, "1")), refused},
		"create, in it, by right":        {"attest", signer, plugintest.Create(alpha(signer, "1")), ""},
		"create, in v1":                  {"attest", "-", plugintest.Create(stable(signer, "1")), refused},
		"create, in v1, by right":        {"attest", signer, plugintest.Create(stable(signer, "1")), ""},
		"create, of no signer":           {"attest", "-", plugintest.Create(bundle("", "1")), ""},
		"create, of none, other version": {"attest", "-", plugintest.Create(alpha("", "1")), ""},
		"update": {"attest", "-", plugintest.Update(bundle(signer, "2"), bundle(signer, "1")),
			refused},
		"update, by right": {"attest", signer, plugintest.Update(bundle(signer, "2"), bundle(signer, "1")),
			""},
		"update, of no signer":     {"attest", "-", plugintest.Update(bundle("", "2"), bundle("", "1")), ""},
		"update of nothing":        {"attest", "-", plugintest.Update(bundle(signer, "1"), bundle(signer, "1")), ""},
		"update of nothing, other": {"attest", "-", plugintest.Update(alpha(signer, "1"), alpha(signer, "1")), ""},
		"update, in the other": {"attest", "-", plugintest.Update(alpha(signer, "2"), alpha(signer, "1")),
			refused},
		"update of owner references": {"attest", "-", plugintest.Update(bundle(signer, "1", owned),
			bundle(signer, "1")), ""},
		"update of finalizers": {"attest", "-", plugintest.Update(bundle(signer, "1"),
			bundle(signer, "1", finalized)), ""},
		"update of labels": {"attest", "-", plugintest.Update(bundle(signer, "1", labeled),
			bundle(signer, "1")), refused},
		"update of both": {"attest", "-", plugintest.Update(bundle(signer, "2", owned), bundle(signer, "1")),
			refused},
	} {
		t.Run(name, func(t *testing.T) {
			result := signerstest.New(t, Descriptor, test.verb, test.granted).Validate(t, test.request)
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
	given := bundle(signer, "1")
	for name, other := range map[string]plugintest.Request{
		"delete": plugintest.Delete(given),
		"others": plugintest.Create(given).On("others", ""),
	} {
		if subject.Validate(t, other).Admitted(t).Handled {
			t.Errorf("%s is looked at", name)
		}
	}
	wrong := plugintest.Create(given)
	wrong.Object = &metav1.Status{}
	subject.Validate(t, wrong).Refused(t, 400,
		"ClusterTrustBundleAttest: the object of a request for clustertrustbundles is a *v1.Status")
}

func TestItNeedsAnAuthorizer(t *testing.T) {
	if _, err := Descriptor.New(nil, &plugin.Env{}); err == nil ||
		err.Error() != "ClusterTrustBundleAttest needs an authorizer" {
		t.Errorf("got %v", err)
	}
}
