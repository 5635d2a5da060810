// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

func TestAudience(t *testing.T) {
	service := func(port *int32, path *string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
			Namespace: "ns", Name: "svc", Port: port, Path: path}}
	}
	for want, cc := range map[string]admissionregistrationv1.WebhookClientConfig{
		"":                                  {},
		"https://EXAMPLE.com:443/a/":        {URL: new("https://EXAMPLE.com:443/a/")}, // as it is written
		"https://svc.ns.svc:443/":           service(nil, nil),
		"https://svc.ns.svc:8443/validate":  service(new(int32(8443)), new("/validate")),
		"https://svc.ns.svc:8443/validate/": service(new(int32(8443)), new("validate/")),
	} {
		if got := Audience(cc); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
