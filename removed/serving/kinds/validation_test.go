// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func messages(errs field.ErrorList) []string {
	var all []string
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

func check(t *testing.T, got field.ErrorList, want []string) {
	t.Helper()
	if got := messages(got); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Source of the cases: pkg/apis/policy/validation of Kubernetes 1.24.
func TestValidatePodSecurityPolicy(t *testing.T) {
	const rules = `seLinux: {rule: RunAsAny}, runAsUser: {rule: RunAsAny}, supplementalGroups: {rule: RunAsAny}, ` +
		`fsGroup: {rule: RunAsAny}`
	for name, test := range map[string]struct {
		spec        string // besides rules; "-" for none of them
		annotations string
		want        []string
	}{
		"nothing else": {},
		"no rules": {spec: "-", want: []string{
			`spec.runAsUser.rule: Unsupported value: "": supported values: "MustRunAs", "MustRunAsNonRoot", "RunAsAny"`,
			`spec.seLinux.rule: Unsupported value: "": supported values: "MustRunAs", "RunAsAny"`,
			`spec.supplementalGroups.rule: Unsupported value: "": supported values: "MayRunAs", "MustRunAs", ` +
				`"RunAsAny"`,
			`spec.fsGroup.rule: Unsupported value: "": supported values: "MayRunAs", "MustRunAs", "RunAsAny"`,
		}},
		"group rule": {spec: `runAsGroup: {rule: X}`, want: []string{
			`spec.runAsGroup.rule: Unsupported value: "X": supported values: "MustRunAs", "RunAsAny", "MayRunAs"`,
		}},
		"group ranges missing": {spec: `runAsGroup: {rule: MayRunAs}`,
			want: []string{`spec.runAsGroup.ranges: Invalid value: null: must provide at least one range`}},
		"group ranges too many": {spec: `runAsGroup: {rule: RunAsAny, ranges: [{min: 1, max: 1}]}`,
			want: []string{`spec.runAsGroup.ranges: Invalid value: [{"min":1,"max":1}]: Ranges must be empty`}},
		"group ranges turned over": {spec: `runAsGroup: {rule: MustRunAs, ranges: [{min: 2, max: 1}]}`,
			want: []string{`spec.runAsGroup.ranges[0].min: Invalid value: 2: min cannot be greater than max`}},
		"capabilities": {spec: `requiredDropCapabilities: [A, B], defaultAddCapabilities: [A], allowedCapabilities: ` +
			`[B, "*"]`, want: []string{
			`spec.requiredDropCapabilities: Invalid value: ["A","B"]: must be empty when all capabilities are ` +
				`allowed by a wildcard`,
			`spec.defaultAddCapabilities: Invalid value: "A": capability is listed in defaultAddCapabilities and ` +
				`requiredDropCapabilities`,
			`spec.allowedCapabilities: Invalid value: "B": capability is listed in allowedCapabilities and ` +
				`requiredDropCapabilities`,
		}},
		"escalation by default only": {spec: `allowPrivilegeEscalation: false, defaultAllowPrivilegeEscalation: true`,
			want: []string{
				`spec.defaultAllowPrivilegeEscalation: Invalid value: true: Cannot set ` +
					`DefaultAllowPrivilegeEscalation ` +
					`to true without also setting AllowPrivilegeEscalation to true`,
			}},
		"proc mounts": {spec: `allowedProcMountTypes: [Unmasked, X]`,
			want: []string{`spec.allowedProcMountTypes[1]: Unsupported value: "X": supported values: "Default", ` +
				`"Unmasked"`}},
		"host paths": {spec: `allowedHostPaths: [{pathPrefix: /a/../b}, {}, {pathPrefix: /..a}]`,
			want: []string{`spec.allowedHostPaths[0]: Invalid value: "/a/../b": must not contain '..'`,
				`spec.allowedHostPaths[1]: Required value: is required`}},
		"flex drivers": {spec: `allowedFlexVolumes: [{driver: d}, {driver: ""}]`,
			want: []string{`spec.allowedFlexVolumes[1].driver: Required value: must specify a driver`}},
		"CSI drivers": {spec: `allowedCSIDrivers: [{name: d}, {name: ""}]`,
			want: []string{`spec.allowedCSIDrivers[1].name: Required value`}},
		"sysctls": {spec: `allowedUnsafeSysctls: ["", "a/b", "net.*", "kernel.msg*"], forbiddenSysctls: ["*", "b"]`,
			want: []string{
				`spec.allowedUnsafeSysctls[0]: Invalid value: "": empty sysctl not allowed`,
				`spec.allowedUnsafeSysctls[1]: Invalid value: "a/b": must have at most 253 characters and match ` +
					`regex ` +
					`([a-z0-9]([-_a-z0-9]*[a-z0-9])?\.)*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]`,
				`spec.forbiddenSysctls: Forbidden: if '*' is present, must not specify other sysctls`,
				`spec.allowedUnsafeSysctls[0]: Invalid value: "": sysctl overlaps with *`,
				`spec.allowedUnsafeSysctls[1]: Invalid value: "a/b": sysctl overlaps with *`,
				`spec.allowedUnsafeSysctls[2]: Invalid value: "net.*": sysctl overlaps with *`,
				`spec.allowedUnsafeSysctls[3]: Invalid value: "kernel.msg*": sysctl overlaps with *`,
			}},
		"sysctls that overlap": {spec: `allowedUnsafeSysctls: ["a.*", "b", "c"], forbiddenSysctls: ["a.b*", "a.c", ` +
			`"b", "d"]`, want: []string{
			`spec.forbiddenSysctls[0]: Invalid value: "a.b*": sysctl overlaps with a.*`,
			`spec.forbiddenSysctls[1]: Invalid value: "a.c": sysctl overlaps with a.*`,
			`spec.allowedUnsafeSysctls[1]: Invalid value: "b": sysctl overlaps with b`,
		}},
		"runtime classes": {spec: `runtimeClass: {allowedRuntimeClassNames: [a, a, "B"], defaultRuntimeClassName: c}`,
			want: []string{
				`spec.runtimeClass.allowedRuntimeClassNames[1]: Duplicate value: "a"`,
				`spec.runtimeClass.allowedRuntimeClassNames[2]: Invalid value: "B": a lowercase RFC 1123 subdomain ` +
					`must ` +
					`consist of lower case alphanumeric characters, '-' or '.', and must start and end with an ` +
					`alphanumeric character (e.g. 'example.com', regex used for validation is ` +
					`'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
				`spec.runtimeClass.allowedRuntimeClassNames: Required value: default "c" must be allowed`,
			}},
		"any runtime class, and one": {spec: `runtimeClass: {allowedRuntimeClassNames: ["*", a], ` +
			`defaultRuntimeClassName: c}`, want: []string{
			`spec.runtimeClass.allowedRuntimeClassNames: Invalid value: ["*","a"]: if '*' is present, must not ` +
				`specify other RuntimeClass names`,
		}},
		"profiles": {
			annotations: `{seccomp.security.alpha.kubernetes.io/allowedProfileNames: "*,docker/default,x", seccomp.security.alpha.kubernetes.io/defaultProfileName: localhost/../y,
				apparmor.security.beta.kubernetes.io/allowedProfileNames: "runtime/default,y", apparmor.security.beta.kubernetes.io/defaultProfileName: z}`,
			want: []string{
				`metadata.annotations[apparmor.security.beta.kubernetes.io/defaultProfileName]: Invalid value: "z": ` +
					`invalid AppArmor profile name: "z"`,
				`metadata.annotations[apparmor.security.beta.kubernetes.io/allowedProfileNames]: Invalid value: ` +
					`"runtime/default,y": invalid AppArmor profile name: "y"`,
				`metadata.annotations[seccomp.security.alpha.kubernetes.io/defaultProfileName]: Invalid value: ` +
					`"../y": must not contain '..'`,
				`metadata.annotations[seccomp.security.alpha.kubernetes.io/allowedProfileNames]: Invalid value: ` +
					`"x": must be a valid seccomp profile`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := "{" + rules + ", " + test.spec + "}"
			if test.spec == "-" {
				spec = "{}"
			}
			if test.annotations == "" {
				test.annotations = "{}"
			}
			policy := decodePolicy(t, "metadata: {name: p, annotations: "+test.annotations+"}\nspec: "+spec)
			check(t, podSecurityPolicyStrategy{}.Validate(t.Context(), policy), test.want)
			policy.ResourceVersion = "1"
			check(t, podSecurityPolicyStrategy{}.ValidateUpdate(t.Context(), policy, policy), test.want)
		})
	}
	t.Run("name", func(t *testing.T) {
		if errs := (podSecurityPolicyStrategy{}).Validate(t.Context(),
			decodePolicy(t, "metadata: {name: A}\nspec: {"+rules+"}")); len(errs) != 1 ||
			errs[0].Field != "metadata.name" {
			t.Errorf("got %v", errs)
		}
	})
}

// Source of the cases: pkg/apis/settings/validation of Kubernetes 1.19.
func TestValidatePodPreset(t *testing.T) {
	for name, test := range map[string]struct {
		spec string
		want []string
	}{
		"everything": {spec: `{selector: {matchLabels: {a: b}}, env: [{name: A}, {name: FIELD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}], envFrom: [{configMapRef: {name: m}}],
			volumes: [{name: v}], volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional}, {name: v, mountPath: /w}]}`},
		"nothing": {spec: `{}`,
			want: []string{`spec.volumes.env.envFrom.volumeMounts: Required value: must specify at least one`}},
		"selector": {spec: `{selector: {matchExpressions: [{key: a, operator: In}]}, env: [{name: A}]}`, want: []string{
			`spec.selector.matchExpressions[0].values: Required value: must be specified when ` +
				"`operator` is 'In' or 'NotIn'",
		}},
		"env": {spec: `{env: [{name: ""}]}`, want: []string{`spec.env[0].name: Required value`}},
		"envFrom": {spec: `{envFrom: [{}]}`,
			want: []string{"spec.envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"}},
		"volumes": {spec: `{volumes: [{name: v}, {name: v}]}`,
			want: []string{`spec.volumes[1].name: Duplicate value: "v"`}},
		"mounts of no volume": {spec: `{volumeMounts: [{name: v, mountPath: /v}]}`,
			want: []string{`spec.volumeMounts[0].name: Not found: "v"`}},
		"mounts at one path": {spec: `{volumes: [{name: v}], volumeMounts: [{name: v, mountPath: /v}, {name: v, ` +
			`mountPath: /v}]}`, want: []string{`spec.volumeMounts[1].mountPath: Invalid value: "/v": must be unique`}},
	} {
		t.Run(name, func(t *testing.T) {
			preset := decodePreset(t, "metadata: {name: p, namespace: ns}\nspec: "+test.spec)
			check(t, podPresetStrategy{}.Validate(t.Context(), preset), test.want)
			preset.ResourceVersion = "1"
			check(t, podPresetStrategy{}.ValidateUpdate(t.Context(), preset, preset), test.want)
		})
	}
	for length, want := range map[int][]string{
		53: nil,
		54: {"metadata.name: Too long: may not be more than 53 bytes"},
	} {
		t.Run(fmt.Sprintf("a name of %d characters", length), func(t *testing.T) {
			preset := decodePreset(t,
				"metadata: {name: "+strings.Repeat("n", length)+", namespace: ns}\nspec: {env: [{name: A}]}")
			check(t, podPresetStrategy{}.Validate(t.Context(), preset), want)
			preset.ResourceVersion = "1" // what is stored already can be changed
			check(t, podPresetStrategy{}.ValidateUpdate(t.Context(), preset, preset), nil)
		})
	}
	t.Run("namespace", func(t *testing.T) {
		if errs := (podPresetStrategy{}).Validate(t.Context(),
			decodePreset(t, "metadata: {name: p}\nspec: {env: [{name: A}]}")); len(errs) != 1 ||
			errs[0].Field != "metadata.namespace" {
			t.Errorf("got %v", errs)
		}
	})
}
