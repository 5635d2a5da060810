// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"gatehouse.dev/gatehousetest"
	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
	"gatehouse.dev/test/servertest"
)

// use is the right to use a policy.
func use(policy string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{"policy"}, Resources: []string{"podsecuritypolicies"},
		ResourceNames: []string{policy}, Verbs: []string{"use"}}
}

func TestPodSecurityPolicy(t *testing.T) {
	t.Parallel()
	c := servertest.Start(t, gatehousetest.WithPlugins("PodSecurityPolicy"))
	namespace := c.Namespace(t, nil)
	alice := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: "alice"}
	c.Kubectl(t, namespace).OK("", "create", "rolebinding", "alice", "--clusterrole=edit", "--user=alice")
	c.Grant(t, namespace, alice, rbacv1.PolicyRule{APIGroups: []string{""},
		Resources: []string{"pods/ephemeralcontainers"}, Verbs: []string{"update"}})
	pods := kubernetes.NewForConfigOrDie(c.As("alice")).CoreV1().Pods(namespace)

	servertest.Retry(t, "RBAC to know what alice may do", func() error {
		_, err := pods.Create(t.Context(), servertest.Pod("early"), metav1.CreateOptions{})
		if want := `pods "early" is forbidden: PodSecurityPolicy: no providers available to validate pod request: ` +
			`the cluster has no PodSecurityPolicy`; !apierrors.IsForbidden(err) || err.Error() != want {
			return fmt.Errorf("got %v, want %s", err, want)
		}
		return nil
	})

	policies := c.Dynamic.Resource(policyv1beta1.PodSecurityPolicies)
	for _, manifest := range []string{`
apiVersion: policy/v1beta1
kind: PodSecurityPolicy
metadata:
  name: restricted
  annotations:
    seccomp.security.alpha.kubernetes.io/allowedProfileNames: runtime/default
    seccomp.security.alpha.kubernetes.io/defaultProfileName: runtime/default
    apparmor.security.beta.kubernetes.io/allowedProfileNames: runtime/default
    apparmor.security.beta.kubernetes.io/defaultProfileName: runtime/default
spec:
  allowPrivilegeEscalation: false
  requiredDropCapabilities: [ALL]
  readOnlyRootFilesystem: true
  volumes: [secret, projected]
  seLinux: {rule: MustRunAs, seLinuxOptions: {level: "s0:c1,c2"}}
  runAsUser: {rule: MustRunAs, ranges: [{min: 1000, max: 1999}]}
  runAsGroup: {rule: MustRunAs, ranges: [{min: 1000, max: 1999}]}
  supplementalGroups: {rule: MustRunAs, ranges: [{min: 5, max: 5}]}
  fsGroup: {rule: MustRunAs, ranges: [{min: 6, max: 6}]}
`, `
apiVersion: policy/v1beta1
kind: PodSecurityPolicy
metadata: {name: zz-host}
spec:
  hostNetwork: true
  hostPorts: [{min: 80, max: 90}]
  volumes: ["*"]
  seLinux: {rule: RunAsAny}
  runAsUser: {rule: RunAsAny}
  supplementalGroups: {rule: RunAsAny}
  fsGroup: {rule: RunAsAny}
`} {
		if _, err := policies.Create(t.Context(), servertest.Parsed(t, manifest), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c.Grant(t, namespace, alice, use("restricted"))
	servertest.Retry(t, "the policy to be alice's", func() error {
		_, err := pods.Create(t.Context(), servertest.Pod("try"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})

	made, err := pods.Create(t.Context(), servertest.Pod("plain"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod, own := made.Spec.SecurityContext, made.Spec.Containers[0].SecurityContext
	if made.Annotations["kubernetes.io/psp"] != "restricted" || pod.SELinuxOptions.Level != "s0:c1,c2" ||
		*pod.FSGroup != 6 || pod.SupplementalGroups[0] != 5 ||
		pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *own.RunAsUser != 1000 ||
		*own.RunAsGroup != 1000 || !*own.ReadOnlyRootFilesystem ||
		*own.AllowPrivilegeEscalation || own.Capabilities.Drop[0] != "ALL" ||
		own.AppArmorProfile.Type != corev1.AppArmorProfileTypeRuntimeDefault {
		t.Errorf("annotations %v, pod %v, container %v", made.Annotations, pod, own)
	}
	// What the policy made of the pod it allows ever after.
	made.Labels = map[string]string{"a": "b"}
	if _, err := pods.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Errorf("an update: %v", err)
	}

	host := servertest.Pod("host")
	host.Spec.HostNetwork = true
	host.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 88}}
	_, err = pods.Create(t.Context(), host, metav1.CreateOptions{})
	want := `pods "host" is forbidden: PodSecurityPolicy: unable to admit pod: ` +
		`[spec.securityContext.hostNetwork: Invalid value: true: Host network is not allowed to be used ` +
		`spec.containers[0].hostPort: Invalid value: 88: Host port 88 is not allowed to be used. Allowed ports: []]`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}

	// A service account that may use another policy lends it to the pods that run as it, whoever
	// makes them.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}
	if _, err := c.Client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Grant(t, namespace, rbacv1.Subject{Kind: "ServiceAccount", Name: "agent", Namespace: namespace}, use("zz-host"))
	host.Spec.ServiceAccountName = "agent"
	servertest.Retry(t, "the policy to be the account's", func() error {
		made, err = pods.Create(t.Context(), host, metav1.CreateOptions{})
		return err
	})
	if made.Annotations["kubernetes.io/psp"] != "zz-host" {
		t.Errorf("annotations %v", made.Annotations)
	}

	// An ephemeral container is held to the policy, and must say what it requires.
	debugged, err := pods.Get(t.Context(), "plain", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	debugged.Spec.EphemeralContainers = []corev1.EphemeralContainer{
		{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "i"}},
	}
	_, err = pods.UpdateEphemeralContainers(t.Context(), "plain", debugged, metav1.UpdateOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("a container that says nothing: %v", err)
	}
	debugged.Spec.EphemeralContainers[0].SecurityContext = own
	if _, err := pods.UpdateEphemeralContainers(t.Context(), "plain", debugged, metav1.UpdateOptions{}); err != nil {
		t.Errorf("a container that says it all: %v", err)
	}
}
