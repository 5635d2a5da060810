package denyserviceexternalips

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/chain"
	"gatehouse.dev/chain/chaintest"
)

func service(ips string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"},
		Spec: corev1.ServiceSpec{ExternalIPs: strings.Fields(ips)}}
}

const denied = `services "s" is forbidden: Use of external IPs is denied by admission control`

// Upstream: TestAdmission in plugin/pkg/admission/network/denyserviceexternalips/admission_test.go.
func TestExternalIPs(t *testing.T) {
	plugin := chaintest.New(t, Descriptor, "")
	for name, test := range map[string]struct {
		request chaintest.Request
		want    string
	}{
		"created without":         {chaintest.Create(service("")), ""},
		"created with one":        {chaintest.Create(service("1.1.1.1")), denied},
		"the same":                {chaintest.Update(service("1.1.1.1 2.2.2.2"), service("1.1.1.1 2.2.2.2")), ""},
		"in another order":        {chaintest.Update(service("2.2.2.2 1.1.1.1"), service("1.1.1.1 2.2.2.2")), ""},
		"one changed":             {chaintest.Update(service("1.1.1.1 3.3.3.3"), service("1.1.1.1 2.2.2.2")), denied},
		"one more":                {chaintest.Update(service("1.1.1.1 2.2.2.2"), service("1.1.1.1")), denied},
		"the first":               {chaintest.Update(service("1.1.1.1"), service("")), denied},
		"the last is gone":        {chaintest.Update(service("1.1.1.1"), service("1.1.1.1 2.2.2.2")), ""},
		"the first is gone":       {chaintest.Update(service("2.2.2.2"), service("1.1.1.1 2.2.2.2")), ""},
		"all are gone":            {chaintest.Update(service(""), service("1.1.1.1 2.2.2.2")), ""},
		"the same twice":          {chaintest.Update(service("1.1.1.1 1.1.1.1"), service("1.1.1.1")), ""},
		"the same, spelled anew":  {chaintest.Update(service("::0001"), service("::1")), denied},
		"created by an update":    {chaintest.Update(service("1.1.1.1"), nil), denied},
		"none created by updates": {chaintest.Update(service(""), nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if test.request.OldObject == (*corev1.Service)(nil) {
				test.request.OldObject = nil
			}
			result := plugin.Validate(t, test.request)
			if test.want == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, test.want)
			}
		})
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	plugin := chaintest.New(t, Descriptor, "")
	given := service("1.1.1.1")
	for name, other := range map[string]chaintest.Request{
		"status": chaintest.Update(given, service("")).On("services", "status"),
		"delete": chaintest.Delete(given),
		"others": chaintest.Create(given).On("others", ""),
	} {
		if plugin.Validate(t, other).Admitted(t).Handled {
			t.Errorf("%s is looked at", name)
		}
	}
	const noService = "DenyServiceExternalIPs: the object of a request for services is a *v1.Pod"
	plugin.Validate(t, chaintest.Create(&corev1.Pod{}).On("services", "")).Refused(t, 400, noService)
	plugin.Validate(t, chaintest.Update(given, &corev1.Pod{})).Refused(t, 400, noService)
}

func TestItIsOffAndTakesNoConfiguration(t *testing.T) {
	if Descriptor.Default {
		t.Error("it is on by default")
	}
	_, err := Descriptor.New(strings.NewReader("a: b"), &chain.Env{})
	if err == nil || err.Error() != "DenyServiceExternalIPs takes no configuration, but is given one" {
		t.Errorf("got %v", err)
	}
}
