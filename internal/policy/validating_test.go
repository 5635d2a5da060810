// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/plugin/plugintest"
)

const noLatest = `validations: [{expression: "object.spec.containers.all(c, !c.image.endsWith(':latest'))"}]`

// denied is the message of a refusal of the pod web by the policy p.
func denied(message string) string {
	return `pods "web" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request: ` + message
}

// Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator_test.go#TestValidate 99116cd6
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/validatingadmissionpolicy_test.go#Test_ValidateNamespace_NoParams_Failures 903b0613
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/validatingadmissionpolicy_test.go#Test_ValidateAnnotationsAndWarnings 4e10f237
func TestValidation(t *testing.T) {
	web := plugintest.Create(pod("web", "a:1")).By("alice")
	for _, test := range []struct {
		name   string
		policy string
		// binding, where not empty, is what the binding says besides.
		binding string
		request plugintest.Request
		// code and message are those of the refusal; 0 is none.
		code        int
		message     string
		warnings    []string
		annotations map[string]string
	}{
		{name: "holds", policy: `validations: [{expression: "true"}]`},
		{name: "default message", policy: `validations: [{expression: " false "}]`, code: 422,
			message: denied("failed expression: false")},
		{name: "message", policy: `validations: [{expression: "false", message: " not today "}]`, code: 422,
			message: denied("not today")},
		{name: "messageExpression", code: 422, message: denied("no web"),
			policy: `validations: [{expression: "false", message: m, messageExpression: "'no ' + ` +
				`object.metadata.name"}]`},
		{name: "messageExpression that fails", code: 422, message: denied("m"),
			policy: `validations: [{expression: "false", message: m, messageExpression: "string(object.nope)"}]`},
		{name: "messageExpression that doesn't compile", code: 422, message: denied("m"),
			policy: `validations: [{expression: "false", message: m, messageExpression: "nope"}]`},
		{name: "messageExpression of several lines", code: 422, message: denied("m"),
			policy: `validations: [{expression: "false", message: m, messageExpression: "'a\\nb'"}]`},
		{name: "messageExpression of one line", code: 422, message: denied("a"),
			policy: `validations: [{expression: "false", message: m, messageExpression: "'a\\n'"}]`},
		{name: "messageExpression that is too long", code: 422, message: denied("failed expression: false"),
			policy: `validations: [{expression: "false", messageExpression: "'` + strings.Repeat("x", 5*1024+1) +
				`'"}]`},
		{name: "messageExpression that isn't", code: 422, message: denied(strings.Repeat("x", 5*1024)),
			policy: `validations: [{expression: "false", messageExpression: "'` + strings.Repeat("x", 5*1024) + `'"}]`},
		{name: "messageExpression that is empty", code: 422, message: denied("m"),
			policy: `validations: [{expression: "false", message: m, messageExpression: "' '"}]`},
		{name: "no authorizer in messages", code: 422, message: denied("m"),
			policy: `validations: [{expression: "false", message: m, messageExpression: ` +
				`"string(authorizer.path('/x').` +
				`check('get').allowed())"}]`},
		{name: "reason Forbidden", policy: `validations: [{expression: "false", reason: Forbidden}]`, code: 403,
			message: denied("failed expression: false")},
		{name: "reason Unauthorized", policy: `validations: [{expression: "false", reason: Unauthorized}]`, code: 401,
			message: denied("failed expression: false")},
		{name: "reason RequestEntityTooLarge",
			policy: `validations: [{expression: "false", reason: RequestEntityTooLarge}]`,
			code:   413, message: denied("failed expression: false")},
		{name: "every violation is told, and the first decides", code: 403,
			policy: `validations: [{expression: "true", message: a}, {expression: "false", message: b, reason: ` +
				`Forbidden}, ` +
				`{expression: "false", message: c}, {expression: "object.nope"}]`,
			message: denied("b\nValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request: c\n" +
				"ValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request: compilation error: must " +
				"evaluate to bool but got dyn")},
		{name: "error", policy: `validations: [{expression: "object.nope == 1"}]`, code: 422,
			message: denied("expression 'object.nope == 1' resulted in error: no such key: nope")},
		{name: "error ignored", policy: `{failurePolicy: Ignore, validations: [{expression: "object.nope == 1"}]}`},
		{name: "violation isn't ignored", policy: `{failurePolicy: Ignore, validations: [{expression: "false"}]}`,
			code:    422,
			message: denied("failed expression: false")},
		{name: "variables",
			policy: `{variables: [{name: images, expression: "object.spec.containers.map(c, c.image)"}, ` +
				`{name: count, expression: "size(variables.images)"}], validations: [{expression: "variables.count ` +
				`> 1", ` +
				`messageExpression: "'only ' + string(variables.count)"}]}`, code: 422, message: denied("only 1")},
		{name: "request",
			policy: `validations: [{expression: "request.userInfo.username == 'alice' && request.operation == ` +
				`'CREATE' && request.resource.resource == 'pods' && request.kind.kind == 'Pod' && request.namespace ` +
				`== ` +
				`'shop' ` +
				`&& !request.dryRun && request.options.kind == 'CreateOptions'"}]`,
			request: func() plugintest.Request {
				r := web
				r.Options = &metav1.CreateOptions{TypeMeta: metav1.TypeMeta{Kind: "CreateOptions",
					APIVersion: "meta.k8s.io/v1"}}
				return r
			}()},
		{name: "authorizer", policy: `validations: [{expression: "authorizer.requestResource.check('x').allowed()"}]`},
		{name: "authorizer says no",
			policy:  `validations: [{expression: "authorizer.requestResource.check('x').allowed()"}]`,
			request: web.By("bob"), code: 422,
			message: denied("failed expression: authorizer.requestResource.check('x').allowed()")},
		{name: "namespaceObject",
			policy: `validations: [{expression: "namespaceObject.metadata.labels.open == 'true' && ` +
				`namespaceObject.metadata.name == 'shop'"}]`},
		{name: "no namespaceObject in conditions",
			policy: `{matchConditions: [{name: x, expression: "namespaceObject != null"}], validations: ` +
				`[{expression: "false"}]}`},
		{name: "no namespaceObject of a Namespace",
			policy: `{matchConstraints: {namespaceSelector: {}, objectSelector: {}, resourceRules: [{operations: ` +
				`["*"], ` +
				`apiGroups: [""], apiVersions: ["*"], resources: [namespaces], scope: "*"}]}, ` +
				`validations: [{expression: "namespaceObject == null"}]}`,
			request: plugintest.Create(namespace("new"))},
		{name: "old object",
			policy:  `validations: [{expression: "object == null && oldObject.metadata.name == 'web'"}]`,
			request: plugintest.Delete(pod("web"))},
		{name: "update", policy: `validations: [{expression: "object.spec.nodeName == oldObject.spec.nodeName"}]`,
			request: plugintest.Update(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
				Spec: corev1.PodSpec{NodeName: "n"}}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
				Name: "web"}, Spec: corev1.PodSpec{NodeName: "m"}}), code: 422,
			message: denied("failed expression: object.spec.nodeName == oldObject.spec.nodeName")},
		{name: "connect", policy: `{matchConstraints: {namespaceSelector: {}, objectSelector: {}, resourceRules: ` +
			`[{operations: [CONNECT], apiGroups: [""], apiVersions: ["*"], resources: [pods/exec], scope: "*"}]}, ` +
			`validations: [{expression: "object.command != ['sh']"}]}`,
			request: plugintest.Connect(pod("web"), "exec", &corev1.PodExecOptions{Command: []string{"sh"}}), code: 422,
			message: denied("failed expression: object.command != ['sh']")},

		{name: "condition holds",
			policy: `{matchConditions: [{name: x, expression: "object.metadata.name == 'web'"}], validations: ` +
				`[{expression: ` +
				`"false"}]}`, code: 422, message: denied("failed expression: false")},
		{name: "condition doesn't",
			policy: `{matchConditions: [{name: x, expression: "object.metadata.name != 'web'"}], validations: ` +
				`[{expression: ` +
				`"false"}]}`},
		{name: "condition of variables",
			policy: `{variables: [{name: its, expression: "object.metadata.name"}], matchConditions: [{name: x, ` +
				`expression: ` +
				`"variables.its != 'web'"}], validations: [{expression: "false"}]}`},
		{name: "condition in error",
			policy: `{matchConditions: [{name: x, expression: "object.nope == 1"}, {name: "y", expression: "1 / 0 ` +
				`== 1"}], ` +
				`validations: [{expression: "true"}]}`, code: 422,
			message: denied("[expression 'object.nope == 1' resulted " +
				"in error: no such key: nope, expression '1 / 0 == 1' resulted in error: division by zero]")},
		{name: "condition in error is ignored",
			policy: `{failurePolicy: Ignore, matchConditions: [{name: x, expression: "object.nope == 1"}], ` +
				`validations: ` +
				`[{expression: "false"}]}`},

		{name: "warn", policy: `validations: [{expression: "false", message: a}, {expression: "false", message: b}]`,
			binding: `validationActions: [Warn]`,
			warnings: []string{"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p-binding': a",
				"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p-binding': b"}},
		{name: "audit",
			policy:  `validations: [{expression: "true"}, {expression: "false", message: a}, {expression: "false"}]`,
			binding: `validationActions: [Audit]`, annotations: map[string]string{
				"validation.policy.admission.k8s.io/validation_failure": `[{"message":"a","policy":"p",` +
					`"binding":"p-binding",` +
					`"expressionIndex":1,"validationActions":["Audit"]},{"message":"failed expression: ` +
					`false","policy":"p",` +
					`"binding":"p-binding","expressionIndex":2,"validationActions":["Audit"]}]`}},
		{name: "all actions", policy: `validations: [{expression: "false", message: a}]`,
			binding: `validationActions: [Deny, Audit]`, code: 422, message: denied("a"),
			annotations: map[string]string{
				"validation.policy.admission.k8s.io/validation_failure": `[{"message":"a","policy":"p",` +
					`"binding":"p-binding",` +
					`"expressionIndex":0,"validationActions":["Deny","Audit"]}]`}},
		{name: "an error is warned of", policy: `validations: [{expression: "object.nope == 1"}]`,
			binding: `validationActions: [Warn]`,
			warnings: []string{"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p-binding': " +
				"expression " +
				"'object.nope == 1' resulted in error: no such key: nope"}},

		{name: "audit annotations",
			policy: `auditAnnotations: [{key: name, valueExpression: "' ' + object.metadata.name"}, ` +
				`{key: none, valueExpression: "null"}, {key: empty, valueExpression: "' '"}, {key: long, ` +
				`valueExpression: ` +
				`"[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15].map(x, '` + strings.Repeat("y", 1024) + `').join()"}]`,
			annotations: map[string]string{"p/name": "web", "p/long": strings.Repeat("y", 10*1024)}},
		{name: "audit annotation in error",
			policy:  `auditAnnotations: [{key: k, valueExpression: "string(object.nope)"}]`,
			binding: `validationActions: [Warn]`, code: 422,
			message: denied("expression 'string(object.nope)' resulted in error: no such key: nope")},
		{name: "audit annotation in error is ignored",
			policy: `{failurePolicy: Ignore, auditAnnotations: [{key: k, valueExpression: "string(object.nope)"}]}`},
		{name: "audit annotations of a refused request", code: 422, message: denied("failed expression: false"),
			policy:      `{validations: [{expression: "false"}], auditAnnotations: [{key: k, valueExpression: "'v'"}]}`,
			annotations: map[string]string{"p/k": "v"}},

		{name: "budget", policy: `validations: [` + strings.Repeat(`{expression: "`+dear+`"}, `, 40) + `]`, code: 422,
			message: denied("validation failed due to running out of cost budget, no further validation rules will " +
				"be run")},
		{name: "budget of messages", code: 422,
			policy: `validations: [` +
				strings.Repeat(`{expression: "true", messageExpression: "string(`+dear+`)"}, `, 40) + `]`,
			message: denied(strings.Join([]string{failedMessage, failedMessage, failedMessage}, "…")),
		},
		{name: "budget ignored",
			policy: `{failurePolicy: Ignore, validations: [` + strings.Repeat(`{expression: "`+dear+`"}, `, 40) + `]}`},
		{name: "limit of one", policy: `validations: [{expression: "` + tooDear + `"}]`, code: 422,
			message: denied("expression '" + tooDear +
				"' resulted in error: operation cancelled: actual cost limit exceeded")},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.request.Operation == "" {
				test.request = web
			}
			p := start(t, policyOf(t, "p", test.policy), bind(t, "p", test.binding))
			result := p.Validate(t, test.request)
			switch {
			case test.code == 0:
				result.Admitted(t)
			case strings.Contains(test.message, "…"):
				if result.Code() != test.code || strings.Count(result.Message(), failedMessage) != 40 {
					t.Errorf("%d %s", result.Code(), result.Message())
				}
			default:
				result.Refused(t, test.code, test.message)
			}
			if fmt.Sprint(result.Warnings) != fmt.Sprint(test.warnings) {
				t.Errorf("warnings %q, want %q", result.Warnings, test.warnings)
			}
			if fmt.Sprint(result.Annotations) != fmt.Sprint(test.annotations) {
				t.Errorf("annotations %q, want %q", result.Annotations, test.annotations)
			}
		})
	}
}

