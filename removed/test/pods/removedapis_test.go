// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"gatehouse.dev/gatehousetest"
	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
	settingsv1alpha1 "gatehouse.dev/removed/apis/settings/v1alpha1"
	"gatehouse.dev/test/servertest"
)

const presetManifest = `
apiVersion: settings.k8s.io/v1alpha1
kind: PodPreset
metadata:
  name: preset
spec:
  selector: {matchLabels: {app: web}}
  env: [{name: A, value: "1"}]
`

// status is the HTTP status with which the server answers a GET.
func status(t *testing.T, c *servertest.Cluster, path string) int {
	t.Helper()
	var code int
	c.Client.Discovery().RESTClient().Get().AbsPath(path).Do(t.Context()).StatusCode(&code)
	return code
}

// Where nobody asks for them, the removed kinds are no more served than by Kubernetes.
func TestRemovedAPIsAreServedWhereAskedFor(t *testing.T) {
	const presets, policies = "/apis/settings.k8s.io/v1alpha1/podpresets", "/apis/policy/v1beta1/podsecuritypolicies"
	for name, test := range map[string]struct {
		options           []gatehousetest.Option
		presets, policies int
	}{
		"by default": {nil, http.StatusNotFound, http.StatusNotFound},
		"all of Kubernetes": {[]gatehousetest.Option{servertest.RuntimeConfig("api/all=true")}, http.StatusNotFound,
			http.StatusNotFound},
		"a version": {[]gatehousetest.Option{servertest.RuntimeConfig("settings.k8s.io/v1alpha1=true",
			"policy/v1=true")}, http.StatusOK, http.StatusNotFound},
		"a resource": {[]gatehousetest.Option{servertest.RuntimeConfig("policy/v1beta1/podsecuritypolicies=true")},
			http.StatusNotFound, http.StatusOK},
		"by a plugin": {[]gatehousetest.Option{gatehousetest.WithPlugins("PodPreset")}, http.StatusOK,
			http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := servertest.Start(t, test.options...)
			if got := status(t, c, presets); got != test.presets {
				t.Errorf("%s: %d, want %d", presets, got, test.presets)
			}
			if got := status(t, c, policies); got != test.policies {
				t.Errorf("%s: %d, want %d", policies, got, test.policies)
			}
			// Kubernetes' own version of the group, and the document that lists a group's versions.
			if got := status(t, c, "/apis/policy/v1/poddisruptionbudgets"); got != http.StatusOK {
				t.Errorf("policy/v1: %d", got)
			}
			group, err := c.Client.Discovery().RESTClient().Get().AbsPath("/apis/policy").Do(t.Context()).Raw()
			if want := test.policies == http.StatusOK; err != nil ||
				strings.Contains(string(group), "policy/v1beta1") != want ||
				!strings.Contains(string(group), `"preferredVersion":{"groupVersion":"policy/v1"`) {
				t.Errorf("/apis/policy: %s, %v", group, err)
			}
		})
	}
}

