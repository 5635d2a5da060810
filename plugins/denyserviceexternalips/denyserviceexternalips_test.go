// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package denyserviceexternalips

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

func service(ips string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"},
		Spec: corev1.ServiceSpec{ExternalIPs: strings.Fields(ips)}}
}

const denied = `services "s" is forbidden: Use of external IPs is denied by admission control`

// Upstream: TestAdmission in plugin/pkg/admission/network/denyserviceexternalips/admission_test.go.
func TestExternalIPs(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	for name, test := range map[string]struct {
		request plugintest.Request
		want    string
	}{
		"created without":         {plugintest.Create(service("")), ""},
		"created with one":        {plugintest.Create(service("1.1.1.1")), denied},
		"the same":                {plugintest.Update(service("1.1.1.1 2.2.2.2"), service("1.1.1.1 2.2.2.2")), ""},
		"in another order":        {plugintest.Update(service("2.2.2.2 1.1.1.1"), service("1.1.1.1 2.2.2.2")), ""},
		"one changed":             {plugintest.Update(service("1.1.1.1 3.3.3.3"), service("1.1.1.1 2.2.2.2")), denied},
		"one more":                {plugintest.Update(service("1.1.1.1 2.2.2.2"), service("1.1.1.1")), denied},
		"the first":               {plugintest.Update(service("1.1.1.1"), service("")), denied},
		"the last is gone":        {plugintest.Update(service("1.1.1.1"), service("1.1.1.1 2.2.2.2")), ""},
		"the first is gone":       {plugintest.Update(service("2.2.2.2"), service("1.1.1.1 2.2.2.2")), ""},
		"all are gone":            {plugintest.Update(service(""), service("1.1.1.1 2.2.2.2")), ""},
		"the same twice":          {plugintest.Update(service("1.1.1.1 1.1.1.1"), service("1.1.1.1")), ""},
		"the same, spelled anew":  {plugintest.Update(service("::0001"), service("::1")), denied},
		"created by an update":    {plugintest.Update(service("1.1.1.1"), nil), denied},
		"none created by updates": {plugintest.Update(service(""), nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if test.request.OldObject == (*corev1.Service)(nil) {
				test.request.OldObject = nil
			}
			result := subject.Validate(t, test.request)
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
	given := service("1.1.1.1")
	for name, other := range map[string]plugintest.Request{
		"status": plugintest.Update(given, service("")).On("services", "status"),
		"delete": plugintest.Delete(given),
		"others": plugintest.Create(given).On("others", ""),
	} {
		if subject.Validate(t, other).Admitted(t).Handled {
			t.Errorf("%s is looked at", name)
		}
	}
	const noService = "DenyServiceExternalIPs: the object of a request for services is a *v1.Pod"
	subject.Validate(t, plugintest.Create(&corev1.Pod{}).On("services", "")).Refused(t, 400, noService)
	subject.Validate(t, plugintest.Update(given, &corev1.Pod{})).Refused(t, 400, noService)
}

func TestItIsOffAndTakesNoConfiguration(t *testing.T) {
	if Descriptor.Default {
		t.Error("it is on by default")
	}
	_, err := Descriptor.New(strings.NewReader("a: b"), &plugin.Env{})
	if err == nil || err.Error() != "DenyServiceExternalIPs takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}
