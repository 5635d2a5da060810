// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	applyv1beta1 "k8s.io/client-go/applyconfigurations/admissionregistration/v1beta1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

type (
	mutatingV1        = admissionregistrationv1.MutatingWebhookConfiguration
	mutatingV1beta1   = admissionregistrationv1beta1.MutatingWebhookConfiguration
	validatingV1      = admissionregistrationv1.ValidatingWebhookConfiguration
	validatingV1beta1 = admissionregistrationv1beta1.ValidatingWebhookConfiguration
)

// everything is a webhook with all fields, none of them at its default, in either version.
const everything = `metadata: {name: %s, labels: {a: b}}
webhooks:
- name: a.example.com
  clientConfig: {caBundle: YWJj, service: {name: svc, namespace: ns, path: /a, port: 8443}}
  rules:
  - {operations: [CREATE, UPDATE], apiGroups: [none.example.com], apiVersions: [v1, v2], resources: [things, "things/*"], scope: Namespaced}
  - {operations: [DELETE], apiGroups: [none.example.com], apiVersions: ["*"], resources: ["*/*"], scope: Cluster}
  failurePolicy: %s
  matchPolicy: %s
  namespaceSelector: {matchLabels: {a: b}}
  objectSelector: {matchExpressions: [{key: a, operator: NotIn, values: [b, c]}]}
  sideEffects: %s
  timeoutSeconds: 7
  admissionReviewVersions: [v2, v1]
  matchConditions: [{name: x, expression: "request.name != 'a'"}]
`

// The server of most tests serves v1beta1; each test keeps to names of its own.
func v1beta1Server(t *testing.T) *servertest.Cluster {
	t.Helper()
	return servertest.Start(t, servertest.RuntimeConfig("admissionregistration.k8s.io/v1beta1=true"))
}

// resourcesOf is what discovery says of a version of the group; nothing where it isn't served.
func resourcesOf(t *testing.T, client kubernetes.Interface, version string) sets.Set[string] {
	t.Helper()
	list, err := client.Discovery().ServerResourcesForGroupVersion("admissionregistration.k8s.io/" + version)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	names := sets.New[string]()
	for _, resource := range list.APIResources {
		names.Insert(resource.Name)
	}
	return names
}

