// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// withCredential returns a user with the extra field that servers give every user by the credential: the ID of a
// service account's token, or the fingerprint of a client certificate. Its value is made of the user's name. A user who
// has extra fields is returned as is.
//
// Source: k8s.io/apiserver/pkg/authentication/request/x509/x509.go#CommonNameUserConversion 6864ddad
// Source: k8s.io/apiserver/pkg/authentication/serviceaccount/util.go#ServiceAccountInfo.UserInfo cad52e69
func withCredential(u user.Info) user.Info {
	if len(u.GetExtra()) > 0 {
		return u
	}
	id := fmt.Sprintf("X509SHA256=%x", sha256.Sum256([]byte(u.GetName())))
	if strings.HasPrefix(u.GetName(), serviceaccount.ServiceAccountUsernamePrefix) {
		id = "JTI=" + uuid.NewSHA1(uuid.NameSpaceOID, []byte(u.GetName())).String()
	}
	return &user.DefaultInfo{Name: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(),
		Extra: map[string][]string{user.CredentialIDKey: {id}}}
}
