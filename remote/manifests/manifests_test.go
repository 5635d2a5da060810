// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"gatehouse.dev/plugin"
	"gatehouse.dev/remote/manifests"
)

func options() *manifests.Options {
	return &manifests.Options{Name: "gatehouse", Namespace: "system", Image: "i", Replicas: 2,
		Flags: []string{"--per-plugin"}, Plugins: []plugin.Descriptor{
			{Name: "A", Access: []rbacv1.PolicyRule{plugin.To("get", "", "pods"), plugin.AskGates}},
			{Name: "B", Access: []rbacv1.PolicyRule{plugin.AskGates, plugin.To("list", "x.example.com", "xs")}},
			{Name: "C"},
		}}
}

// written are the objects as an API server that is strict about fields reads them.
func written(t *testing.T, o *manifests.Options) map[string]runtime.Object {
	t.Helper()
	var text bytes.Buffer
	if err := manifests.Write(&text, o); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	objects := map[string]runtime.Object{}
	for _, document := range strings.Split(text.String(), "---\n") {
		object, kind, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		objects[kind.Kind] = object
	}
	return objects
}

func TestObjects(t *testing.T) {
	objects := written(t, options())
	want := "ClusterRole ClusterRoleBinding Deployment Namespace NetworkPolicy PodDisruptionBudget Role RoleBinding " +
		"Service ServiceAccount"
	var kinds []string
	for kind := range objects {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// What is common to plugins is said once; what can be said of one object isn't said of all.
	var rules []string
	for _, rule := range append(objects["ClusterRole"].(*rbacv1.ClusterRole).Rules, objects["Role"].(*rbacv1.Role).
		Rules...) {
		rules = append(rules, fmt.Sprint(rule.Verbs, rule.Resources, rule.ResourceNames, rule.NonResourceURLs))
	}
	wanted := []string{
		"[create][mutatingwebhookconfigurations validatingwebhookconfigurations][][]",
		"[get list watch update delete][mutatingwebhookconfigurations validatingwebhookconfigurations][gatehouse][]",
		"[get update delete][validatingwebhookconfigurations][gatehouse-probe][]",
		"[get list watch][namespaces][system][]", "[create][tokenreviews][][]",
		"[create][subjectaccessreviews][][]",
		"[get][pods][][]", "[get][][][/metrics]", "[list][xs][][]",
		"[create][leases][][]", "[get update delete][leases][gatehouse][]",
		"[create][secrets][][]", "[get list watch update delete][secrets][gatehouse-certificates][]",
		"[list][endpointslices][][]", "[get][deployments][gatehouse][]", "[update][deployments/scale][gatehouse][]",
		"[list][pods][][]",
	}
	for i := range rules {
		rules[i] = strings.ReplaceAll(rules[i], "] [", "][")
	}
	if !slices.Equal(rules, wanted) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(rules, "\n"), strings.Join(wanted, "\n"))
	}
	container := objects["Deployment"].(*appsv1.Deployment).Spec.Template.Spec.Containers[0]
	if got, want := strings.Join(container.Args, " "), "--plugins=A,B,C --name=gatehouse --namespace=system "+
		"--service=system/gatehouse:443 --secure-port=8443 --per-plugin"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// With a configuration pods have it, and are replaced when it changes.
func TestConfiguration(t *testing.T) {
	o := options()
	var digests []string
	for _, o.Configuration = range []string{"plugins: []\n", "plugins: []\n# again\n"} {
		objects := written(t, o)
		if got := objects["ConfigMap"].(*corev1.ConfigMap).Data["admission.yaml"]; got != o.Configuration {
			t.Errorf("got %q", got)
		}
		template := objects["Deployment"].(*appsv1.Deployment).Spec.Template
		digests = append(digests, template.Annotations["gatehouse.dev/configuration"])
		if !slices.Contains(template.Spec.Containers[0].Args,
			"--admission-control-config-file=/etc/gatehouse/admission.yaml") ||
			template.Spec.Containers[0].VolumeMounts[0].MountPath != "/etc/gatehouse" {
			t.Errorf("the pods are %v", template.Spec)
		}
	}
	if digests[0] == "" || digests[0] == digests[1] {
		t.Errorf("the digests are %q", digests)
	}
}

// The pods keep to the strictest standard that there is, as their namespace says that they must.
func TestRestricted(t *testing.T) {
	objects := written(t, options())
	namespace := objects["Namespace"].(*corev1.Namespace)
	if got := namespace.Labels[api.EnforceLevelLabel]; got != string(api.LevelRestricted) {
		t.Errorf("the namespace enforces %q", got)
	}
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	template := objects["Deployment"].(*appsv1.Deployment).Spec.Template
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, result := range checks.EvaluatePod(restricted, &template.ObjectMeta, &template.Spec) {
		if !result.Allowed {
			t.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
	security := template.Spec.Containers[0].SecurityContext
	if !*security.ReadOnlyRootFilesystem || *template.Spec.SecurityContext.RunAsUser != 65534 {
		t.Errorf("got %v, %v", security, template.Spec.SecurityContext)
	}
}

func TestWrongOptions(t *testing.T) {
	for want, wrong := range map[string]func(*manifests.Options){
		"name: Invalid value: \"G\"":    func(o *manifests.Options) { o.Name = "G" },
		"namespace: Invalid value":      func(o *manifests.Options) { o.Namespace = "a.b" },
		"image: Required value":         func(o *manifests.Options) { o.Image = "" },
		"replicas: Invalid value: 0":    func(o *manifests.Options) { o.Replicas = 0 },
		"api-servers[0]: Invalid value": func(o *manifests.Options) { o.APIServers = []string{"here"} },
		"plugins: Required value":       func(o *manifests.Options) { o.Plugins = nil },
		"plugins[1]: Invalid value":     func(o *manifests.Options) { o.Plugins[1].Server.Only = "it is inside" },
		"configuration: Invalid value":  func(o *manifests.Options) { o.Configuration = "{" },
		`configuration.plugins[0].path: Invalid value: "a.yaml": is a file that pods don't have`: func(
			o *manifests.Options) {
			o.Configuration = "plugins: [{name: A, path: a.yaml}]"
		},
	} {
		o := options()
		wrong(o)
		if err := manifests.Write(failing{}, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err := manifests.Write(failing{}, options()); err == nil || err.Error() != "full" {
		t.Errorf("got %v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }
