// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"gatehouse.dev/review"
)

// definitionOf returns a CustomResourceDefinition of group example.com, with more of its spec.
func definitionOf(plural, singular, kind, spec string) string {
	return fmt.Sprintf(`
kind: CustomResourceDefinition
apiVersion: apiextensions.k8s.io/v1
metadata: {name: %s.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: %[1]s, singular: %s, kind: %s}
%s
  versions:
  - {name: v1alpha1, served: true, storage: false, schema: &schema {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}
  - {name: v1beta1, served: true, storage: true, schema: *schema}
`, plural, singular, kind, spec)
}

// named returns an object without anything but a name.
func named(version, kind, name string) string {
	return fmt.Sprintf("kind: %s\napiVersion: %s\nmetadata: {name: %s}\n", kind, version, name)
}

// policy returns a policy about ConfigMaps, and its binding.
func policy(policySpec, bindingSpec string) string {
	return fmt.Sprintf(`
kind: ValidatingAdmissionPolicyBinding
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: p}
spec: {policyName: p, validationActions: [Deny]%s}
---
kind: ValidatingAdmissionPolicy
apiVersion: admissionregistration.k8s.io/v1
metadata: {name: p}
spec:
  matchConstraints:
    resourceRules: [{operations: [CREATE, UPDATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]
%s`, bindingSpec, policySpec)
}

