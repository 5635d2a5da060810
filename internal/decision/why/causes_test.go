// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
)

// A refusal about what a webhook added names the webhook, and one about what the user sent doesn't.
func TestCauses(t *testing.T) {
	const podSecurity = `pods "web" is forbidden: violates PodSecurity "restricted:latest": `
	const by = " by MutatingAdmissionWebhook: webhook sidecar.example.com"
	for name, test := range map[string]struct {
		path, value, message string
		want                 []string
	}{
		"a container": {"/spec/containers/1", `{"name":"sc","image":"sc"}`, podSecurity +
			`allowPrivilegeEscalation != false (container "sc" must set securityContext.` +
			"allowPrivilegeEscalation=false)",
			[]string{"spec.containers[1] (sc) was added" + by}},
		"one of several containers": {"/spec/containers/1", `{"name":"sc","image":"sc"}`, podSecurity +
			`unrestricted capabilities (containers "web", "sc" must set securityContext.capabilities.drop=["ALL"])`,
			[]string{"spec.containers[1] (sc) was added" + by}},
		"the only container": {"/spec/containers", `[{"name":"sc","image":"sc"}]`, podSecurity +
			`hostPort (container "sc" uses hostPort 80)`, []string{"spec.containers[0] (sc) was added" + by}},
		"an init container": {"/spec/initContainers/0", `{"name":"sc","image":"sc"}`, podSecurity +
			`privileged (container "sc" must not set securityContext.privileged=true)`,
			[]string{"spec.initContainers[0] (sc) was added" + by}},
		"a list of init containers": {"/spec/initContainers", `[{"name":"sc","image":"sc"}]`, podSecurity +
			`privileged (container "sc" must not set securityContext.privileged=true)`,
			[]string{"spec.initContainers[0] (sc) was added" + by}},
		"a volume": {"/spec/volumes/0", `{"name":"host","hostPath":{"path":"/"}}`, podSecurity +
			`hostPath volumes (volume "host")`, []string{"spec.volumes[0] (host) was added" + by}},
		"a restricted volume": {"/spec/volumes/0", `{"name":"host","hostPath":{"path":"/"}}`, podSecurity +
			`restricted volume types (volume "host" uses restricted volume type "hostPath")`,
			[]string{"spec.volumes[0] (host) was added" + by}},
		"hostNetwork": {"/spec/hostNetwork", `true`, podSecurity + `host namespaces (hostNetwork=true)`,
			[]string{"spec.hostNetwork was set to true" + by}},
		"hostPID in a template": {"/spec/template/spec/hostPID", `true`, podSecurity +
			`host namespaces (hostNetwork=true, hostPID=true)`,
			[]string{"spec.template.spec.hostPID was set to true" + by}},
		"a field of a container": {"/spec/containers/0/securityContext", `{"privileged":true}`, podSecurity +
			`privileged (container "web" must not set securityContext.privileged=true)`,
			[]string{"spec.containers[0].securityContext.privileged was set to true" + by}},
		"a field that has to be another": {"/spec/containers/0/securityContext", `{"runAsNonRoot":false}`, podSecurity +
			`runAsNonRoot != true (container "web" must not set securityContext.runAsNonRoot=false)`,
			[]string{"spec.containers[0].securityContext.runAsNonRoot was set to false" + by}},
		"another namespace": {"/metadata/namespace", `"other"`,
			"the namespace of the provided object does not match the namespace sent on the request",
			[]string{"metadata.namespace was set to other" + by}},

		"the user's container": {"/spec/containers/1", `{"name":"sc","image":"sc"}`, podSecurity +
			`privileged (container "web" must not set securityContext.privileged=true)`, nil},
		"a container of a volume's name": {"/spec/volumes/0", `{"name":"data","emptyDir":{}}`, podSecurity +
			`privileged (container "data" must not set securityContext.privileged=true)`, nil},
		"a volume of a container's name": {"/spec/containers/1", `{"name":"data","image":"sc"}`, podSecurity +
			`hostPath volumes (volume "data")`, nil},
		"a field as it has to be": {"/spec/containers/0/securityContext", `{"runAsNonRoot":true}`, podSecurity +
			`runAsNonRoot != true (pod or container "web" must set securityContext.runAsNonRoot=true)`, nil},
		"hostNetwork that was set to false": {"/spec/hostNetwork", `false`, podSecurity +
			`host namespaces (hostNetwork=true)`, nil},
		"a policy's words": {"/spec/containers/0/volumeMounts", `[{"name":"a","mountPath":"/a"}]`,
			"all spec.containers need a memory limit", nil},
		"a policy's words that name the field": {"/spec/serviceAccountName", `"default"`,
			"spec.serviceAccountName must not be the default",
			[]string{"spec.serviceAccountName was set to default" + by}},
	} {
		t.Run(name, func(t *testing.T) {
			d := changing(ofPlugin(metav1.StatusReasonForbidden, test.message), test.path, test.value)
			d.Steps = slices.DeleteFunc(d.Steps, func(s v1alpha1.Step) bool { return s.Plugin == "ServiceAccount" })
			var got []string
			for _, c := range Explain(d, nil).Causes {
				got = append(got, c.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s\n-want +got: %s", test.message, diff)
			}
		})
	}
}

// What is added to a reason is shown in whole words.
func TestBeyond(t *testing.T) {
	for _, test := range []struct{ message, why, want string }{
		{"failed: signed by unknown authority", "signed by unknown authority; its caBundle is empty",
			"its caBundle is empty"},
		{"failed: signed by unknown authority", "signed by unknown authority", ""},
		{"denied: no params found", "no params found: ConfigMap a", "ConfigMap a"},
		{"denied: no parameter", "no params found", "no params found"},
		{"something else", "no", "no"},
	} {
		if got := newWords(test.message, test.why); got != test.want {
			t.Errorf("%q beyond %q: got %q, want %q", test.why, test.message, got, test.want)
		}
	}
}