// Who asks for v1beta1 by name is served it, and nobody else. The policies of that version are as
// Kubernetes serves them.
func TestWhatIsServed(t *testing.T) {
	// Those for validation ended with 1.33:
	// k8s.io/api/admissionregistration/v1beta1/zz_generated.prerelease-lifecycle.go.
	policies := sets.New("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
	both := policies.Clone().Insert("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
	v1 := both.Clone().Insert("validatingadmissionpolicies", "validatingadmissionpolicies/status",
		"validatingadmissionpolicybindings")
	for name, test := range map[string]struct {
		config      []string
		v1, v1beta1 sets.Set[string]
	}{
		"as it is":    {nil, v1, nil},
		"the version": {[]string{"admissionregistration.k8s.io/v1beta1=true"}, v1, both},
		"a resource": {[]string{"admissionregistration.k8s.io/v1beta1/mutatingwebhookconfigurations=true"}, v1,
			sets.New("mutatingwebhookconfigurations")},
		"all but one": {[]string{"admissionregistration.k8s.io/v1beta1=true",
			"admissionregistration.k8s.io/v1beta1/mutatingwebhookconfigurations=false"}, v1,
			both.Clone().Delete("mutatingwebhookconfigurations")},
		"all beta APIs": {[]string{"api/beta=true"}, v1, policies},
		"not v1": {[]string{"admissionregistration.k8s.io/v1=false",
			"admissionregistration.k8s.io/v1beta1=true"}, nil, policies},
	} {
		t.Run(name, func(t *testing.T) {
			// The plugins read v1, and with any of them the server doesn't start without it.
			client := servertest.Start(t, servertest.RuntimeConfig(test.config...),
				gatehousetest.WithoutPlugins("MutatingAdmissionPolicy", "MutatingAdmissionWebhook",
					"ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook")).Client
			for version, want := range map[string]sets.Set[string]{"v1": test.v1, "v1beta1": test.v1beta1} {
				if diff := cmp.Diff(sets.List(want), sets.List(resourcesOf(t, client, version))); diff != "" {
					t.Errorf("%s: -want +got:\n%s", version, diff)
				}
			}
		})
	}
}

// The group prefers v1, and the documents of the API have both.
func TestDiscoveryAndOpenAPI(t *testing.T) {
	client := v1beta1Server(t).Client
	groups, err := client.Discovery().ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups.Groups {
		if group.Name == "admissionregistration.k8s.io" &&
			(group.PreferredVersion.Version != "v1" || len(group.Versions) != 2) {
			t.Errorf("the group is %v", group)
		}
	}
	const definition = "io.k8s.api.admissionregistration.v1beta1.MutatingWebhookConfiguration"
	const resource = "/apis/admissionregistration.k8s.io/v1beta1/mutatingwebhookconfigurations"
	for path, wants := range map[string][]string{
		"/openapi/v2": {definition, resource + "/{name}"},
		"/openapi/v3/apis/admissionregistration.k8s.io/v1beta1": {definition, resource + "/{name}"},
		resource: {`{"kind":"MutatingWebhookConfigurationList","apiVersion":"admissionregistration.k8s.io/v1beta1",`},
	} {
		document,
			err := client.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, want := range wants {
			if !strings.Contains(string(document), want) {
				t.Errorf("%s has no %s", path, want)
			}
		}
	}
}

// What v1beta1 makes of what isn't said, and what v1 shows of it:
// k8s.io/kubernetes/pkg/apis/admissionregistration/v1beta1/defaults.go.
func TestV1beta1Defaults(t *testing.T) {
	c := v1beta1Server(t)
	const minimal = `{metadata: {name: defaults}, webhooks: [{name: a.example.com, clientConfig: {service: {name: ` +
		`svc, namespace: ns}}, rules: [{operations: [CREATE], apiGroups: [none.example.com], apiVersions: [v1], ` +
		`resources: [things]}]}]}`
	const defaults = `name: a.example.com
clientConfig: {service: {name: svc, namespace: ns, port: 443}}
rules: [{operations: [CREATE], apiGroups: [none.example.com], apiVersions: [v1], resources: [things], scope: "*"}]
failurePolicy: Ignore
matchPolicy: Exact
namespaceSelector: {}
objectSelector: {}
sideEffects: Unknown
timeoutSeconds: 30
admissionReviewVersions: [v1beta1]
`
	mutating, err := c.Client.AdmissionregistrationV1beta1().MutatingWebhookConfigurations().Create(t.Context(),
		parse[mutatingV1beta1](t, minimal), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parse[admissionregistrationv1beta1.MutatingWebhook](t, defaults+"reinvocationPolicy: Never"),
		&mutating.Webhooks[0]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	inV1, err := c.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(t.Context(), "defaults",
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parse[admissionregistrationv1.MutatingWebhook](t, defaults+"reinvocationPolicy: Never"),
		&inV1.Webhooks[0]); diff != "" {
		t.Errorf("in v1: -want +got:\n%s", diff)
	}
	validating, err := c.Client.AdmissionregistrationV1beta1().ValidatingWebhookConfigurations().Create(t.Context(),
		parse[validatingV1beta1](t, minimal), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parse[admissionregistrationv1beta1.ValidatingWebhook](t, defaults),
		&validating.Webhooks[0]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	// Whoever wrote it, it is stored in v1.
	for _, resource := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		stored, err := c.Etcd.Client().KV.Get(t.Context(), "/registry/"+resource+"/defaults")
		if err != nil {
			t.Fatal(err)
		}
		if len(stored.Kvs) != 1 ||
			!strings.Contains(string(stored.Kvs[0].Value), "admissionregistration.k8s.io/v1\x12") {
			t.Errorf("%s: stored is %q", resource, stored.Kvs)
		}
	}
}

// An object is the same in both versions, and stays so when it is written back in the other one.
func TestNothingIsLost(t *testing.T) {
	client := v1beta1Server(t).Client
	v1, v1beta1 := client.AdmissionregistrationV1(), client.AdmissionregistrationV1beta1()

	written, err := v1.MutatingWebhookConfigurations().Create(t.Context(),
		parse[mutatingV1](t, fmt.Sprintf(everything, "v1", "Ignore", "Exact",
			"NoneOnDryRun")+"  reinvocationPolicy: IfNeeded\n"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := v1beta1.MutatingWebhookConfigurations().Get(t.Context(), "v1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := parse[mutatingV1beta1](t,
		fmt.Sprintf(everything, "v1", "Ignore", "Exact", "NoneOnDryRun")+"  reinvocationPolicy: IfNeeded\n")
	if diff := cmp.Diff(want.Webhooks, other.Webhooks); diff != "" {
		t.Errorf("in v1beta1: -want +got:\n%s", diff)
	}
	if _,
		err := v1beta1.MutatingWebhookConfigurations().Update(t.Context(), other, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	again, err := v1.MutatingWebhookConfigurations().Get(t.Context(), "v1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// with its resourceVersion: nothing was written
	if diff := cmp.Diff(written, again); diff != "" {
		t.Errorf("after an update in v1beta1: -want +got:\n%s", diff)
	}

	old, err := v1beta1.ValidatingWebhookConfigurations().Create(t.Context(),
		parse[validatingV1beta1](t, fmt.Sprintf(everything, "v1beta1", "Fail", "Equivalent", "Some")),
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	inV1, err := v1.ValidatingWebhookConfigurations().Get(t.Context(), "v1beta1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(parse[validatingV1](t,
		fmt.Sprintf(everything, "v1beta1", "Fail", "Equivalent", "Some")).Webhooks, inV1.Webhooks); diff != "" {
		t.Errorf("in v1: -want +got:\n%s", diff)
	}
	if _, err := v1.ValidatingWebhookConfigurations().Update(t.Context(), inV1, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	oldAgain, err := v1beta1.ValidatingWebhookConfigurations().Get(t.Context(), "v1beta1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(old, oldAgain); diff != "" {
		t.Errorf("after an update in v1: -want +got:\n%s", diff)
	}
}

// v1beta1 takes webhooks with side effects and of the same name; v1 keeps those that are there, and
// takes no new ones. k8s.io/kubernetes 1.19 pkg/apis/admissionregistration/validation/validation.go
// requireNoSideEffects, requireUniqueWebhookNames.
func TestV1beta1Validation(t *testing.T) {
	client := v1beta1Server(t).Client
	webhooksOf := func(names ...string) (webhooks []admissionregistrationv1beta1.ValidatingWebhook) {
		for _, name := range names {
			url := "https://example.com"
			some := admissionregistrationv1beta1.SideEffectClassSome
			webhooks = append(webhooks, admissionregistrationv1beta1.ValidatingWebhook{
				Name: name, ClientConfig: admissionregistrationv1beta1.WebhookClientConfig{URL: &url},
				SideEffects: &some, Rules: unmatched,
			})
		}
		return webhooks
	}
	named := func(name string, webhooks []admissionregistrationv1beta1.ValidatingWebhook) *validatingV1beta1 {
		return &validatingV1beta1{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: webhooks}
	}
	v1, v1beta1 := client.AdmissionregistrationV1().ValidatingWebhookConfigurations(),
		client.AdmissionregistrationV1beta1().ValidatingWebhookConfigurations()
	refused := func(what string, err error, name, want string) {
		t.Helper()
		want = fmt.Sprintf("ValidatingWebhookConfiguration.admissionregistration.k8s.io %q is invalid: %s", name, want)
		if err == nil || err.Error() != want {
			t.Errorf("%s: error is\n  %v\nwant\n  %s", what, err, want)
		}
	}
	const a, b = "a.example.com", "b.example.com"

	for n := range 4 {
		if _, err := v1beta1.Create(t.Context(), named(fmt.Sprintf("same-%d", n), webhooksOf([]string{a, a, a}[:n]...)),
			metav1.CreateOptions{}); err != nil {
			t.Errorf("%d of the same name: %v", n, err)
		}
	}
	// The rest is checked as in v1.
	unknown := named("refused", webhooksOf(a))
	unknown.Webhooks[0].AdmissionReviewVersions = []string{"v2"}
	_, err := v1beta1.Create(t.Context(), unknown, metav1.CreateOptions{})
	refused("an unknown review version", err, "refused",
		`webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1`)
	mixed := named("refused", webhooksOf(a, b))
	maybe := admissionregistrationv1beta1.SideEffectClass("Maybe")
	mixed.Webhooks[1].SideEffects, mixed.Webhooks[1].ClientConfig.URL = &maybe, nil
	_, err = v1beta1.Create(t.Context(), mixed, metav1.CreateOptions{})
	refused("no side effect", err, "refused",
		`[webhooks[1].sideEffects: Unsupported value: "Maybe": supported values: "None", "NoneOnDryRun", "Some", `+
			`"Unknown", `+
			`webhooks[1].clientConfig: Required value: exactly one of url or service is required]`)
	condition := named("refused", webhooksOf(a))
	condition.Webhooks[0].MatchConditions = []admissionregistrationv1beta1.MatchCondition{{Name: "x", Expression: "1"}}
	_, err = v1beta1.Create(t.Context(), condition, metav1.CreateOptions{})
	refused("no condition", err, "refused",
		`webhooks[0].matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int`)

	// What is there stays, through v1 as well.
	inV1, err := v1.Get(t.Context(), "same-2", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := *inV1.Webhooks[0].SideEffects; got != admissionregistrationv1.SideEffectClassSome {
		t.Errorf("in v1 side effects are %s", got)
	}
	timeout := int32(3)
	inV1.Webhooks[0].TimeoutSeconds = &timeout
	if inV1, err = v1.Update(t.Context(), inV1, metav1.UpdateOptions{}); err != nil {
		t.Errorf("an update in v1: %v", err)
	}
	// Once an object is good for v1, v1 keeps it so.
	none := admissionregistrationv1.SideEffectClassNone
	inV1.Webhooks = inV1.Webhooks[:1]
	inV1.Webhooks[0].SideEffects = &none
	if inV1, err = v1.Update(t.Context(), inV1, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	worse := inV1.DeepCopy()
	some := admissionregistrationv1.SideEffectClassSome
	worse.Webhooks[0].SideEffects = &some
	worse.Webhooks = append(worse.Webhooks, worse.Webhooks[0])
	_, err = v1.Update(t.Context(), worse, metav1.UpdateOptions{})
	refused("side effects in v1", err, "same-2",
		`[webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun", `+
			`webhooks[1].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun", `+
			`webhooks[1].name: Duplicate value: "a.example.com"]`)
	// v1beta1 doesn't.
	for n := range 4 {
		if _, err := v1beta1.Patch(t.Context(), "same-2", types.MergePatchType,
			mergePatch(t, webhooksOf([]string{a, a, a}[:n]...)), metav1.PatchOptions{}); err != nil {
			t.Errorf("an update to %d of the same name: %v", n, err)
		}
	}
	_, err = v1beta1.Patch(t.Context(), "same-2", types.MergePatchType, mergePatch(t, unknown.Webhooks),
		metav1.PatchOptions{})
	refused("an update to an unknown review version", err, "same-2",
		`webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1`)
}

// Writes of all sorts work on v1beta1, and say that it is deprecated.
func TestV1beta1Writes(t *testing.T) {
	config := servertest.Quick(v1beta1Server(t).Config)
	warnings := &collector{}
	config.WarningHandler = warnings
	v1beta1 := kubernetes.NewForConfigOrDie(config).AdmissionregistrationV1beta1().MutatingWebhookConfigurations()

	watch, err := v1beta1.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	apply := applyv1beta1.MutatingWebhookConfiguration("applied").WithWebhooks(
		applyv1beta1.MutatingWebhook().WithName(
			"a.example.com").WithClientConfig(applyv1beta1.WebhookClientConfig().WithURL("https://example.com")))
	applied, err := v1beta1.Apply(t.Context(), apply, metav1.ApplyOptions{FieldManager: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if got := applied.ManagedFields[0].APIVersion; got != "admissionregistration.k8s.io/v1beta1" {
		t.Errorf("managed fields are in %s", got)
	}
	event := <-watch.ResultChan()
	if object, ok := event.Object.(*mutatingV1beta1); !ok || object.Name != "applied" ||
		*object.Webhooks[0].TimeoutSeconds != 30 {
		t.Errorf("watch has %s of %v", event.Type, event.Object)
	}
	apply.Webhooks[0].WithTimeoutSeconds(4)
	if applied, err = v1beta1.Apply(t.Context(), apply, metav1.ApplyOptions{FieldManager: "test"}); err != nil ||
		*applied.Webhooks[0].TimeoutSeconds != 4 {
		t.Errorf("applied again: %v, %v", applied.Webhooks, err)
	}
	if _, err := v1beta1.Create(t.Context(), &mutatingV1beta1{ObjectMeta: metav1.ObjectMeta{Name: "dry"}},
		metav1.CreateOptions{DryRun: []string{"All"}}); err != nil {
		t.Error(err)
	}
	if err := v1beta1.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	list, err := v1beta1.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 0 {
		t.Errorf("what is left is %v, %v", list, err)
	}
	const warning = "admissionregistration.k8s.io/v1beta1 MutatingWebhookConfiguration is deprecated in v1.16+, " +
		"unavailable in v1.22+; use admissionregistration.k8s.io/v1 MutatingWebhookConfiguration"
	if !warnings.seen().Has(warning) {
		t.Errorf("warnings are %q", sets.List(warnings.seen()))
	}
}
