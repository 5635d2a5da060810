// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecuritypolicy

import "testing"

// What the tables of this package state is pkg/security/podsecuritypolicy of Kubernetes 1.24:
// provider.go, and the strategies below it.

func TestContainerFlags(t *testing.T) {
	const plain = `{containers: [{name: c}]}`
	runSpecTests(t, map[string]specTest{
		"nothing asked": {pod: plain},
		"privileged": {
			pod: `{containers: [{name: c, securityContext: {privileged: true}}], initContainers: [{name: i, securityContext: {privileged: true}}],
				ephemeralContainers: [{name: e, securityContext: {privileged: true}}]}`,
			reasons: []string{
				"spec.initContainers[0].securityContext.privileged: Invalid value: true: Privileged containers are " +
					"not allowed",
				"spec.containers[0].securityContext.privileged: Invalid value: true: Privileged containers are not " +
					"allowed",
				"spec.ephemeralContainers[0].securityContext.privileged: Invalid value: true: Privileged containers " +
					"are not allowed",
			},
		},
		"privileged, allowed": {policy: `privileged: true`,
			pod: `{containers: [{name: c, securityContext: {privileged: true}}]}`},
		"a process of the node": {
			pod: `{securityContext: {windowsOptions: {hostProcess: true}}, containers: [{name: c},
				{name: own, securityContext: {windowsOptions: {hostProcess: true}}}]}`,
			reasons: []string{
				"spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: true: Privileged " +
					"containers are not allowed",
				"spec.containers[1].securityContext.windowsOptions.hostProcess: Invalid value: true: Privileged " +
					"containers are not allowed",
			},
		},
		"a process of the node, allowed": {policy: `privileged: true`,
			pod: `{containers: [{name: c, securityContext: {windowsOptions: {hostProcess: true}}}]}`},
		"no process of the node": {
			pod: `{containers: [{name: c, securityContext: {windowsOptions: {hostProcess: false}}}]}`},
		"said not to be": {pod: `{containers: [{name: c, securityContext: {privileged: false}}]}`},
		"read-only by default": {policy: `readOnlyRootFilesystem: true`, pod: plain,
			becomes: `{containers: [{name: c, securityContext: {readOnlyRootFilesystem: true}}]}`},
		"read-only, and is not": {
			policy: `readOnlyRootFilesystem: true`,
			pod:    `{containers: [{name: c, securityContext: {readOnlyRootFilesystem: false}}]}`,
			reasons: []string{"spec.containers[0].securityContext.readOnlyRootFilesystem: Invalid value: false: " +
				"ReadOnlyRootFilesystem must be set to true"},
		},
		"no escalation": {
			policy: `allowPrivilegeEscalation: false`, pod: plain,
			becomes: `{containers: [{name: c, securityContext: {allowPrivilegeEscalation: false}}]}`,
		},
		"no escalation, but asked for": {
			policy: `allowPrivilegeEscalation: false`,
			pod:    `{containers: [{name: c, securityContext: {allowPrivilegeEscalation: true}}]}`,
			reasons: []string{"spec.containers[0].securityContext.allowPrivilegeEscalation: Invalid value: true: " +
				"Allowing privilege escalation for containers is not allowed"},
		},
		"escalation by default": {
			policy: `{allowPrivilegeEscalation: true, defaultAllowPrivilegeEscalation: true}`, pod: plain,
			becomes: `{containers: [{name: c, securityContext: {allowPrivilegeEscalation: true}}]}`,
		},
		"no escalation by default": {
			policy: `{allowPrivilegeEscalation: true, defaultAllowPrivilegeEscalation: false}`, pod: plain,
			becomes: `{containers: [{name: c, securityContext: {allowPrivilegeEscalation: false}}]}`,
		},
		"no escalation by default, but asked for": {
			policy: `{allowPrivilegeEscalation: true, defaultAllowPrivilegeEscalation: false}`,
			pod:    `{containers: [{name: c, securityContext: {allowPrivilegeEscalation: true}}]}`,
		},
	})
}

func TestHost(t *testing.T) {
	const all = `{hostNetwork: true, hostPID: true, hostIPC: true, containers: [{name: c}]}`
	const ports = `{containers: [{name: c, ports: [{containerPort: 80, hostPort: 8080}, {containerPort: 81, ` +
		`hostPort: 9090}, {containerPort: 82}]}]}`
	runSpecTests(t, map[string]specTest{
		"namespaces": {
			pod: all,
			reasons: []string{
				"spec.securityContext.hostNetwork: Invalid value: true: Host network is not allowed to be used",
				"spec.securityContext.hostPID: Invalid value: true: Host PID is not allowed to be used",
				"spec.securityContext.hostIPC: Invalid value: true: Host IPC is not allowed to be used",
			},
		},
		"namespaces, allowed": {policy: `{hostNetwork: true, hostPID: true, hostIPC: true}`, pod: all},
		"ports": {
			pod: ports,
			reasons: []string{
				"spec.containers[0].hostPort: Invalid value: 8080: Host port 8080 is not allowed to be used. " +
					"Allowed ports: []",
				"spec.containers[0].hostPort: Invalid value: 9090: Host port 9090 is not allowed to be used. " +
					"Allowed ports: []",
			},
		},
		"ports, one of them allowed": {
			policy: `hostPorts: [{min: 8000, max: 8080}, {min: 1, max: 1}]`, pod: ports,
			reasons: []string{"spec.containers[0].hostPort: Invalid value: 9090: Host port 9090 is not allowed to " +
				"be used. Allowed ports: [8000-8080,1]"},
		},
		"ports, allowed": {policy: `hostPorts: [{min: 8080, max: 8080}, {min: 9090, max: 9999}]`, pod: ports},
	})
}