// TestReviewOrder reviews objects in an order in which what decides comes last.
func TestReviewOrder(t *testing.T) {
	const first = ". A cluster that gets the objects in the order of the files decides about the earlier ones without them"
	limits := "kind: LimitRange\napiVersion: v1\nmetadata: {name: l, namespace: shop}\n" +
		"spec: {limits: [{type: Container, default: {memory: 1Gi}}]}\n"
	for name, test := range map[string]struct {
		input   []string
		options func(*review.Options)
		want    string
	}{
		"a quota by the LimitRange": {input: []string{deployment("web", 3),
			"kind: ResourceQuota\napiVersion: v1\nmetadata: {name: q, namespace: shop}\nspec: {hard: {limits.memory: 2Gi}}\n",
			limits, shop}, want: `
admitted  Namespace shop        -:22
admitted  ResourceQuota shop/q  -:12
admitted  LimitRange shop/l     -:17
refused   Deployment shop/web   -:2
          2 of 3 pods would start, then: by ResourceQuota: pods "web-…" is forbidden: exceeded quota: q, requested: limits.memory=1Gi, used: limits.memory=2Gi, limited: limits.memory=2Gi
          because: spec.containers[0].resources.limits.memory was set to 1Gi by LimitRanger: LimitRange l
          to pass: Ask for less, delete what counts for the quota and isn't needed, or have its hard limit raised.
note: -:22: Namespace shop is taken before -:2, which needs it
note: taken first, because they decide about others: ResourceQuota q (-:12), LimitRange l (-:17)` + first + `
3 admitted, 1 refused, 0 failed
`},
		"a policy, its binding and its params": {input: []string{named("v1", "ConfigMap", "c"),
			policy("  paramKind: {apiVersion: v1, kind: ConfigMap}\n  validations: [{expression: object.metadata.name in params.data}]\n",
				", paramRef: {name: names, namespace: default, parameterNotFoundAction: Deny}"),
			named("v1", "ConfigMap", "names") + "data: {d: here}\n", named("v1", "ConfigMap", "d")},
			want: `
admitted  ConfigMap default/names             -:20
admitted  ValidatingAdmissionPolicyBinding p  -:6
admitted  ValidatingAdmissionPolicy p         -:11
refused   ConfigMap default/c                 -:1
          by ValidatingAdmissionPolicy: configmaps "c" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: failed expression: object.metadata.name in params.data
          to pass: Change the object so that the policy's expression holds, or have its binding leave this object out.
admitted  ConfigMap default/d                 -:25
note: taken first, because they decide about others: ConfigMap names (-:20), ValidatingAdmissionPolicyBinding p (-:6), ValidatingAdmissionPolicy p (-:11)` + first + `
4 admitted, 1 refused, 0 failed
`},
		"as it is, if all is deleted": {input: []string{named("v1", "ConfigMap", "kube-root-ca.crt"), "---\n" + limits},
			options: func(o *review.Options) { o.Operation, o.Namespace = review.Delete, "shop" }, want: `
refused   ConfigMap shop/kube-root-ca.crt  -:1
          configmaps "kube-root-ca.crt" not found
          to pass: No plugin refused it: what it is about isn't there. Create that first.
refused   LimitRange shop/l                -:6
          limitranges "l" not found
          to pass: No plugin refused it: what it is about isn't there. Create that first.
0 admitted, 2 refused, 0 failed
`},
	} {
		t.Run(name, func(t *testing.T) {
			got := judged(t, nil, test.input, test.options)
			if diff := cmp.Diff(strings.TrimPrefix(test.want, "\n"), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestUnservedDefinitions reviews CustomResourceDefinitions that the server stores and doesn't serve, and objects of their
// kinds.
func TestUnservedDefinitions(t *testing.T) {
	badCA := definitionOf("widgets", "widget", "Widget", "  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], "+
		"clientConfig: {caBundle: Cg==, url: 'https://127.0.0.1:1'}}}")
	const invalid = "widgets.example.com is not served: InvalidCABundle: The conversion webhook CABundle is invalid"
	got := judged(t, nil, []string{badCA, named("example.com/v1beta1", "Widget", "w"),
		definitionOf("gates", "gate", "Gate", ""), definitionOf("doors", "gate", "Door", ""), named("example.com/v1beta1", "Gate", "g"),
		named("example.com/v1beta1", "Door", "d"),
		definitionOf("portals", "portal", "Gate", "")}, nil)
	const taken = `doors.example.com is not served: SingularConflict: "gate" is already in use`
	for _, want := range []string{"it is stored, but " + invalid,
		`no matches for kind "Widget" in version "example.com/v1beta1": its CustomResourceDefinition ` + invalid,
		"it is stored, but " + taken, "its CustomResourceDefinition " + taken, "admitted  Gate default/g",
		"it is stored, but portals.example.com is not served: ", "2 admitted, 5 refused, 0 failed"} {
		if !strings.Contains(got, want) {
			t.Errorf("it doesn't say %q:\n%s", want, got)
		}
	}
	got = judged(t, []string{badCA}, []string{named("example.com/v1beta1", "Widget", "w")}, nil)
	if !strings.Contains(got, "note: state: CustomResourceDefinition "+invalid) || !strings.Contains(got, "0 admitted, 1 refused") {
		t.Errorf("with the definition in the state:\n%s", got)
	}
}

// TestMessagesNameFields reviews mistakes whose messages name the field or the kind, and what was likely meant.
func TestMessagesNameFields(t *testing.T) {
	pod := func(resources string) string {
		return named("v1", "Pod", "p") + "spec: {containers: [{name: c, image: i, resources: " + resources + "}]}\n"
	}
	got := judged(t, nil, []string{
		pod("{requests: {cpu: 100mm}}"), strings.Replace(pod("{limits: {memory: 1gb}}"), "name: p", "name: p2", 1),
		named("v1", "ResourceQuota", "q") + "spec: {hard: {cpu: 5x}}\n",
		named("apps/v1", "deployment", "d"), named("v1", "deployment", "d2"),
		definitionOf("gates", "gate", "Gate", ""), named("example.com/v1", "Gate", "g"),
		named("example.com/v1beta1", "Gate", "g2") + "spec: {siz: 1}\n",
	}, nil)
	for _, want := range []string{
		`cannot be handled as a Pod: spec.containers[0].resources.requests.cpu: "100mm": unable to parse quantity's suffix, did you mean "100m"?`,
		`spec.containers[0].resources.limits.memory: "1gb": quantities must match the regular expression`, `did you mean "1G"?`,
		`spec.hard.cpu: "5x": `,
		`no matches for kind "deployment" in version "apps/v1", did you mean "Deployment"?`,
		`no matches for kind "deployment" in version "v1", did you mean "Deployment" of apps/v1?`,
		`no matches for kind "Gate" in version "example.com/v1", did you mean example.com/v1beta1?`,
		`unknown field "spec.siz"`, `(spec.siz: did you mean "size"?)`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it doesn't say %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "in scheme") {
		t.Errorf("it names a scheme:\n%s", got)
	}
}

// TestRequestsAreLikeKubectls reviews an object by a policy that tells what the request has.
func TestRequestsAreLikeKubectls(t *testing.T) {
	tells := policy("  validations:\n  - expression: 'false'\n    messageExpression: request.options.fieldManager + ' by ' + "+
		"request.userInfo.extra['authentication.kubernetes.io/credential-id'][0].split('=')[0]\n", "")
	for name, test := range map[string]struct {
		options func(*review.Options)
		want    string
	}{
		"kubectl apply":               {nil, "kubectl-client-side-apply by X509SHA256"},
		"kubectl apply --server-side": {func(o *review.Options) { o.Operation = review.Apply }, "kubectl by X509SHA256"},
		"kubectl create of a service account": {func(o *review.Options) {
			o.Operation, o.As = review.Create, serviceaccount.UserInfo("ci", "deployer", "")
		}, "kubectl-create by JTI"},
	} {
		t.Run(name, func(t *testing.T) {
			got := judged(t, nil, []string{named("v1", "ConfigMap", "c"), tells}, test.options)
			if !strings.Contains(got, "denied request: "+test.want+"\n") {
				t.Errorf("it doesn't say %q:\n%s", test.want, got)
			}
		})
	}
}
