// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// Audience returns the audience of tokens for the webhook that cc names: its URL, or
// https://NAME.NAMESPACE.svc:PORT/PATH for a service. It is empty if cc names neither.
//
// Source: k8s.io/kubernetes/pkg/registry/core/serviceaccount/storage/token.go#validateWebhookAudience 74791b3e
func Audience(cc admissionregistrationv1.WebhookClientConfig) string {
	ref := cc.Service
	if ref == nil {
		if cc.URL == nil {
			return ""
		}
		return *cc.URL
	}
	port, path := int32(443), "/"
	if ref.Port != nil {
		port = *ref.Port
	}
	if ref.Path != nil {
		path = "/" + strings.TrimPrefix(*ref.Path, "/")
	}
	return fmt.Sprintf("https://%s.%s.svc:%d%s", ref.Name, ref.Namespace, port, path)
}