func TestProcMount(t *testing.T) {
	const unmasked = `{containers: [{name: c, securityContext: {procMount: Unmasked}}]}`
	reason := []string{`spec.containers[0].securityContext.procMount: Invalid value: "Unmasked": ProcMountType is ` +
		`not allowed`}
	runSpecTests(t, map[string]specTest{
		"unmasked":                   {pod: unmasked, reasons: reason},
		"unmasked, only the default": {policy: `allowedProcMountTypes: [Default]`, pod: unmasked, reasons: reason},
		"unmasked, allowed":          {policy: `allowedProcMountTypes: [Unmasked]`, pod: unmasked},
		"default":                    {pod: `{containers: [{name: c, securityContext: {procMount: Default}}]}`},
		"default, not allowed": {
			policy: `allowedProcMountTypes: [Unmasked]`, pod: `{containers: [{name: c}]}`,
			reasons: []string{`spec.containers[0].securityContext.procMount: Invalid value: "Default": ` +
				`ProcMountType is not allowed`},
		},
	})
}

func TestRuntimeClass(t *testing.T) {
	const none, kata = `{containers: [{name: c}]}`, `{containers: [{name: c}], runtimeClassName: kata}`
	runSpecTests(t, map[string]specTest{
		"without rule": {pod: kata},
		"not allowed": {
			policy: `runtimeClass: {allowedRuntimeClassNames: [gvisor, runc]}`, pod: kata,
			reasons: []string{`spec.runtimeClassName: Invalid value: "kata": must be one of the runtime classes ` +
				`that are allowed: [gvisor,runc]`},
		},
		"none allowed": {
			policy: `runtimeClass: {allowedRuntimeClassNames: []}`, pod: kata,
			reasons: []string{`spec.runtimeClassName: Invalid value: "kata": must be one of the runtime classes ` +
				`that are allowed: []`},
		},
		"none asked":  {policy: `runtimeClass: {allowedRuntimeClassNames: []}`, pod: none},
		"allowed":     {policy: `runtimeClass: {allowedRuntimeClassNames: [gvisor, kata]}`, pod: kata},
		"any allowed": {policy: `runtimeClass: {allowedRuntimeClassNames: ["*"]}`, pod: kata},
		"default": {policy: `runtimeClass: {allowedRuntimeClassNames: ["*"], defaultRuntimeClassName: kata}`,
			pod: none, becomes: kata},
		"default not needed": {policy: `runtimeClass: {allowedRuntimeClassNames: ["*"], defaultRuntimeClassName: ` +
			`gvisor}`, pod: kata},
	})
}

func TestSysctls(t *testing.T) {
	const pod = `{securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: "1"}, {name: kernel.msgmax, ` +
		`value: "1"}]}, containers: [{name: c}]}`
	runSpecTests(t, map[string]specTest{
		"unsafe": {pod: pod,
			reasons: []string{`pod.spec.securityContext.sysctls[1]: Forbidden: unsafe sysctl "kernel.msgmax" is not ` +
				`allowed`}},
		"unsafe, allowed":           {policy: `allowedUnsafeSysctls: [kernel.msgmax]`, pod: pod},
		"unsafe, allowed by prefix": {policy: `allowedUnsafeSysctls: [kernel.msg*]`, pod: pod},
		"unsafe, others allowed": {
			policy: `allowedUnsafeSysctls: [kernel.msg, kernel.shm*]`, pod: pod,
			reasons: []string{`pod.spec.securityContext.sysctls[1]: Forbidden: unsafe sysctl "kernel.msgmax" is not ` +
				`allowed`},
		},
		"all forbidden": {
			policy: `forbiddenSysctls: ["*"]`, pod: pod,
			reasons: []string{
				`pod.spec.securityContext.sysctls[0]: Forbidden: sysctl "net.ipv4.tcp_syncookies" is not allowed`,
				`pod.spec.securityContext.sysctls[1]: Forbidden: sysctl "kernel.msgmax" is not allowed`,
			},
		},
		"forbidden, written with slashes": {
			policy: `{forbiddenSysctls: [kernel.msgmax], allowedUnsafeSysctls: [net.*]}`,
			pod: `{securityContext: {sysctls: [{name: kernel/msgmax, value: "1"}, {name: net/core/somaxconn, ` +
				`value: "1"}]}, containers: [{name: c}]}`,
			reasons: []string{`pod.spec.securityContext.sysctls[0]: Forbidden: sysctl "kernel/msgmax" is not allowed`},
		},
	})
}

