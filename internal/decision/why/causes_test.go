// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision"
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
		"the part of a quota's sum": {"/spec/containers/1",
			`{"name":"sc","image":"sc","resources":{"limits":{"memory":"512Mi"}}}`, "exceeded quota: q, requested: " +
				"limits.memory=600Mi, used: limits.memory=0, limited: limits.memory=500Mi",
			[]string{"spec.containers[1] (sc) was added with resources.limits.memory 512Mi" + by}},
		"a limit that is a request, too": {"/spec/containers/1",
			`{"name":"sc","image":"sc","resources":{"limits":{"cpu":"2"}}}`, "exceeded quota: q, requested: " +
				"requests.cpu=3, used: requests.cpu=0, limited: requests.cpu=1",
			[]string{"spec.containers[1] (sc) was added with resources.limits.cpu 2" + by}},
		"a default that a quota counts": {"/spec/containers/0/resources", `{"limits":{"memory":"512Mi"}}`,
			"exceeded quota: q, requested: limits.memory=512Mi, used: limits.memory=512Mi, limited: limits.memory=700Mi",
			[]string{"spec.containers[0].resources.limits.memory was set to 512Mi" + by}},
		"overhead that a quota counts": {"/spec/overhead", `{"memory":"120Mi","cpu":"1"}`,
			"exceeded quota: q, requested: memory=220Mi, used: memory=0, limited: memory=200Mi",
			[]string{"spec.overhead.memory was set to 120Mi" + by}},
		"an extended resource": {"/spec/containers/0/resources/requests/example.com~1gpu", `"2"`,
			"exceeded quota: q, requested: requests.example.com/gpu=2, used: requests.example.com/gpu=0, limited: " +
				"requests.example.com/gpu=1",
			[]string{"spec.containers[0].resources.requests[example.com/gpu] was set to 2" + by}},
		"a container that doesn't state what a quota counts": {"/spec/containers/1", `{"name":"sc","image":"sc"}`,
			"failed quota: q: must specify limits.cpu for: sc,web; limits.memory for: sc",
			[]string{"spec.containers[1] (sc) was added" + by}},
		"a class that a quota is for": {"/spec/priorityClassName", `"high"`,
			"insufficient quota to match these scopes: [{PriorityClass In [high]}]",
			[]string{"spec.priorityClassName was set to high" + by}},
		"a Secret of a mirror pod": {"/spec/imagePullSecrets", `[{"name":"pull"}]`,
			`pods "web" is forbidden: a mirror pod may not reference secrets`,
			[]string{"spec.imagePullSecrets[0] (pull) was added" + by}},
		"a service account that isn't there": {"/spec/serviceAccountName", `"robot"`,
			`pods "web" is forbidden: error looking up service account shop/robot: serviceaccount "robot" not found`,
			[]string{"spec.serviceAccountName was set to robot" + by}},
		"a user that PodSecurity refuses": {"/spec/containers/0/securityContext", `{"runAsUser":0}`, podSecurity +
			`runAsUser=0 (container "web" must not set runAsUser=0)`,
			[]string{"spec.containers[0].securityContext.runAsUser was set to 0" + by}},
		"a toleration": {"/spec/tolerations", `[{"key":"a","operator":"Exists"}]`,
			`pods "web" is forbidden: pod tolerations (possibly merged with namespace default tolerations) conflict with ` +
				`its namespace whitelist: spec.tolerations[0]: Invalid value: {"key":"a","operator":"Exists"}: no toleration`,
			[]string{"spec.tolerations[0] was set to {key: a, operator: Exists}" + by}},
		"a LimitRange's maximum": {"/spec/containers/0/resources", `{"limits":{"memory":"2Gi"}}`,
			`pods "web" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi`,
			[]string{"spec.containers[0].resources.limits.memory was set to 2Gi" + by}},
		"the sum of a LimitRange": {"/spec/containers/1",
			`{"name":"sc","image":"sc","resources":{"requests":{"cpu":"2"}}}`,
			`pods "web" is forbidden: maximum cpu usage per Pod is 1, but request is 3`,
			[]string{"spec.containers[1] (sc) was added with resources.requests.cpu 2" + by}},
		"too large": {"/data", `"` + decision.LargeValue + `"`, "etcdserver: request is too large", nil},

		"another resource of the quota": {"/spec/containers/0/resources", `{"limits":{"cpu":"2"}}`,
			"exceeded quota: q, requested: limits.memory=512Mi, used: limits.memory=512Mi, limited: limits.memory=700Mi", nil},
		"another value than that of the message": {"/spec/containers/1",
			`{"name":"sc","image":"sc","resources":{"limits":{"memory":"10Mi"}}}`,
			`pods "web" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi`, nil},
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