// dear costs some 300,000 of the 10,000,000 that a policy may cost; tooDear more than an expression
// may.
const (
	list = "[0,1,2,3,4,5,6,7,8,9]"
	dear = list + ".all(a, " + list + ".all(b, " + list + ".all(c, " + list + ".all(d, " + list +
		".all(e, true)))))"
	tooDear       = list + ".all(z, " + dear + ")"
	failedMessage = "failed messageExpression: validation failed due to running out of cost budget, no further " +
		"validation " +
		"rules will be run"
)

// What the status of a refusal says besides its message.
func TestCauses(t *testing.T) {
	p := start(t,
		policyOf(t, "p", `validations: [{expression: "false", message: a}, {expression: "false", message: b}]`),
		bind(t, "p", ""), policyOf(t, "q", `validations: [{expression: "false", message: c}]`), bind(t, "q", ""))
	err := p.Validate(t, plugintest.Create(pod("web"))).Err
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		t.Fatal(err)
	}
	s := status.Status()
	if s.Reason != metav1.StatusReasonInvalid || s.Details.Name != "web" || s.Details.Kind != "pods" {
		t.Errorf("%+v", s)
	}
	var causes []string
	for _, cause := range s.Details.Causes {
		causes = append(causes, cause.Message)
	}
	want := []string{"ValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request: a",
		"ValidatingAdmissionPolicy 'p' with binding 'p-binding' denied request: b",
		"ValidatingAdmissionPolicy 'q' with binding 'q-binding' denied request: c"}
	if fmt.Sprint(causes) != fmt.Sprint(want) || s.Message != `pods "web" is forbidden: `+strings.Join(want, "\n") {
		t.Errorf("%q\n%s", causes, s.Message)
	}
}

