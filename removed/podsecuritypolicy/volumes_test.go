// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
)

// Every type of volume that pods can have is known by the name of its field, as policies are
// written.
func TestVolumeTypes(t *testing.T) {
	fields := reflect.TypeFor[corev1.VolumeSource]()
	for i := range fields.NumField() {
		name, _, _ := strings.Cut(fields.Field(i).Tag.Get("json"), ",")
		if name == "cephfs" {
			name = "cephFS" // Kubernetes' own exception
		}
		var source corev1.VolumeSource
		reflect.ValueOf(&source).Elem().Field(i).Set(reflect.New(fields.Field(i).Type.Elem()))
		if got := volumeType(&source); string(got) != name {
			t.Errorf("volumes of type %s are %q", name, got)
		}
	}
}

func TestVolumes(t *testing.T) {
	const pod = `{containers: [{name: c}], volumes: [{name: a, emptyDir: {}}, {name: b, nfs: {server: s, path: /}}, ` +
		`{name: z}]}`
	unknown := `spec.volumes[2]: Invalid value: "z": unknown volume type`
	runSpecTests(t, map[string]specTest{
		"none allowed": {
			pod: pod,
			reasons: []string{
				`spec.volumes[0]: Invalid value: "emptyDir": emptyDir volumes are not allowed to be used`,
				`spec.volumes[1]: Invalid value: "nfs": nfs volumes are not allowed to be used`,
				unknown,
			},
		},
		"one allowed": {
			policy: `volumes: [nfs, secret]`, pod: pod,
			reasons: []string{`spec.volumes[0]: Invalid value: "emptyDir": emptyDir volumes are not allowed to be used`,
				unknown},
		},
		"all allowed": {policy: `volumes: ["*"]`, pod: pod, reasons: []string{unknown}},
	})
}

func TestHostPaths(t *testing.T) {
	const pod = `{volumes: [{name: v, hostPath: {path: /foo/bar/}}],
		containers: [{name: c, volumeMounts: [{name: o, mountPath: /o}, {name: v, mountPath: /v}]}],
		initContainers: [{name: i, volumeMounts: [{name: v, mountPath: /v, readOnly: true}]}]}`
	notAllowed := []string{`spec.volumes[0].hostPath.pathPrefix: Invalid value: "/foo/bar/": is not allowed to be used`}
	writes := []string{"spec.containers[0].volumeMounts[1].readOnly: Invalid value: false: must be read-only"}
	const with = `{volumes: [hostPath], allowedHostPaths: `
	runSpecTests(t, map[string]specTest{
		"any": {policy: `volumes: [hostPath]`, pod: pod},
		"not the type": {policy: `allowedHostPaths: [{pathPrefix: /}]`, pod: pod,
			reasons: []string{`spec.volumes[0]: Invalid value: "hostPath": hostPath volumes are not allowed to be ` +
				`used`}},
		"root":               {policy: with + `[{pathPrefix: /}]}`, pod: pod},
		"above":              {policy: with + `[{pathPrefix: /etc}, {pathPrefix: /foo/}]}`, pod: pod},
		"the same":           {policy: with + `[{pathPrefix: /foo/bar}]}`, pod: pod},
		"below":              {policy: with + `[{pathPrefix: /foo/bar/baz}]}`, pod: pod, reasons: notAllowed},
		"only the beginning": {policy: with + `[{pathPrefix: /foo/ba}]}`, pod: pod, reasons: notAllowed},
		"reading": {policy: with + `[{pathPrefix: /foo, readOnly: true}]}`, pod: pod,
			reasons: writes},
		"reading, and writing below": {policy: with + `[{pathPrefix: /foo, readOnly: true}, {pathPrefix: /foo/bar}]}`,
			pod: pod},
	})
}

func TestDrivers(t *testing.T) {
	const pod = `{containers: [{name: c}], volumes: [{name: f, flexVolume: {driver: a/b}}, {name: i, csi: {driver: ` +
		`d}}]}`
	runSpecTests(t, map[string]specTest{
		"any": {policy: `volumes: [flexVolume, csi]`, pod: pod},
		"others": {
			policy: `{volumes: ["*"], allowedFlexVolumes: [{driver: x}], allowedCSIDrivers: [{name: y}]}`, pod: pod,
			reasons: []string{
				`spec.volumes[0].driver: Invalid value: "a/b": Flexvolume driver is not allowed to be used`,
				`spec.volumes[1].csi.driver: Invalid value: "d": Inline CSI driver is not allowed to be used`,
			},
		},
		"these": {policy: `{volumes: ["*"], allowedFlexVolumes: [{driver: x}, {driver: a/b}], allowedCSIDrivers: ` +
			`[{name: d}]}`, pod: pod},
	})
}

// The volume that the plugin ServiceAccount adds to pods, and volumes that only look like it.
func TestAccountToken(t *testing.T) {
	const token = `{serviceAccountToken: {path: token, expirationSeconds: 3607}}`
	const ca = `{configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}}`
	const namespace = `{downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: ` +
		`metadata.namespace}}]}}`
	for name, test := range map[string]struct {
		sources string
		want    bool
	}{
		"all of it":       {token + "," + ca + "," + namespace, true},
		"nothing":         {"", true},
		"for an audience": {`{serviceAccountToken: {path: token, audience: vault}}`, false},
		"another path":    {`{serviceAccountToken: {path: other}}`, false},
		"other config":    {token + `,{configMap: {name: other}}`, false},
		"other fields": {`{downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: ` +
			`metadata.uid}}]}}`, false},
		"no field": {`{downwardAPI: {items: [{path: namespace, resourceFieldRef: {resource: limits.cpu}}]}}`,
			false},
		"a secret":       {token + `,{secret: {name: s}}`, false},
		"a certificate":  {`{podCertificate: {signerName: a/b, keyType: ED25519, credentialBundlePath: x}}`, false},
		"a trust bundle": {`{clusterTrustBundle: {name: b, path: x}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod(t,
				`{containers: [{name: c}], volumes: [{name: v, projected: {sources: [`+test.sources+`]}}]}`)
			wants := map[string]bool{`[secret]`: test.want, `[configMap]`: false, `[projected]`: true}
			for volumes, want := range wants {
				p := newPolicy(newPSP(t, "policy", `volumes: `+volumes))
				if got := p.allowsVolume(policyv1beta1.Projected, &pod.Spec.Volumes[0]); got != want {
					t.Errorf("with volumes %s allowed: %t", volumes, got)
				}
			}
		})
	}
}
