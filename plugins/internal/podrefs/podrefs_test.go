// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podrefs

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func volume(source corev1.VolumeSource) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) { s.Volumes = append(s.Volumes, corev1.Volume{Name: "v", VolumeSource: source}) }
}

func projection(sources ...corev1.VolumeProjection) func(*corev1.PodSpec) {
	return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources}})
}

func container(change func(*corev1.Container)) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		c := corev1.Container{Name: "c"}
		change(&c)
		s.Containers = append(s.Containers, c)
	}
}

func secret() corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: "s"} }

// Upstream: Test_HasAPIObjectReference and TestPodSecrets in
// k8s.io/kubernetes/pkg/api/pod/util_test.go.
func TestFirst(t *testing.T) {
	for name, test := range map[string]struct {
		pod     func(*corev1.PodSpec)
		want    string
		secrets bool
	}{
		"nothing":         {func(*corev1.PodSpec) {}, "", false},
		"service account": {func(s *corev1.PodSpec) { s.ServiceAccountName = "a" }, "serviceaccounts", false},
		"pull secret": {func(
			s *corev1.PodSpec) {
			s.ImagePullSecrets = []corev1.LocalObjectReference{secret()}
		}, "secrets", true},
		"unnamed pull secret": {func(s *corev1.PodSpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{}} }, "",
			false},
		"secret in env": {container(func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{{Name: "A"}, {Name: "B",
				ValueFrom: &corev1.EnvVarSource{
					SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: secret()},
				}}}
		}), "secrets", true},
		"secret in envFrom": {container(func(c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: secret()}}}
		}), "secrets", true},
		"secret in an init container": {func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{
				{EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: secret()}}}},
			}
		}, "secrets", true},
		"secret in an ephemeral container": {func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{
					EnvFrom: []corev1.EnvFromSource{
						{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: secret()}},
					},
				},
			}}
		}, "secrets", true},
		"config map in env": {container(func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{
				{ValueFrom: &corev1.EnvVarSource{
					ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: secret()},
				}},
			}
		}), "configmaps", false},
		"config map in envFrom": {container(func(c *corev1.Container) {
			c.EnvFrom = []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: secret()}},
			}
		}), "configmaps", false},
		"own field in env": {container(func(c *corev1.Container) {
			c.Env = []corev1.EnvVar{
				{ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			}
		}), "", false},
		"resource claim": {func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}} },
			"resourceclaims", false},

		"config map volume": {volume(
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: secret()}}),
			"configmaps", false},
		"unnamed config map volume": {volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}),
			"configmaps (via configmap volumes)", false},
		"secret volume": {volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}),
			"secrets", true},
		"unnamed secret volume": {volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}),
			"secrets (via secret volumes)", false},
		"azure file": {volume(
			corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "s"}}), "secrets", true},
		"azure file without secret": {volume(corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{}}),
			"secrets (via azureFile volumes)", false},
		"CSI": {volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}),
			"csidrivers (via CSI volumes)", false},
		"CSI with secret": {volume(
			corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: new(secret())}}), "secrets", true},
		"glusterfs": {volume(corev1.VolumeSource{Glusterfs: &corev1.GlusterfsVolumeSource{}}),
			"endpoints (via glusterFS volumes)", false},
		"claim": {volume(
			corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}),
			"persistentvolumeclaims", false},
		"ephemeral": {volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}),
			"persistentvolumeclaims (via ephemeral volumes)", false},
		"after a harmless volume": {func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{
				{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}},
			}
		}, "persistentvolumeclaims", false},

		"projected config map": {projection(
			corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: secret()}}),
			"configmaps", false},
		"projected unnamed config map": {projection(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{}}),
			"configmaps (via projected volumes)", false},
		"projected secret": {projection(
			corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: secret()}}), "secrets",
			true},
		"projected unnamed secret": {projection(corev1.VolumeProjection{Secret: &corev1.SecretProjection{}}),
			"secrets (via projected volumes)", false},
		"projected token": {projection(
			corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}),
			"serviceaccounts (via projected volumes)", false},
		"projected trust bundle": {projection(
			corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}), "clustertrustbundles",
			false},
		"projected certificate": {projection(
			corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{}}), "podcertificates", false},
		"projected downward API": {projection(
			corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{}}), "", false},
		"projected after downward API": {projection(
			corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{}},
			corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}),
			"serviceaccounts (via projected volumes)", false},

		"unknown source": {volume(corev1.VolumeSource{}), `unknown volume type for volume "v"`, false},
		"unknown projected source": {projection(corev1.VolumeProjection{}), `unknown source for projected volume "v"`,
			false},
		"volumes that need nothing": {volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			var spec corev1.PodSpec
			test.pod(&spec)
			got, err := First(&spec)
			if err != nil {
				got = err.Error()
			}
			if got != test.want || UsesSecrets(&spec) != test.secrets {
				t.Errorf("got %q, secrets %t; want %q, %t", got, UsesSecrets(&spec), test.want, test.secrets)
			}
		})
	}
}

