// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// warnings are those of the answers since they were last taken.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := strings.Join(w.texts, "; ")
	w.texts = nil
	return all
}

const (
	limits = `{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: default}, spec: {limits: []}}`
	quotas = `{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: default}, spec: {hard: {pods: "3"}}}`
	secure = `{apiVersion: v1, kind: Namespace, metadata: {name: s, labels: {pod-security.kubernetes.io/audit: ` +
		`baseline}}}`
	plain  = `{apiVersion: v1, kind: Namespace, metadata: {name: p, labels: {a: b}}}`
	change = `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: m}}`
	judge  = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: v}}`
	policy = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: p},
	  spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods],
	    operations: [CREATE]}]}, validations: [{expression: "true"}]}}`
	binding = `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding,
	  metadata: {name: p}, spec: {policyName: p, validationActions: [Deny]}}`
	mutation = `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: p},
	  spec: {matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods],
	    operations: [CREATE]}]}, reinvocationPolicy: Never, mutations: [{patchType: ApplyConfiguration,
	    applyConfiguration: {expression: "Object{}"}}]}}`
	mutationBinding = `{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicyBinding,
	  metadata: {name: p}, spec: {policyName: p}}`
)

// Clients get a warning if they store objects that Kubernetes would enforce, and this server doesn't.
// The plugins that enforce are off in the first server and missing in the second.
func TestWarningsOfWhatIsNotEnforced(t *testing.T) {
	const none = "this server has no admission plugin that does"
	off := func(name string) string {
		return "admission plugin " + name + " is off (--enable-admission-plugins=" + name + ")"
	}
	objects := []struct{ manifest, what, plugin string }{
		{limits, "limitranges are not enforced: ", "LimitRanger"},
		{quotas, "resourcequotas are not enforced: ", "ResourceQuota"},
		{secure, "labels pod-security.kubernetes.io/* of namespaces are not enforced: ", "PodSecurity"},
		{plain, "", ""},
		{change, "mutatingwebhookconfigurations are not enforced: ", "MutatingAdmissionWebhook"},
		{judge, "validatingwebhookconfigurations are not enforced: ", "ValidatingAdmissionWebhook"},
		{policy, "validatingadmissionpolicies are not enforced: ", "ValidatingAdmissionPolicy"},
		{binding, "validatingadmissionpolicybindings are not enforced: ", "ValidatingAdmissionPolicy"},
		{mutation, "mutatingadmissionpolicies are not enforced: ", "MutatingAdmissionPolicy"},
		{mutationBinding, "mutatingadmissionpolicybindings are not enforced: ", "MutatingAdmissionPolicy"},
	}
	enforces := func(d plugin.Descriptor) bool { return len(d.Server.Enforces) > 0 }
	var there []string
	for _, d := range plugins.List {
		if enforces(d) {
			there = append(there, d.Name)
		}
	}
	for name, test := range map[string]struct {
		option gatehousetest.Option
		why    func(plugin string) string
	}{
		"off": {gatehousetest.WithoutPlugins(there...), func(plugin string) string {
			if slices.Contains(there, plugin) {
				return off(plugin)
			}
			return none
		}},
		"missing": {gatehousetest.WithConfig(func(c *server.Config) { c.Plugins = slices.DeleteFunc(slices.Clone(c.Plugins), enforces) }),
			func(string) string { return none }},
		"on": {gatehousetest.WithConfig(func(*server.Config) {}), func(plugin string) string {
			if slices.Contains(there, plugin) {
				return ""
			}
			return none
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := servertest.Start(t, test.option)
			var got warnings
			config := rest.CopyConfig(cluster.Config)
			config.WarningHandlerWithContext = &got
			client := dynamic.NewForConfigOrDie(config)
			for _, object := range objects {
				var want string
				if why := test.why(object.plugin); object.what != "" && why != "" {
					want = object.what + why
				}
				manifest := servertest.Parsed(t, object.manifest)
				gvk := manifest.GroupVersionKind()
				resource, _ := meta.UnsafeGuessKindToResource(gvk)
				kind := dynamic.ResourceInterface(client.Resource(resource))
				if namespace := manifest.GetNamespace(); namespace != "" {
					kind = client.Resource(resource).Namespace(namespace)
				}
				if _, err := kind.Create(t.Context(), manifest, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				if got := got.take(); got != want {
					t.Errorf("creating %s: got  %q\nwant %q", gvk.Kind, got, want)
				}
				if _, err := kind.Patch(t.Context(), manifest.GetName(), types.MergePatchType,
					[]byte(`{"metadata":{"annotations":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
				if got := got.take(); got != want {
					t.Errorf("changing %s: got  %q\nwant %q", gvk.Kind, got, want)
				}
				if err := kind.Delete(t.Context(), manifest.GetName(), metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
				if got := got.take(); got != "" {
					t.Errorf("deleting %s: got %q", gvk.Kind, got)
				}
			}
		})
	}
}
