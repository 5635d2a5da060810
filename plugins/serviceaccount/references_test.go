// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/plugin/plugintest"
)

func ref(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func envFrom(secret string) []corev1.EnvFromSource {
	return []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref(secret)}}}
}

func env(secret string) []corev1.EnvVar {
	return []corev1.EnvVar{{Name: "PASSWORD",
		ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref(secret),
			Key: "k"}}}}
}

func volume(source corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: source})
	}
}

func projected(source corev1.VolumeProjection) func(*corev1.Pod) {
	return volume(
		corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}})
}

func ephemeral(c corev1.EphemeralContainerCommon) func(*corev1.Pod) {
	c.Name = "e"
	return func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers,
			corev1.EphemeralContainer{EphemeralContainerCommon: c})
	}
}

// secretUses are all ways in which a new pod can use a Secret, and what upstream or, for the fields
// that it doesn't look at, we say of each.
func secretUses(secret string) map[string]func(*corev1.Pod) {
	return map[string]func(*corev1.Pod){
		`volume with secret.secretName="x"`: volume(
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}),
		`volume with projected.sources[0].secret.name="x"`: projected(
			corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: ref(secret)}}),
		`volume with csi.nodePublishSecretRef.name="x"`: volume(
			corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: new(ref(secret))}}),
		`volume with azureFile.secretName="x"`: volume(
			corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: secret}}),
		`container c with envVar PASSWORD referencing secret.secretName="x"`: func(
			p *corev1.Pod) {
			p.Spec.Containers[0].Env = env(secret)
		},
		`container c with envFrom referencing secret.secretName="x"`: func(
			p *corev1.Pod) {
			p.Spec.Containers[0].EnvFrom = envFrom(secret)
		},
		`init container i with envVar PASSWORD referencing secret.secretName="x"`: func(
			p *corev1.Pod) {
			p.Spec.InitContainers[0].Env = env(secret)
		},
		`init container i with envFrom referencing secret.secretName="x"`: func(
			p *corev1.Pod) {
			p.Spec.InitContainers[0].EnvFrom = envFrom(secret)
		},
	}
}

// Upstream: TestRejectsUnreferencedSecretVolumes, TestAllowsReferencedSecret,
// TestAllowUnreferencedSecretVolumesForPermissiveSAs.
func TestSecretsThatTheAccountLists(t *testing.T) {
	listing := func(annotation string) *plugintest.Plugin {
		return plugintest.New(t, Descriptor, "", account("default", func(a *corev1.ServiceAccount) {
			if annotation != "" {
				a.Annotations = map[string]string{"kubernetes.io/enforce-mountable-secrets": annotation}
			}
			a.Secrets = []corev1.ObjectReference{{Name: "listed"}, {Name: "another"}}
		}))
	}
	enforced := map[string]bool{"": false, "true": true, "1": true, "false": false, "yes": false}
	for annotation, enforced := range enforced {
		subject := listing(annotation)
		for what, use := range secretUses("listed") {
			if result := subject.Validate(t, plugintest.Create(pod(named("default"), use))); result.Err != nil {
				t.Errorf("annotation %q, %s: %v", annotation, what, result.Err)
			}
		}
		for what, use := range secretUses("x") {
			result := subject.Validate(t, plugintest.Create(pod(named("default"), use)))
			if enforced {
				result.Refused(t, 403,
					refused(what+" is not allowed because service account default does not reference that secret"))
			} else {
				result.Admitted(t)
			}
		}
	}
}

// Upstream: TestAllowsReferencedImagePullSecrets, TestRejectsUnreferencedImagePullSecrets.
func TestPullSecretsThatTheAccountLists(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", account("default", func(a *corev1.ServiceAccount) {
		a.Annotations = map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}
		a.ImagePullSecrets = []corev1.LocalObjectReference{ref("listed")}
		a.Secrets = []corev1.ObjectReference{{Name: "x"}} // another list
	}))
	uses := func(secrets ...corev1.LocalObjectReference) plugintest.Request {
		return plugintest.Create(pod(named("default"), func(p *corev1.Pod) { p.Spec.ImagePullSecrets = secrets }))
	}
	subject.Validate(t, uses(ref("listed"))).Admitted(t)
	subject.Validate(t, uses(ref("listed"), ref("x"))).Refused(t, 403,
		refused(`imagePullSecrets[1].name="x" is not allowed because service account default does not reference `+
			`that imagePullSecret`))
}