// A refusal by a policy is about the changes that its expression reads, as far as the message names no others.
func TestCausesOfPolicies(t *testing.T) {
	const by = " by MutatingAdmissionWebhook: webhook sidecar.example.com, and the policy's expression reads it"
	for name, test := range map[string]struct {
		path, value, read, message string
		want                       string
	}{
		"an injected container": {"/spec/containers/1", `{"name":"sc","image":"sc"}`, "object.spec.containers[*].image",
			"not from here", "spec.containers[1] (sc) was added"},
		"the number of containers": {"/spec/containers/1", `{"name":"sc","image":"sc"}`, "object.spec.containers[]",
			"too many", "spec.containers[1] (sc) was added"},
		"a toleration": {"/spec/tolerations", `[{"key":"a"}]`, "object.spec.tolerations[*].key", "no",
			"spec.tolerations[0] was set to {key: a}"},
		"a label": {"/metadata/labels/example.com~1team", `"a"`, "object.metadata.labels[example.com/team]", "no",
			"metadata.labels[example.com/team] was set to a"},
		"all labels": {"/metadata/labels/team", `"a"`, "object.metadata.labels", "no", "metadata.labels.team was set to a"},

		"another field":             {"/spec/containers/0/volumeMounts", `[{"name":"a"}]`, "object.spec.containers[*].image", "no", ""},
		"a container isn't a count": {"/spec/containers/0/image", `"a"`, "object.spec.containers[]", "no", ""},
		"the old object":            {"/spec/replicas", `1`, "oldObject.spec.replicas", "no", ""},
		"the user":                  {"/spec/replicas", `1`, "request.userInfo.username", "no", ""},
		"a message about another container": {"/spec/containers/1", `{"name":"sc","image":"sc"}`,
			"object.spec.containers[*].image", `container "web" isn't from here`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := changing(ofPolicy(v1alpha1.Refused, test.message), test.path, test.value)
			d.Steps[2].Calls[0].Reads = []string{test.read}
			var got string
			for _, c := range Explain(d, nil).Causes {
				got += c.String()
			}
			want := test.want
			if want != "" {
				want += by
			}
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// A patch that was too large to keep stays: an object that is too large is so because of it.
func TestCauseThatIsTooLarge(t *testing.T) {
	d := changing(ofAPI(500, "", "etcdserver: request is too large"), "/data/big", `"`+decision.LargeValue+`"`)
	d.Steps[1].PatchCut, d.Steps[1].Calls[0].PatchCut = true, true
	const want = "data.big was changed by MutatingAdmissionWebhook: webhook sidecar.example.com"
	if got := Explain(d, nil).Causes; len(got) != 1 || got[0].String() != want {
		t.Errorf("got %v, want %s", got, want)
	}
	d.Steps[1].Patch, d.Steps[1].Calls[0].Patch = nil, nil // nothing of it could be kept
	if got := Explain(d, nil).Causes; len(got) != 1 || !strings.HasPrefix(got[0].String(), "the whole object was changed by ") {
		t.Errorf("got %v, want the whole object", got)
	}
}

// The conflict of an apply is about what a plugin set in an earlier request.
func TestCausesOfConflicts(t *testing.T) {
	const message = `Apply failed with 1 conflict: conflict with "kubectl-create" using v1 at 2026-05-01T11:00:00Z: ` +
		`.spec.containers[name="web"].image`
	conflict := requested("UPDATE", ofAPI(409, metav1.StatusReasonConflict, message))
	conflict.Verdict = v1alpha1.Refused
	created := changing(ofAPI(201, "", ""), "/spec/containers/0/image", `"mirror/web"`)
	created.Verdict = v1alpha1.Admitted
	entries, _ := Entries([]v1alpha1.Decision{*conflict, *created}, 0, nil)
	const want = "spec.containers[0].image was set to mirror/web in an earlier CREATE by MutatingAdmissionWebhook: webhook " +
		"sidecar.example.com"
	if got := entries[0].Causes; len(got) != 1 || got[0].String() != want {
		t.Errorf("got %v, want %s", got, want)
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