func TestViolationsAreBounded(t *testing.T) {
	objects := []runtime.Object{policyOf(t, "p", `validations: [{expression: "false"}]`)}
	for i := range 250 {
		objects = append(objects, named(bind(t, "p", ""), fmt.Sprintf("b%03d", i)))
	}
	result := start(t, objects...).Validate(t, plugintest.Create(pod("web")))
	lines := strings.Split(result.Message(), "\n")
	if len(lines) != 101 || lines[100] != "and 150 more violations" || !strings.Contains(lines[99], "'b099'") {
		t.Errorf("%d lines, the last is %s", len(lines), lines[len(lines)-1])
	}
}

// The audit event has the failures of all policies in one annotation.
//
// Source: TestAuditValidationAction in
// k8s.io/apiserver/pkg/admission/plugin/policy/validating/admission_test.go.
func TestFailuresAreBounded(t *testing.T) {
	var objects []runtime.Object
	for _, policy := range []string{"p", "q"} {
		objects = append(objects, policyOf(t, policy, `validations: [{expression: "false", message: no}]`))
		for i := range 30 {
			objects = append(objects, named(bind(t, policy, `validationActions: [Audit]`), fmt.Sprintf("%s%02d", policy, i)))
		}
	}
	result := start(t, objects...).Validate(t, plugintest.Create(pod("web")))
	var failures []struct {
		Message, Policy, Binding string
		ExpressionIndex          int
		ValidationActions        []string
	}
	read(t, result.Annotations["validation.policy.admission.k8s.io/validation_failure"], &failures)
	if len(failures) != 50 || failures[0].Binding != "p00" || failures[49].Binding != "q19" {
		t.Errorf("%d failures: %+v", len(failures), failures)
	}
}