// Upstream: the ephemeral containers of TestRejectsUnreferencedSecretVolumes, which it refuses with
// 500.
func TestEphemeralContainers(t *testing.T) {
	enforcing := func(a *corev1.ServiceAccount) {
		a.Annotations = map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}
		a.Secrets = []corev1.ObjectReference{{Name: "listed"}}
	}
	stored := pod(named("default"), volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x"}}))
	adds := func(change func(*corev1.Pod)) plugintest.Request {
		added := stored.DeepCopy()
		change(added)
		return plugintest.Update(added, stored).On("pods", "ephemeralcontainers")
	}
	const suffix = " is not allowed because service account default does not reference that secret"
	subject := plugintest.New(t, Descriptor, "", account("default", enforcing))
	subject.Validate(t, adds(ephemeral(corev1.EphemeralContainerCommon{}))).Admitted(t)
	subject.Validate(t,
		adds(ephemeral(corev1.EphemeralContainerCommon{EnvFrom: envFrom("listed"), Env: env("listed")}))).Admitted(t)
	subject.Validate(t, adds(ephemeral(corev1.EphemeralContainerCommon{EnvFrom: envFrom("x")}))).
		Refused(t, 403, refused(`ephemeral container e with envFrom referencing secret.secretName="x"`+suffix))
	subject.Validate(t, adds(ephemeral(corev1.EphemeralContainerCommon{Env: env("x")}))).
		Refused(t, 403, refused(`ephemeral container e with envVar PASSWORD referencing secret.secretName="x"`+suffix))
	subject.Validate(t, adds(named(""))).Refused(t, 403, refused("no service account specified for pod ns/p"))
	subject.Validate(t, adds(named("gone"))).
		Refused(t, 403, refused(`error looking up service account ns/gone: serviceaccount "gone" not found`))

	subject = plugintest.New(t, Descriptor, "", account("default"))
	subject.Validate(t, adds(ephemeral(corev1.EphemeralContainerCommon{EnvFrom: envFrom("x")}))).Admitted(t)
}

// Upstream: TestIgnoresMirrorPod, TestRejectsMirrorPodWith…; it looks at accounts, Secrets and
// token projections, and we at all API objects.
func TestMirrorPods(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "", account("default", func(a *corev1.ServiceAccount) {
		a.ImagePullSecrets = []corev1.LocalObjectReference{ref("s")}
	}))
	for want, change := range map[string]func(*corev1.Pod){
		"": volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}}),
		"a mirror pod may not reference service accounts": named("default"),
		"a mirror pod may not reference secrets": volume(
			corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}),
		"a mirror pod may not use ServiceAccountToken volume projections": projected(
			corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}),
		"a mirror pod may not reference configmaps": volume(
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref("m")}}),
		"a mirror pod may not reference persistentvolumeclaims": volume(
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}),
		"a mirror pod may not reference resourceclaims": func(
			p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}}
		},
		"a mirror pod may not reference clustertrustbundles": projected(
			corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}),
		`error checking mirror pod for API references: unknown volume type for volume "v"`: volume(
			corev1.VolumeSource{}),
	} {
		request := plugintest.Create(pod(mirror, change))
		// In both phases: the API's validation, between them, has other words for some.
		for _, result := range []plugintest.Result{subject.Admit(t, request), subject.Validate(t, request)} {
			if result.Changed {
				t.Errorf("%q: the mirror pod is changed", want)
			}
			if want == "" {
				result.Admitted(t)
			} else {
				result.Refused(t, 403, refused(want))
			}
		}
	}
	subject.Validate(t, plugintest.Create(pod(mirror,
		projected(corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{}})))).Admitted(t)
}
