// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	baseversion "k8s.io/component-base/version"

	"gatehouse.dev/review"
	"gatehouse.dev/test/needs"
)

// ofVersions are manifests with which versions of Kubernetes deal differently, and a policy for their
// state.
const ofVersions = `
apiVersion: v1
kind: Service
metadata: {name: 1web}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: zeros}
spec: {ports: [{port: 80}], externalIPs: ["010.1.2.3"]}
---
apiVersion: v1
kind: Pod
metadata: {name: host}
spec: {hostnameOverride: db, serviceAccountName: default, containers: [{name: c, image: i}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: policy}
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [secrets]}]}
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/immutable', value: true}]"}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: same}
`

// testedVersions returns the version in the program, the one before it, and the oldest one that it
// can be like.
func testedVersions() []*version.Version {
	all := review.KubernetesVersions()
	return []*version.Version{version.MustParse(all[len(all)-1]), version.MustParse(all[len(all)-2]),
		version.MustParse(all[0])}
}

// The versions are those that Kubernetes' own rule has.
func TestKubernetesVersions(t *testing.T) {
	own := version.MustParse(baseversion.DefaultKubeBinaryVersion)
	var want []string
	for back := 3; back >= 0; back-- {
		want = append(want, own.SubtractMinor(uint(back)).String())
	}
	if got := review.KubernetesVersions(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A version has the verdicts of its own: its APIs, feature gates and rules.
func TestReviewVersions(t *testing.T) {
	needs.Server(t)
	inFolder(t, map[string]string{"in.yaml": ofVersions})
	for i, v := range testedVersions() {
		stdout, stderr, code := runProgram(t, "review", "in.yaml", "--kubernetes-version="+v.String())
		from := func(minor uint, then, before string) string {
			if v.Minor() >= minor {
				return then
			}
			return before
		}
		for _, want := range []string{
			"admitted  ConfigMap default/same          in.yaml:25\n",
			// RelaxedServiceNameValidation is on since 1.36, and so is StrictIPCIDRValidation.
			from(36, "admitted", "refused ") + "  Service default/1web            in.yaml:2\n",
			from(36, "refused ", "admitted") + "  Service default/zeros           in.yaml:7\n",
			from(36, "admitted", "failed  ") + "  MutatingAdmissionPolicy policy  in.yaml:17\n",
			from(36, "", `version "admissionregistration.k8s.io/v1": it comes with Kubernetes 1.36, and this judges as `+
				v.String()+" does\n"),
			// HostnameOverride is on since 1.35.
			from(35, "", "note: in.yaml:12: Pod default/host: not stored: spec.hostnameOverride: off in Kubernetes "+
				v.String()+", or unknown there and refused\n"),
			from(36, "4 admitted, 1 refused, 0 failed\n", "3 admitted, 1 refused, 1 failed\n"),
		} {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: no %q", v, want)
			}
		}
		if emulated := strings.Contains(stdout, "note: judged as Kubernetes "+v.String()+", which "); emulated != (i > 0) {
			t.Errorf("%s: a note about emulation: %t", v, emulated)
		}
		if v.Minor() >= 35 && strings.Contains(stdout, "not stored") {
			t.Errorf("%s: something isn't stored", v)
		}
		if want := map[bool]int{true: review.ExitRefused, false: review.ExitFailed}[v.Minor() >= 36]; code != want ||
			stderr != "" {
			t.Errorf("%s: it ended with %d, want %d, and said %q", v, code, want, stderr)
		}
		if t.Failed() {
			t.Fatalf("%s:\n%s", v, stdout)
		}
	}
}

// A field that a version doesn't store is named only if a server of that version may refuse it.
func TestReviewNotStored(t *testing.T) {
	needs.Server(t)
	versions := testedVersions()
	objects := ofVersions[strings.Index(ofVersions, "apiVersion: v1\nkind: Pod"):]
	pod, _, _ := strings.Cut(objects, "---")
	inFolder(t, map[string]string{"in.yaml": objects, "state.yaml": pod})
	for _, flags := range []string{"", "--validate=ignore", "--operation=apply", "--operation=update --state=state.yaml"} {
		stdout, stderr, _ := runProgram(t, append([]string{"review", "in.yaml", "--ignore-unknown",
			"--kubernetes-version=" + versions[2].String()}, strings.Fields(flags)...)...)
		named := strings.Contains(stdout, ": Pod default/host: not stored: spec.hostnameOverride: off in")
		if named != (versions[2].Minor() < 35 && flags != "--validate=ignore") {
			t.Errorf("%s: it is named: %t, in\n%s%s", flags, named, stdout, stderr)
		}
	}
}

// A kind that a version doesn't yet deprecate is admitted without the warning that it is.
func TestReviewDeprecatedLater(t *testing.T) {
	needs.Server(t)
	inFolder(t, map[string]string{"in.yaml": "apiVersion: resource.k8s.io/v1beta2\nkind: ResourceClaimTemplate\n" +
		"metadata: {name: c}\nspec: {spec: {}}\n"})
	for _, v := range testedVersions() {
		stdout, stderr, code := runProgram(t, "review", "in.yaml", "--kubernetes-version="+v.String(),
			"--runtime-config=resource.k8s.io/v1beta2=true,resource.k8s.io/v1beta1=true", "-o", "json")
		var got review.Review
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 || len(got.Results) != 1 {
			t.Fatalf("%s: it ended with %d, and said %s%s", v, code, stdout, stderr)
		}
		warned := slices.ContainsFunc(got.Results[0].Warnings, func(w string) bool {
			return strings.HasPrefix(w, "resource.k8s.io/v1beta2 ResourceClaimTemplate is deprecated in v1.36+")
		})
		if warned != (v.Minor() >= 36) {
			t.Errorf("%s: warnings %q", v, got.Results[0].Warnings)
		}
	}
}

// The version that the user names counts, and not the one in the file of --like.
func TestReviewVersionLike(t *testing.T) {
	needs.Server(t)
	versions := testedVersions()
	inFolder(t, map[string]string{"in.yaml": configMap + "c}\n",
		"like": "kube-apiserver --emulated-version=" + versions[1].String() + "\n"})
	for flags, want := range map[string]string{
		"--like=like": versions[1].String(),
		"--like=like --kubernetes-version=v" + versions[2].String(): versions[2].String(),
	} {
		stdout, stderr, code := runProgram(t, append([]string{"review", "in.yaml"}, strings.Fields(flags)...)...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, "note: judged as Kubernetes "+want+", which ") {
			t.Errorf("%s: it ended with %d, and said %s%s", flags, code, stdout, stderr)
		}
	}
}

// A version that can't be emulated is refused, with those that can.
func TestVersionsUsage(t *testing.T) {
	inFolder(t, map[string]string{"in.yaml": configMap + "c}\n"})
	all := review.KubernetesVersions()
	versions := testedVersions()
	older, newer := versions[2].SubtractMinor(1).String(), versions[0].AddMinor(1).String()
	const flag = " --kubernetes-version="
	for args, want := range map[string]string{
		"review in.yaml" + flag + older:             older,
		"review in.yaml" + flag + newer:             newer,
		"review in.yaml" + flag + all[0] + ".4":     all[0] + ".4",
		"test ." + flag + newer:                     newer,
		"review in.yaml" + flag + "latest":          "latest",
		"review in.yaml" + flag + "kube=" + all[0]:  "kube=" + all[0],
		"review in.yaml" + flag + "v" + newer + "x": "v" + newer + "x",
	} {
		stdout, stderr, code := runCommand(t, strings.Fields(args)...)
		want := fmt.Sprintf("gatehouse: --kubernetes-version: %q is none of %s, the versions that this program can judge "+
			"as: use a release of gatehouse for that version\n", want, strings.Join(all, ", "))
		if stdout != "" || stderr != want || code != ExitUsage {
			t.Errorf("%s: got %q, %q, exit code %d, want %q", args, stdout, stderr, code, want)
		}
	}
	_, stderr, code := runProgram(t, "review", "in.yaml", "--kubernetes-version="+all[0], "--emulated-version="+all[0])
	if code != ExitUsage || stderr != "gatehouse: --kubernetes-version and --emulated-version: only one can be given\n" {
		t.Errorf("with both flags: %d, %q", code, stderr)
	}
}

// Suites are judged as the version of the command line; a suite has none of its own.
func TestSuitesOfVersions(t *testing.T) {
	needs.Server(t)
	const cases = "  cases:\n  - {name: web, object: {apiVersion: v1, kind: Service, metadata: {name: 1web}, spec: " +
		"{ports: [{port: 80}]}}, expect: {verdict: Admitted}}\n  - {name: host, object: {apiVersion: v1, kind: Pod, " +
		"metadata: {name: host}, spec: {hostnameOverride: db, containers: [{name: c, image: i}]}}, expect: {verdict: " +
		"Admitted}}\n"
	const suite = "apiVersion: gatehouse.dev/v1alpha1\nkind: AdmissionTest\nspec:\n"
	for _, v := range testedVersions() {
		inFolder(t, map[string]string{"web.yaml": suite + cases})
		stdout, stderr, code := runProgram(t, "test", "--kubernetes-version="+v.String())
		wantCode, last := 0, "\n2 passed, 0 failed, 0 errors\n"
		if v.Minor() < 36 {
			wantCode, last = 1, "\n1 passed, 1 failed, 0 errors\n"
		}
		warned := strings.Contains(stdout, "warning: web.yaml:6: Pod default/host: not stored: spec.hostnameOverride: off in")
		noted := strings.Contains(stdout, "\nnote: judged as Kubernetes "+v.String()+", which ")
		if code != wantCode || stderr != "" || !strings.HasSuffix(stdout, last) || warned != (v.Minor() < 35) ||
			noted != (v.String() != baseversion.DefaultKubeBinaryVersion) {
			t.Errorf("%s: it ended with %d, and said\n%s%s", v, code, stdout, stderr)
		}
	}
	inFolder(t, map[string]string{"web.yaml": suite + "  flags: [--kubernetes-version=1.36]\n" + cases})
	stdout, _, code := runCommand(t, "test")
	if code != review.ExitFailed || !strings.Contains(stdout, "--kubernetes-version holds for the whole process") {
		t.Errorf("with a version in the suite: %d\n%s", code, stdout)
	}
}