// Every source of the present API is known: an upgrade of it that adds one fails here.
func TestEverySourceIsKnown(t *testing.T) {
	sources := reflect.TypeFor[corev1.VolumeSource]()
	for i := range sources.NumField() {
		v := corev1.Volume{Name: "v"}
		reflect.ValueOf(&v.VolumeSource).Elem().Field(i).Set(reflect.New(sources.Field(i).Type.Elem()))
		if _, err := inVolume(&v); err != nil {
			t.Errorf("%s: %v", sources.Field(i).Name, err)
		}
	}
	projections := reflect.TypeFor[corev1.VolumeProjection]()
	for i := range projections.NumField() {
		var s corev1.VolumeProjection
		reflect.ValueOf(&s).Elem().Field(i).Set(reflect.New(projections.Field(i).Type.Elem()))
		if _, known := inProjection(&s); !known {
			t.Errorf("projected %s is unknown", projections.Field(i).Name)
		}
	}
}

// Every field of a volume that names a Secret is found: they are recognized by their names.
func TestEverySecretOfAVolumeIsFound(t *testing.T) {
	sources, found := reflect.TypeFor[corev1.VolumeSource](), 0
	for i := range sources.NumField() {
		source := sources.Field(i)
		for j := range source.Type.Elem().NumField() {
			field := source.Type.Elem().Field(j)
			if !strings.HasSuffix(field.Name, "SecretName") && !strings.HasSuffix(field.Name, "SecretRef") {
				continue
			}
			found++
			v := corev1.Volume{}
			made := reflect.New(source.Type.Elem())
			path := strings.Split(source.Tag.Get("json"), ",")[0] + "." + strings.Split(field.Tag.Get("json"), ",")[0]
			if field.Type.Kind() == reflect.String {
				made.Elem().Field(j).SetString("s")
			} else {
				made.Elem().Field(j).Set(reflect.ValueOf(new(secret())))
				path += ".name"
			}
			reflect.ValueOf(&v.VolumeSource).Elem().Field(i).Set(made)
			got := map[string]string{}
			for name, field := range InVolume(&v) {
				got[field] = name
			}
			if want := map[string]string{path: "s"}; !reflect.DeepEqual(got, want) {
				t.Errorf("%s.%s: got %v, want %v", source.Name, field.Name, got, want)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d fields were looked at", found)
	}
}

func TestWhereSecretsAre(t *testing.T) {
	c := corev1.Container{
		EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: secret()}}},
		Env: []corev1.EnvVar{
			{Name: "PLAIN", Value: "x"},
			{Name: "A",
				ValueFrom: &corev1.EnvVarSource{
					SecretKeyRef: &corev1.SecretKeySelector{
						LocalObjectReference: corev1.LocalObjectReference{Name: "t"},
					},
				}},
		},
	}
	v := corev1.Volume{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{
			{DownwardAPI: &corev1.DownwardAPIProjection{}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: secret()}},
		},
	}}}
	var got []string
	for name, where := range InContainer(&c) {
		got = append(got, name+" "+where)
	}
	for name, field := range InVolume(&v) {
		got = append(got, name+" "+field)
	}
	if want := []string{"s envFrom", "t envVar A", "s projected.sources[1].secret.name"}; !reflect.DeepEqual(got,
		want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