func TestSELinux(t *testing.T) {
	const rule = `seLinux: {rule: MustRunAs, seLinuxOptions: {level: "s0:c6,c0", role: r, type: t, user: u}}`
	runSpecTests(t, map[string]specTest{
		"default": {
			policy: rule, pod: `{containers: [{name: c}]}`,
			becomes: `{containers: [{name: c}], securityContext: {seLinuxOptions: {level: "s0:c6,c0", role: r, ` +
				`type: t, user: u}}}`,
		},
		"the same, categories in another order": {
			policy: rule,
			pod: `{containers: [{name: c}], securityContext: {seLinuxOptions: {level: "s0:c0,c6", role: r, ` +
				`type: t, user: u}}}`,
		},
		"others": {
			policy: rule,
			pod: `{containers: [{name: c, securityContext: {seLinuxOptions: {level: "s1:c6,c0", role: r, type: t, user: x}}}],
				securityContext: {seLinuxOptions: {level: "s0", role: w, type: z, user: u}}}`,
			reasons: []string{
				`spec.securityContext.seLinuxOptions.level: Invalid value: "s0": must be s0:c6,c0`,
				`spec.securityContext.seLinuxOptions.role: Invalid value: "w": must be r`,
				`spec.securityContext.seLinuxOptions.type: Invalid value: "z": must be t`,
				`spec.containers[0].securityContext.seLinuxOptions.level: Invalid value: "s1:c6,c0": must be s0:c6,c0`,
				`spec.containers[0].securityContext.seLinuxOptions.user: Invalid value: "x": must be u`,
			},
		},
		"any": {pod: `{containers: [{name: c}], securityContext: {seLinuxOptions: {level: "s0"}}}`},
		"without labels": {
			policy: `seLinux: {rule: MustRunAs}`, pod: `{containers: [{name: c}]}`,
			reasons: []string{"error creating provider for PSP policy: MustRunAs requires SELinuxOptions"},
		},
	})
}

func TestCapabilities(t *testing.T) {
	const plain = `{containers: [{name: c}]}`
	runSpecTests(t, map[string]specTest{
		"default": {
			policy: `{defaultAddCapabilities: [B, A]}`, pod: plain,
			becomes: `{containers: [{name: c, securityContext: {capabilities: {add: [A, B]}}}]}`,
		},
		"default, one of them dropped": {
			policy:  `{defaultAddCapabilities: [A, B]}`,
			pod:     `{containers: [{name: c, securityContext: {capabilities: {drop: [A]}}}]}`,
			becomes: `{containers: [{name: c, securityContext: {capabilities: {add: [B], drop: [A]}}}]}`,
		},
		"required drop": {
			policy:  `{requiredDropCapabilities: [A]}`,
			pod:     `{containers: [{name: c, securityContext: {capabilities: {drop: [B]}}}]}`,
			becomes: `{containers: [{name: c, securityContext: {capabilities: {drop: [A, B]}}}]}`,
		},
		"unsorted, nothing to do": {
			policy: `{requiredDropCapabilities: [A], defaultAddCapabilities: [C]}`,
			pod:    `{containers: [{name: c, securityContext: {capabilities: {drop: [B, A], add: [C]}}}]}`,
		},
		"added": {
			pod:    `{containers: [{name: c, securityContext: {capabilities: {add: [A, B]}}}]}`,
			policy: `{allowedCapabilities: [B]}`,
			reasons: []string{`spec.containers[0].securityContext.capabilities.add: Invalid value: "A": capability ` +
				`may not be added`},
		},
		"added, any allowed": {policy: `{allowedCapabilities: ["*"]}`,
			pod: `{containers: [{name: c, securityContext: {capabilities: {add: [A, B]}}}]}`},
		"added though it must be dropped": {
			policy:  `{requiredDropCapabilities: [A]}`,
			pod:     `{containers: [{name: c, securityContext: {capabilities: {add: [A]}}}]}`,
			becomes: `{containers: [{name: c, securityContext: {capabilities: {add: [A], drop: [A]}}}]}`,
			reasons: []string{`spec.containers[0].securityContext.capabilities.add: Invalid value: "A": capability ` +
				`may not be added`},
		},
	})
	// Where defaults aren't set, as on updates, what lacks them is refused.
	for name, test := range map[string]struct{ policy, pod, want string }{
		"none": {
			`{requiredDropCapabilities: [A]}`, plain,
			"spec.containers[0].securityContext.capabilities: Invalid value: null: required capabilities are not " +
				"set on the securityContext",
		},
		"others": {
			`{requiredDropCapabilities: [A]}`,
			`{containers: [{name: c, securityContext: {capabilities: {drop: [B]}}}]}`,
			`spec.containers[0].securityContext.capabilities.drop: Invalid value: ["B"]: A is required to be ` +
				`dropped but was not found`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			reasons := newPolicy(newPSP(t, "policy", test.policy)).check(newPod(t, test.pod))
			if len(reasons) != 1 || reasons[0].Error() != test.want {
				t.Errorf("got  %v\nwant %s", reasons, test.want)
			}
		})
	}
}