func TestRemovedAPIsThatCantBeServed(t *testing.T) {
	for name, test := range map[string]struct {
		options []gatehousetest.Option
		want    string
	}{
		"needed but off": {
			[]gatehousetest.Option{gatehousetest.WithPlugins("PodPreset"),
				servertest.RuntimeConfig("settings.k8s.io/v1alpha1/podpresets=false")},
			"--runtime-config: podpresets of settings.k8s.io/v1alpha1 are switched off, but an admission plugin " +
				"that is enabled needs them: PodPreset",
		},
		"of no version": {
			[]gatehousetest.Option{servertest.RuntimeConfig("settings.k8s.io/v1=true")},
			"--runtime-config: group version settings.k8s.io/v1 that has not been registered",
		},
		"of no group": {[]gatehousetest.Option{servertest.RuntimeConfig("setting.k8s.io/v1=true")},
			"--runtime-config: unknown api groups setting.k8s.io/v1"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := servertest.StartError(t, test.options...); err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// A removed kind is written and watched as every other.
func TestRemovedAPIsAreRealAPIs(t *testing.T) {
	t.Parallel()
	c := clusterWith("PodPreset")
	namespace := c.Namespace(t, nil)
	presets := c.Dynamic.Resource(settingsv1alpha1.PodPresets).Namespace(namespace)
	watching, err := presets.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	// seen is the next event, in which the preset has these fields.
	seen := func(event watch.EventType, fields map[string]string) {
		t.Helper()
		got := <-watching.ResultChan()
		if got.Type != event {
			t.Fatalf("event %v, want %s", got, event)
		}
		object := got.Object.(*unstructured.Unstructured)
		env, _, _ := unstructured.NestedSlice(object.Object, "spec", "env")
		found := map[string]string{}
		for _, one := range env {
			variable := one.(map[string]any)
			value, _ := variable["value"].(string)
			found[variable["name"].(string)] = value
		}
		if len(found) != len(fields) || object.GetName() != "preset" {
			t.Errorf("%s of %s with %v, want %v", got.Type, object.GetName(), found, fields)
		}
		for name, value := range fields {
			if found[name] != value {
				t.Errorf("%s with %v, want %v", got.Type, found, fields)
			}
		}
	}

	if _, err := presets.Create(t.Context(), servertest.Parsed(t, presetManifest),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
	if _, err := presets.Create(t.Context(), servertest.Parsed(t, presetManifest), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	seen(watch.Added, map[string]string{"A": "1"})
	for kind, patch := range map[types.PatchType]string{
		types.MergePatchType:          `{"spec": {"env": [{"name": "A", "value": "merge"}]}}`,
		types.StrategicMergePatchType: `{"spec": {"env": [{"name": "A", "value": "strategic"}]}}`,
		types.JSONPatchType:           `[{"op": "replace", "path": "/spec/env/0/value", "value": "json"}]`,
	} {
		patched, err := presets.Patch(t.Context(), "preset", kind, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		env, _, _ := unstructured.NestedSlice(patched.Object, "spec", "env")
		seen(watch.Modified, map[string]string{"A": env[0].(map[string]any)["value"].(string)})
	}

	applied := servertest.Parsed(t, strings.Replace(presetManifest, `value: "1"`, "value: applied", 1))
	_, err = presets.Apply(t.Context(), "preset", applied, metav1.ApplyOptions{FieldManager: "test"})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), ".spec.env") {
		t.Errorf("applying over what others have set: %v", err)
	}
	if _, err := presets.Apply(t.Context(), "preset", applied,
		metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		t.Error(err)
	}
	seen(watch.Modified, map[string]string{"A": "applied"})
	if _, err := presets.Apply(t.Context(), "made", servertest.Parsed(t,
		strings.Replace(presetManifest, "name: preset", "name: made", 1)),
		metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		t.Error(err)
	}

	// A client that prefers protobuf, as controllers are, gets JSON.
	preferring, err := metadata.NewForConfig(c.Config)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := preferring.Resource(settingsv1alpha1.PodPresets).Namespace(namespace).List(t.Context(),
		metav1.ListOptions{}); err != nil || len(list.Items) != 2 {
		t.Errorf("metadata: %v, %v", list, err)
	}
	if err := preferring.Resource(settingsv1alpha1.PodPresets).Namespace(namespace).DeleteCollection(t.Context(),
		metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if list, err := presets.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("after deletion: %v, %v", list, err)
	}

	invalid := servertest.Parsed(t, presetManifest)
	unstructured.RemoveNestedField(invalid.Object, "spec", "env")
	if _, err := presets.Create(t.Context(), invalid, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("without anything to give: %v", err)
	}
	strange := servertest.Parsed(t, presetManifest)
	strange.Object["spec"].(map[string]any)["enw"] = "x"
	if _, err := presets.Create(t.Context(), strange,
		metav1.CreateOptions{FieldValidation: "Strict"}); !apierrors.IsBadRequest(err) ||
		!strings.Contains(err.Error(), `unknown field "spec.enw"`) {
		t.Errorf("with an unknown field: %v", err)
	}
}

// kubectl knows them by what the server tells: names, models, columns.
func TestRemovedAPIsByKubectl(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, servertest.RuntimeConfig("settings.k8s.io/v1alpha1=true", "policy/v1beta1=true"))
	k := c.Kubectl(t, "default")
	if got := k.OK("", "get", "psp"); got != "" {
		t.Errorf("kubectl get psp: %s", got)
	}
	k.OK("", "apply", "--filename=../../../examples/podsecuritypolicy/policies.yaml")
	const table = `NAME         PRIV    CAPS   SELINUX    RUNASUSER          FSGROUP     SUPGROUP    READONLYROOTFS   VOLUMES
privileged   true    *      RunAsAny   RunAsAny           RunAsAny    RunAsAny    false            *
restricted   false          RunAsAny   MustRunAsNonRoot   MustRunAs   MustRunAs   false            configMap,downwardAPI,emptyDir,persistentVolumeClaim,projected,secret
`
	if got := k.OK("", "get", "psp"); got != table {
		t.Errorf("kubectl get psp prints\n%s", got)
	}
	for argument, want := range map[string][]string{
		"podpreset.spec": {"KIND:       PodPreset", "env	<[]EnvVar>", "envFrom	<[]EnvFromSource>",
			"selector	<LabelSelector>", "volumeMounts	<[]VolumeMount>", "volumes	<[]Volume>"},
		"podpreset.spec.env.valueFrom":     {"fieldRef	<ObjectFieldSelector>"},
		"psp.spec.runAsUser":               {"ranges	<[]IDRange>", "rule	<string> -required-"},
		"podsecuritypolicies.spec.fsGroup": {"GROUP:      policy", "VERSION:    v1beta1"},
	} {
		got := k.OK("", "explain", argument)
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("kubectl explain %s prints\n%s\nwithout %s", argument, got, text)
			}
		}
	}

	k.OK(presetManifest, "apply", "--filename=-")
	if got := k.OK("", "get", "podpresets"); !strings.HasPrefix(got, "NAME     CREATED AT\npreset   ") {
		t.Errorf("kubectl get podpresets prints\n%s", got)
	}
	k.OK("", "patch", "podpreset", "preset", "--type=merge", `--patch={"spec": {"env": [{"name": "B"}]}}`)
	k.OK(presetManifest, "apply", "--server-side", "--force-conflicts", "--filename=-")
	k.OK("", "annotate", "podpreset", "preset", "a=b")
	shown := k.OK("", "get", "podpreset", "preset",
		"--output=jsonpath={.spec.env} {.metadata.generation} {.metadata.annotations.a}")
	if shown != `[{"name":"A","value":"1"}] 3 b` {
		t.Errorf("after patch and apply: %s", shown)
	}
	k.Fails(strings.Replace(presetManifest, "env:", "enw:", 1), []string{"apply", "--filename=-"},
		`unknown field "spec.enw"`)
	k.OK("", "delete", "podpreset", "preset")
	k.Fails("", []string{"get", "podpreset", "preset"}, `podpresets.settings.k8s.io "preset" not found`)

	// The verb of RBAC that is for policies alone.
	k.OK("", "create", "clusterrole", "users", "--verb=use", "--resource=podsecuritypolicies",
		"--resource-name=restricted")
	k.OK("", "create", "rolebinding", "users", "--clusterrole=users", "--user=alice")
	mayUse := func(policy string) string {
		got, _, _ := k.Run("", "auth", "can-i", "use", "podsecuritypolicies/"+policy, "--as=alice")
		return got
	}
	servertest.Eventually(t, "RBAC to know that alice may use restricted", func() bool {
		return mayUse("restricted") == "yes\n"
	})
	if got := mayUse("privileged"); got != "no\n" {
		t.Errorf("alice may use privileged: %s", got)
	}

	doomed := c.Namespace(t, nil)
	k.OK(presetManifest, "apply", "--filename=-", "--namespace="+doomed)
	k.OK("", "delete", "namespace", doomed, "--timeout=60s")
	if list, err := c.Dynamic.Resource(settingsv1alpha1.PodPresets).List(t.Context(),
		metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("with its namespace a preset goes: %v, %v", list, err)
	}
}

// What a server has stored, the next one has, and in its fields what it was given.
func TestRemovedAPIsAreKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := servertest.RuntimeConfig("policy/v1beta1/podsecuritypolicies=true")
	first := servertest.Connect(gatehousetest.StartIn(t, dir, config))
	policy := servertest.Parsed(t, `{apiVersion: policy/v1beta1, kind: PodSecurityPolicy, metadata: {name: p}, spec: {seLinux: {rule: RunAsAny}, runAsUser: {rule: MustRunAs, ranges: [{min: 1, max: 4294967295}]},
		supplementalGroups: {rule: RunAsAny}, fsGroup: {rule: RunAsAny}}}`)
	made, err := first.Dynamic.Resource(policyv1beta1.PodSecurityPolicies).Create(t.Context(), policy,
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first.Stop()
	second := servertest.Connect(gatehousetest.StartIn(t, dir, config))
	found, err := second.Dynamic.Resource(policyv1beta1.PodSecurityPolicies).Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	maximum, _, err := unstructured.NestedSlice(found.Object, "spec", "runAsUser", "ranges")
	if err != nil || maximum[0].(map[string]any)["max"] != int64(4294967295) ||
		found.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("found %v, made %v", found, made)
	}
}