// Which requests a policy and its bindings are about.
//
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/validatingadmissionpolicy_test.go#Test_PolicyExemption 07a25504
// Source: k8s.io/kubernetes/test/integration/apiserver/cel/validatingadmissionpolicy_test.go#Test_ValidatingAdmissionPolicy_MatchByObjectSelector e67f68bd
// Source: k8s.io/apiserver/pkg/admission/plugin/policy/matching/matching_test.go#TestMatcher 0ef43e8e
func TestMatching(t *testing.T) {
	labelled := pod("web")
	labelled.Labels = map[string]string{"tier": "front"}
	elsewhere := pod("web")
	elsewhere.Namespace = "other"
	nowhere := pod("web")
	nowhere.Namespace = "nope"
	for _, test := range []struct {
		name            string
		policy, binding string
		object          runtime.Object
		refused         bool
		message         string
	}{
		{name: "both", object: labelled, refused: true},
		{name: "another resource", object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s"}}},
		{name: "objectSelector", policy: `{objectSelector: {matchLabels: {tier: front}}}`, object: labelled,
			refused: true},
		{name: "objectSelector of another", policy: `{objectSelector: {matchLabels: {tier: back}}}`, object: labelled},
		{name: "namespaceSelector", policy: `{namespaceSelector: {matchLabels: {open: "true"}}}`, object: labelled,
			refused: true},
		{name: "namespaceSelector of another", policy: `{namespaceSelector: {matchLabels: {open: "true"}}}`,
			object: elsewhere},
		{name: "binding's objectSelector", binding: `{objectSelector: {matchLabels: {tier: back}}}`, object: labelled},
		{name: "binding's namespaceSelector", binding: `{namespaceSelector: {matchLabels: {open: "true"}}}`,
			object: elsewhere},
		{name: "binding's rules", object: labelled,
			binding: `{resourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: ["*"], resources: ` +
				`[services]}]}`},
		{name: "binding's exclusion", object: labelled,
			binding: `{excludeResourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: ["*"], resources: ` +
				`[pods]}]}`},
		{name: "exclusion of a name", object: labelled,
			policy: `{excludeResourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: ["*"], resources: ` +
				`[pods], ` +
				`resourceNames: [web]}]}`},
		{name: "exclusion of another name", object: labelled, refused: true,
			policy: `{excludeResourceRules: [{operations: ["*"], apiGroups: [""], apiVersions: ["*"], resources: ` +
				`[pods], ` +
				`resourceNames: [db]}]}`},
		{name: "a namespace that isn't there", object: nowhere,
			policy:  `{namespaceSelector: {matchLabels: {open: "true"}}}`,
			refused: true,
			message: `pods "web" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to ` +
				`configure policy: namespaces "nope" not found`},
		{name: "policies are exempt", object: policyOf(t, "new", "{}"),
			policy: `{resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}`},
		{name: "bindings are exempt", object: &admissionregistrationv1.MutatingAdmissionPolicyBinding{},
			policy: `{resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}`},
		{name: "webhook configurations are not", refused: true,
			object: &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "w"}},
			policy: `{resourceRules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			policy, binding := policyOf(t, "p", `validations: [{expression: "false"}]`), bind(t, "p", "")
			read(t, test.policy, policy.Spec.MatchConstraints)
			if test.binding != "" {
				binding.Spec.MatchResources = &admissionregistrationv1.MatchResources{
					NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{}}
				read(t, test.binding, binding.Spec.MatchResources)
			}
			result := start(t, policy, binding).Validate(t, plugintest.Create(test.object))
			if (result.Err != nil) != test.refused || test.message != "" && result.Message() != test.message {
				t.Errorf("%v", result.Err)
			}
		})
	}
}

// A policy without a binding, a binding without its policy, and policies in order of their names.
func TestInForce(t *testing.T) {
	p := start(t, policyOf(t, "z", `validations: [{expression: "false", message: of-z}]`), bind(t, "z", ""),
		policyOf(t, "a", `validations: [{expression: "false", message: of-a}]`), bind(t, "a", ""),
		policyOf(t, "unbound", `validations: [{expression: "false"}]`), bind(t, "nope", ""))
	p.Validate(t, plugintest.Create(pod("web"))).Refused(t, 422,
		`pods "web" is forbidden: ValidatingAdmissionPolicy 'a' with binding 'a-binding' denied request: of-a`+
			"\nValidatingAdmissionPolicy 'z' with binding 'z-binding' denied request: of-z")
}
