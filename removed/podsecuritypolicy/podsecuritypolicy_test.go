// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
)

const (
	plain   = `{serviceAccountName: sa, containers: [{name: c}]}`
	account = "system:serviceaccount:ns:sa"
)

// What is stated here is plugin/pkg/admission/security/podsecuritypolicy/admission.go of Kubernetes
// 1.24.
func TestWhichPolicy(t *testing.T) {
	policies := []*policyv1beta1.PodSecurityPolicy{
		newPSP(t, "a-user-5", `runAsUser: {rule: MustRunAs, ranges: [{min: 5, max: 5}]}`),
		newPSP(t, "b-user-6", `runAsUser: {rule: MustRunAs, ranges: [{min: 6, max: 6}]}`),
		newPSP(t, "c-any", ``),
		newPSP(t, "d-any", ``),
		newPSP(t, "e-privileged", `privileged: true`),
		newPSP(t, "f-broken", `runAsUser: {rule: MustRunAs}`),
	}
	const privileged = `{serviceAccountName: sa, containers: [{name: c, securityContext: {privileged: true}}]}`
	for name, test := range map[string]struct {
		rights rights
		pod    string
		policy string // that admits the pod; empty for none
		user   int64  // that the pod gets
		want   string // the refusal
	}{
		"the first by name that sets nothing": {rights: rights{"alice d-any", "alice c-any", "alice a-user-5"},
			pod: plain, policy: "c-any"},
		"the first by name that sets something": {rights: rights{"alice b-user-6", "alice a-user-5"}, pod: plain,
			policy: "a-user-5", user: 5},
		"the only one that allows it": {rights: rights{"alice b-user-6", "alice e-privileged"},
			pod: privileged, policy: "e-privileged"},
		"the service account's": {rights: rights{account + " c-any"}, pod: plain, policy: "c-any"},
		"the account's and the user's": {rights: rights{account + " d-any", "alice c-any"}, pod: plain,
			policy: "c-any"},
		"in this namespace": {rights: rights{"alice c-any ns"}, pod: plain, policy: "c-any"},
		"in another namespace": {
			rights: rights{"alice c-any other"}, pod: plain,
			want: `unable to admit pod: []: there is no PodSecurityPolicy that may be used (RBAC verb use) by ` +
				account + ` or alice`,
		},
		"of another service account": {
			rights: rights{"system:serviceaccount:ns:other c-any"}, pod: plain,
			want: `unable to admit pod: []: there is no PodSecurityPolicy that may be used (RBAC verb use) by ` +
				account + ` or alice`,
		},
		"without a service account": {
			pod:  `{containers: [{name: c}]}`,
			want: `unable to admit pod: []: there is no PodSecurityPolicy that may be used (RBAC verb use) by alice`,
		},
		"only one that doesn't allow it": {
			rights: rights{"alice c-any"}, pod: privileged,
			want: `unable to admit pod: [spec.containers[0].securityContext.privileged: Invalid value: true: ` +
				`Privileged containers are not allowed]`,
		},
		"several that don't": {
			rights: rights{"alice c-any", account + " f-broken", "alice b-user-6"},
			pod: `{serviceAccountName: sa, containers: [{name: c, securityContext: {privileged: true, ` +
				`runAsUser: 1}}]}`,
			want: `unable to admit pod: ` +
				`b-user-6: [spec.containers[0].securityContext.runAsUser: Invalid value: 1: must be in the ranges: ` +
				`[{6 6}] ` +
				`spec.containers[0].securityContext.privileged: Invalid value: true: Privileged containers are not ` +
				`allowed], ` +
				`c-any: [spec.containers[0].securityContext.privileged: Invalid value: true: Privileged containers ` +
				`are not allowed], ` +
				`f-broken: [error creating provider for PSP f-broken: MustRunAs requires at least one range]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, test.rights, policies...)
			result := c.Admit(t, plugintest.Create(newPod(t, test.pod)).By("alice"))
			if test.policy == "" {
				result.Refused(t, 403, `pods "p" is forbidden: PodSecurityPolicy: `+test.want)
				return
			}
			result.Admitted(t)
			pod := result.Object.(*corev1.Pod)
			if got := pod.Annotations[annotation]; got != test.policy || result.Annotations[admitAudit] != test.policy {
				t.Errorf("admitted by %s, noted %q, want %s", got, result.Annotations, test.policy)
			}
			var user int64
			if sc := pod.Spec.Containers[0].SecurityContext; sc != nil && sc.RunAsUser != nil {
				user = *sc.RunAsUser
			}
			if user != test.user {
				t.Errorf("user %d, want %d", user, test.user)
			}
			if r := c.Validate(t,
				plugintest.Create(pod).By("alice")).Admitted(t); r.Annotations[validateAudit] != test.policy {
				t.Errorf("then validated by %q", r.Annotations)
			}
		})
	}
}

func TestWithoutPolicies(t *testing.T) {
	c := newCluster(t, rights{})
	const want = `pods "p" is forbidden: PodSecurityPolicy: no providers available to validate pod request: the ` +
		`cluster has no PodSecurityPolicy`
	c.Admit(t, plugintest.Create(newPod(t, plain))).Refused(t, 403, want)
	c.Validate(t, plugintest.Create(newPod(t, plain))).Refused(t, 403, want)
}

// What somebody wrote in the annotation decides nothing when a pod is created, and only what is
// tried first when it is validated.
func TestAnnotation(t *testing.T) {
	c := newCluster(t, rights{"alice a", "alice b"}, newPSP(t, "a", ""), newPSP(t, "b", ""),
		newPSP(t, "not-allowed", ""))
	for written, validated := range map[string]string{"b": "b", "not-allowed": "a", "gone": "a"} {
		pod := annotated(newPod(t, plain), annotation, written)
		result := c.Admit(t, plugintest.Create(pod).By("alice")).Admitted(t)
		if got := result.Object.(*corev1.Pod).Annotations[annotation]; got != "a" {
			t.Errorf("%s: admitted by %s", written, got)
		}
		if got := c.Validate(t,
			plugintest.Create(pod).By("alice")).Admitted(t).Annotations[validateAudit]; got != validated {
			t.Errorf("%s: validated by %s", written, got)
		}
	}
}

// Between the phases anything may change the pod.
func TestValidate(t *testing.T) {
	c := newCluster(t, rights{"alice a"}, newPSP(t, "a", `runAsUser: {rule: MustRunAs, ranges: [{min: 5, max: 5}]}`))
	c.Validate(t, plugintest.Create(newPod(t, plain)).By("alice")).Refused(t, 403,
		`pods "p" is forbidden: PodSecurityPolicy: unable to validate pod: `+
			`[spec.containers[0].securityContext.runAsUser: must be set, and is set only when a pod is created]`)
	five := newPod(t, `{containers: [{name: c, securityContext: {runAsUser: 5}}]}`)
	c.Validate(t, plugintest.Create(five).By("alice")).Admitted(t)
	c.Validate(t, plugintest.Create(five).By("bob")).Refused(t, 403,
		`pods "p" is forbidden: PodSecurityPolicy: unable to validate pod: []: there is no PodSecurityPolicy that `+
			`may be used (RBAC verb use) by bob`)
}

func TestUpdates(t *testing.T) {
	c := newCluster(t, rights{"alice strict"}, newPSP(t, "strict", ""))
	old := newPod(t, `{containers: [{name: c, securityContext: {privileged: true}}]}`)
	const refused = `pods "p" is forbidden: PodSecurityPolicy: unable to validate pod: ` +
		`[spec.containers[0].securityContext.privileged: Invalid value: true: Privileged containers are not allowed]`

	labelled := old.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	c.Validate(t, plugintest.Update(labelled, old).By("alice")).Refused(t, 403, refused)
	if r := c.Admit(t, plugintest.Update(labelled, old).By("alice")).Admitted(t); r.Changed {
		t.Error("an update is changed")
	}

	// As rbac.IsOnlyMutatingGCFields of Kubernetes has it.
	collected := old.DeepCopy()
	collected.Finalizers, collected.OwnerReferences = []string{"a/b"}, []metav1.OwnerReference{{Name: "o"}}
	collected.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m"}}
	c.Validate(t, plugintest.Update(collected, old).By("nobody")).Admitted(t)
	c.Validate(t, plugintest.Update(old, collected).By("nobody")).Admitted(t)

	fine := newPod(t, plain)
	debugged := fine.DeepCopy()
	debugged.Spec.EphemeralContainers = []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e"}},
	}
	request := plugintest.Update(debugged, fine).On("pods", "ephemeralcontainers").By("alice")
	c.Validate(t, request).Admitted(t)
	debugged.Spec.EphemeralContainers[0].SecurityContext = newPod(t,
		`{containers: [{name: c, securityContext: {privileged: true}}]}`).Spec.Containers[0].SecurityContext
	c.Validate(t, request).Refused(t, 403, strings.Replace(refused, "containers[0]", "ephemeralContainers[0]", 1))
}

func TestNotConcerned(t *testing.T) {
	c := newCluster(t, rights{})
	pod := newPod(t, plain)
	for name, request := range map[string]plugintest.Request{
		"status":     plugintest.Update(pod, pod).On("pods", "status"),
		"binding":    plugintest.Create(&corev1.Binding{ObjectMeta: pod.ObjectMeta}).On("pods", "binding"),
		"a service":  plugintest.Create(&corev1.Service{ObjectMeta: pod.ObjectMeta}),
		"a deletion": plugintest.Delete(pod),
	} {
		t.Run(name, func(t *testing.T) {
			c.Admit(t, request).Admitted(t)
			c.Validate(t, request).Admitted(t)
		})
	}
	c.Admit(t, plugintest.Create(&corev1.Service{ObjectMeta: pod.ObjectMeta}).On("pods", "")).
		Refused(t, 400, "PodSecurityPolicy: the object of a request for pods is a *v1.Service")
}

// A policy applies as soon as the cache has it.
func TestPoliciesChange(t *testing.T) {
	const none = `pods "p" is forbidden: PodSecurityPolicy: no providers available to validate pod request: the ` +
		`cluster has no PodSecurityPolicy`
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, rights{"alice a"})
		policies := c.client.Resource(policyv1beta1.PodSecurityPolicies)
		request := plugintest.Create(newPod(t, `{hostPID: true, containers: [{name: c}]}`)).By("alice")
		c.Admit(t, request).Refused(t, 403, none)

		psp := newPSP(t, "a", "hostPID: true")
		if _, err := policies.Create(t.Context(), unstructuredOf(t, psp), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c.Admit(t, request).Admitted(t)

		psp.Spec.HostPID = false
		if _, err := policies.Update(t.Context(), unstructuredOf(t, psp), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c.Admit(t, request).Refused(t, 403,
			`pods "p" is forbidden: PodSecurityPolicy: unable to admit pod: [spec.securityContext.hostPID: Invalid `+
				`value: true: Host PID is not allowed to be used]`)

		if err := policies.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c.Admit(t, request).Refused(t, 403, none)
	})
}

func TestWhatIsMissing(t *testing.T) {
	allow := authorizer.AuthorizerFunc(func(context.Context, authorizer.Attributes) (authorizer.Decision, string,
		error) {
		return authorizer.DecisionAllow, "", nil
	})
	for name, test := range map[string]struct {
		env    plugin.Env
		config string
		want   string
	}{
		"authorizer": {want: "PodSecurityPolicy needs an authorizer"},
		"dynamic client": {env: plugin.Env{Authorizer: allow},
			want: "PodSecurityPolicy needs a dynamic client"},
		"nothing, but a configuration is given": {config: "a: b",
			want: "PodSecurityPolicy takes no configuration, but is given one"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Descriptor.New(strings.NewReader(test.config), &test.env); err == nil ||
				err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// Whatever a pod and a policy say, the plugin decides, changes only a copy, and accepts what it
// made.
func FuzzAnnotations(f *testing.F) {
	f.Add("runtime/default", "*", "localhost/a", "localhost/a", "localhost/a,unconfined", "unconfined", "kernel*",
		"kernel/a", "/a/..")
	f.Add("", "", "", "", "", "", "", "", "")
	f.Add("localhost/", ",", "docker/default", "x", ",,", "localhost/", "*", "*", "//")
	f.Fuzz(func(t *testing.T, seccompFallback, seccomp, seccompPod, appArmorFallback, appArmor, appArmorPod, pattern,
		sysctl, path string) {
		psp := newPSP(t, "policy", `{volumes: [hostPath], allowedHostPaths: [{pathPrefix: /a, readOnly: true}]}`)
		psp.Spec.AllowedUnsafeSysctls = []string{pattern}
		psp.Annotations = map[string]string{seccompDefault: seccompFallback, seccompAllowed: seccomp,
			appArmorDefault: appArmorFallback, appArmorAllowed: appArmor}
		pod := newPod(t,
			`{containers: [{name: c, volumeMounts: [{name: v, mountPath: /}]}], volumes: [{name: v, hostPath: `+
				`{path: /}}], securityContext: {sysctls: [{name: x, value: "1"}]}}`)
		pod.Annotations = map[string]string{corev1.SeccompPodAnnotationKey: seccompPod, appArmorOfC: appArmorPod}
		pod.Spec.SecurityContext.Sysctls[0].Name, pod.Spec.Volumes[0].HostPath.Path = sysctl, path
		before := pod.DeepCopy()
		got, reasons := verdict(psp, pod)
		if !reflect.DeepEqual(pod, before) {
			t.Errorf("the pod itself is changed:\n%v, was\n%v", pod, before)
		}
		again, more := verdict(psp, got)
		if !reflect.DeepEqual(again, got) || !slices.Equal(more, reasons) {
			t.Errorf("first\n%v%q\nthen\n%v%q", got, reasons, again, more)
		}
	})
}

func BenchmarkPlainPod(b *testing.B) {
	p := newPolicy(newPSP(b, "policy",
		`{volumes: [secret, configMap, projected], requiredDropCapabilities: [ALL], allowPrivilegeEscalation: false}`))
	pod := newPod(b,
		`{containers: [{name: c, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}], `+
			`volumes: [{name: v, secret: {secretName: s}}]}`)
	b.ReportAllocs()
	for b.Loop() {
		d := &draft{pod: pod, creating: true}
		p.setDefaults(d)
		if reasons := p.check(d.pod); len(reasons) > 0 || d.set != nil {
			b.Fatal(errors.Join(reasons...))
		}
	}
}

func unstructuredOf(t *testing.T, psp *policyv1beta1.PodSecurityPolicy) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(psp)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(policyv1beta1.SchemeGroupVersion.WithKind("PodSecurityPolicy"))
	return u
}
