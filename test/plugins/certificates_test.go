// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// request is the manifest of a request for a certificate for members of groups.
func request(t *testing.T, name, signer string, groups ...string) string {
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
	content := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return fmt.Sprintf(`{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: %s},
spec: {signerName: %s, usages: [client auth], request: %s}}`, name, signer,
		base64.StdEncoding.EncodeToString(content))
}

// grant lets a user do something with what isn't in a namespace.
func (u user) grant(name, verbs, group, resources, names string) {
	u.Helper()
	u.must(fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %s},
rules: [{verbs: [%s], apiGroups: [%s], resources: [%s], resourceNames: [%s]}]}`, name, verbs, group, resources, names))
	u.must(fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %s},
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s},
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]}`, name, name))
}

func TestCertificates(t *testing.T) {
	t.Parallel()
	u := admin(t, shared())
	jane := u.as(shared(), "jane")
	_, err := u.create(request(t, "r", "kubernetes.io/kube-apiserver-client", "system:masters"))
	u.want(err, `certificatesigningrequests.certificates.k8s.io "r" is forbidden: use of `+
		`kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed`)
	u.must(request(t, "other-group", "kubernetes.io/kube-apiserver-client", "a"))
	asked := u.must(request(t, "r", "example.com/client", "system:masters"))

	u.grant("writers", `patch`, "certificates.k8s.io",
		"certificatesigningrequests, certificatesigningrequests/approval, certificatesigningrequests/status", "")
	const approved = `status: {conditions: [{type: Approved, status: "True", reason: R}]}`
	approve := func() error { _, err := jane.patch(asked, approved, "approval"); return err }
	fail := func() error {
		now, err := u.of(asked).Get(t.Context(), asked.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(now.Object, "status", "conditions")
		conditions = append(conditions, map[string]any{"type": "Failed", "status": "True", "reason": "R"})
		change, err := yaml.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
		if err != nil {
			return err
		}
		_, err = jane.patch(asked, string(change), "status")
		return err
	}
	u.eventually(`user not permitted to approve requests with signerName "example.com/client"`, approve)
	_, err = jane.patch(asked, `status: {conditions: [{type: Denied, status: "True", reason: R}]}`, "approval")
	u.want(err, `user not permitted to approve requests with signerName "example.com/client"`)
	u.want(fail(), `user not permitted to sign requests with signerName "example.com/client"`)
	_, err = jane.patch(asked, `status: {certificate: "`+base64.StdEncoding.EncodeToString(shared().Config.CAData)+`"}`,
		"status")
	u.want(err, `user not permitted to sign requests with signerName "example.com/client"`)
	// What neither approves nor signs needs no such right.
	_, err = jane.patch(asked, `metadata: {labels: {l: "1"}}`)
	u.want(err, "")
	_, err = jane.patch(asked, `metadata: {annotations: {a: "1"}}`, "status")
	u.want(err, "")

	u.grant("approvers", "approve", "certificates.k8s.io", "signers", "example.com/*")
	u.eventually("", approve)
	u.want(fail(), `user not permitted to sign requests`)
	u.grant("signers", "sign", "certificates.k8s.io", "signers", "example.com/client")
	u.eventually("", fail)
	// The administrator may do everything.
	_, err = u.patch(u.must(request(t, "a", "example.com/other")), approved, "approval")
	u.want(err, "")
}
