// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
)

// generated are names of pods of a Deployment.
var generated = regexp.MustCompile(`"(web)-[a-z0-9]+-[a-z0-9]{5}"`)

const shop = "kind: Namespace\napiVersion: v1\nmetadata: {name: shop}\n"

// deployment wants as many pods as it is told.
func deployment(name string, replicas int) string {
	return fmt.Sprintf(`
kind: Deployment
apiVersion: apps/v1
metadata: {name: %s, namespace: shop}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
`, name, replicas)
}

// Each case is one review of an input, on a server of its own.
func TestReview(t *testing.T) {
	quota := "kind: ResourceQuota\napiVersion: v1\nmetadata: {name: q, namespace: shop}\nspec: {hard: {pods: '3'}}\n"
	for name, test := range map[string]struct {
		state, input []string
		options      func(*review.Options)
		want         string
	}{
		"what comes first is taken first": {input: []string{
			"kind: ConfigMap\napiVersion: v1\nmetadata: {name: c, namespace: shop}\n", shop},
			want: `
admitted  Namespace shop    -:5
admitted  ConfigMap shop/c  -:1
note: -:5: Namespace shop is taken before -:1, which needs it
2 admitted, 0 refused, 0 failed
`},
		"pods that a quota of the state doesn't admit": {state: []string{shop, quota +
			"status: {hard: {pods: '3'}, used: {pods: '1'}}\n"},
			input: []string{deployment("web", 5)}, want: `
refused   Deployment shop/web  -:2
          2 of 5 pods would start, then: by ResourceQuota: pods "web-…" is forbidden: exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3
          to pass: Ask for less, delete what counts for the quota and isn't needed, or have its hard limit raised.
0 admitted, 1 refused, 0 failed
`},
		"what plugins set is told": {state: []string{shop,
			"kind: LimitRange\napiVersion: v1\nmetadata: {name: d, namespace: shop}\n" +
				"spec: {limits: [{type: Container, default: {memory: 512Mi}}]}\n",
			"kind: ResourceQuota\napiVersion: v1\nmetadata: {name: m, namespace: shop}\nspec: {hard: {limits.memory: 700Mi}}\n"},
			input: []string{deployment("web", 2),
				"kind: Pod\napiVersion: v1\nmetadata: {name: p, namespace: shop}\n" +
					"spec: {containers: [{name: c, image: i, resources: {requests: {memory: 1Gi}}}]}\n"}, want: `
refused   Deployment shop/web  -:2
          1 of 2 pods would start, then: by ResourceQuota: pods "web-…" is forbidden: exceeded quota: m, requested: limits.memory=512Mi, used: limits.memory=512Mi, limited: limits.memory=700Mi
          because: spec.containers[0].resources.limits.memory was set to 512Mi by LimitRanger: LimitRange d
          to pass: Ask for less, delete what counts for the quota and isn't needed, or have its hard limit raised.
refused   Pod shop/p           -:12
          Pod "p" is invalid: spec.containers[0].resources.requests: Invalid value: "1Gi": must be less than or equal to memory limit of 512Mi
          because: spec.containers[0].resources.limits.memory was set to 512Mi by LimitRanger: LimitRange d
          to pass: No plugin refused it, but what plugins made of it isn't a valid object. Send what they leave valid, or have what they set changed.
0 admitted, 2 refused, 0 failed
`},
		"the namespace is refused": {input: []string{
			"kind: Namespace\napiVersion: v1\nmetadata: {name: shop, labels: {pod-security.kubernetes.io/enforce: restrcted}}\n",
			"kind: ConfigMap\napiVersion: v1\nmetadata: {name: c, namespace: shop}\n"}, want: `
refused   Namespace shop    -:1
          by PodSecurity: Namespace "shop" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "restrcted": must be one of privileged, baseline, restricted
          to pass: Give the label pod-security.kubernetes.io/enforce one of the levels privileged, baseline and restricted, did you mean "restricted"?
refused   ConfigMap shop/c  -:5
          by NamespaceLifecycle: namespaces "shop" not found
          because: its Namespace at -:1 was refused
          to pass: Have its Namespace admitted first.
0 admitted, 2 refused, 0 failed
`},
		"no pods": {state: []string{shop, quota}, input: []string{deployment("web", 5)},
			options: func(o *review.Options) { o.Pods = false }, want: `
admitted  Deployment shop/web  -:2
1 admitted, 0 refused, 0 failed
`},
		"what is stored is updated": {state: []string{shop, deployment("web", 1)},
			input: []string{strings.Replace(deployment("web", 1), "app: web}}\n  template", "app: other}}\n  template",
				1)},
			want: `
refused   Deployment shop/web  -:2
          Deployment.apps "web" is invalid: [spec.template.metadata.labels: Invalid value: {"app":"web"}: ` +
				"`selector` does not match template `labels`" +
				`, spec.selector: Invalid value: {"matchLabels":{"app":"other"}}: field is immutable]
          to pass: No plugin refused it: what was changed can't be changed in an object that is there. Leave it as it ` +
				`is, or delete the object and create it anew.
0 admitted, 1 refused, 0 failed
`},
		"an update leaves what others have set, and removes what kubectl has noted": {state: []string{shop, `
kind: PersistentVolumeClaim
apiVersion: v1
metadata:
  name: c
  namespace: shop
  labels: {old: "yes"}
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"metadata":{"labels":{"old":"yes"}}}'}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
  storageClassName: fast
  volumeName: pv
`, `
kind: ValidatingAdmissionPolicy
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: labels}
spec:
  matchConstraints:
    resourceRules: [{operations: [UPDATE], apiGroups: [""], apiVersions: [v1], resources: [persistentvolumeclaims]}]
  validations:
  - expression: object.spec.volumeName == 'pv'
    message: the volume is gone
  - expression: has(object.metadata.labels)
    message: the labels are gone
---
kind: ValidatingAdmissionPolicyBinding
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: labels}
spec: {policyName: labels, validationActions: [Warn]}
`}, input: []string{`
kind: PersistentVolumeClaim
apiVersion: v1
metadata: {name: c, namespace: shop}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
  storageClassName: fast
`}, want: `
admitted  PersistentVolumeClaim shop/c  -:2
          warning: Validation failed for ValidatingAdmissionPolicy 'labels' with binding 'labels': the labels are gone
1 admitted, 0 refused, 0 failed
`},
		"custom resources, and kinds that nobody serves": {input: []string{
			"kind: Gate\napiVersion: example.com/v1\nmetadata: {name: g}\nspec: {open: 1}\n", `
kind: CustomResourceDefinition
apiVersion: apiextensions.k8s.io/v1
metadata: {name: gates.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: gates, kind: Gate}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {open: {type: boolean}}}}
`, "kind: Pood\napiVersion: v1\nmetadata: {name: p}\n"}, want: `
admitted  CustomResourceDefinition gates.example.com  -:7
refused   Gate default/g                              -:1
          Gate.example.com "g" is invalid: spec.open: Invalid value: "integer": spec.open in body must be of type boolean: "integer"
          to pass: No plugin refused it: what came of it isn't a valid object. Change the fields named.
failed    Pood p                                      -:23
          no matches for kind "Pood" in version "v1", did you mean "Pod"?
note: -:7: CustomResourceDefinition gates.example.com is taken before -:1, which needs it
1 admitted, 1 refused, 1 failed
`},
		"who may not": {input: []string{"kind: ConfigMap\napiVersion: v1\nmetadata: {name: c}\n"},
			options: func(o *review.Options) { o.As, o.Authorize = &user.DefaultInfo{Name: "eve"}, true }, want: `
refused   ConfigMap default/c  -:1
          configmaps is forbidden: User "eve" cannot create resource "configmaps" in API group "" in the namespace "default"
0 admitted, 1 refused, 0 failed
`},
		"deleted": {input: []string{shop, "kind: Namespace\napiVersion: v1\nmetadata: {name: default}\n"},
			state: []string{shop}, options: func(o *review.Options) { o.Operation = review.Delete }, want: `
admitted  Namespace shop     -:1
refused   Namespace default  -:5
          by NamespaceLifecycle: namespaces "default" is forbidden: this namespace may not be deleted
          to pass: Nobody can delete this namespace: the API server needs it.
1 admitted, 1 refused, 0 failed
`},
		"connected to": {state: []string{shop, "kind: Pod\napiVersion: v1\nmetadata: {name: p, namespace: shop}\n" +
			"spec: {hostPID: true, containers: [{name: c, image: i}]}\n"},
			input: []string{"kind: Pod\napiVersion: v1\nmetadata: {name: p, namespace: shop}\n"},
			options: func(o *review.Options) {
				o.Operation = review.Connect
				o.Config.Admission.Enable = []string{"DenyEscalatingExec"}
			}, want: `
refused   Pod shop/p  -:1
          by DenyEscalatingExec: pods "p" is forbidden: cannot exec into or attach to a container using host pid
0 admitted, 1 refused, 0 failed
`},
	} {
		t.Run(name, func(t *testing.T) {
			got := judged(t, test.state, test.input, test.options)
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// judged is a review as text, with generated names shortened.
func judged(t *testing.T, state, objects []string, change func(*review.Options)) string {
	t.Helper()
	read := func(texts []string) []input.Document {
		documents, errs := input.Read([]string{"-"}, strings.NewReader(strings.Join(texts, "---\n")))
		if errs != nil {
			t.Fatal(errs)
		}
		return documents
	}
	options := review.Options{Config: server.NewConfig(compiled.Plugins), State: read(state), Pods: true}
	if change != nil {
		change(&options)
	}
	r, err := review.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	done, err := r.Review(t.Context(), read(objects), nil)
	if err != nil {
		t.Fatal(err)
	}
	// What is written in a format for machines is what was judged.
	for _, format := range review.Formats {
		var out bytes.Buffer
		if err := (review.Print{Changes: true, Explain: true}).Write(&out, done, format); err != nil || out.Len() == 0 {
			t.Errorf("%s: %v", format, err)
		}
		var again review.Review
		if format == "json" && (json.Unmarshal(out.Bytes(), &again) != nil ||
			len(again.Results) != len(done.Results)) {
			t.Errorf("the JSON is %s", &out)
		}
	}
	var out bytes.Buffer
	if err := (review.Print{}).Write(&out, done, ""); err != nil {
		t.Fatal(err)
	}
	return generated.ReplaceAllString(out.String(), `"$1-…"`)
}
