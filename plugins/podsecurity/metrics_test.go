// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecurity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/utils/ptr"

	"gatehouse.dev/plugin/plugintest"
)

// counted are the metrics of the plugin that are not 0, by their names and labels.
func counted(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		switch family.GetName() {
		case "pod_security_evaluations_total", "pod_security_exemptions_total", "pod_security_errors_total":
		default:
			continue
		}
		for _, metric := range family.GetMetric() {
			key := family.GetName()
			for _, label := range metric.GetLabel() {
				key += " " + label.GetName() + "=" + label.GetValue()
			}
			counts[key] = metric.GetCounter().GetValue()
		}
	}
	return counts
}

// Source: upstream's TestRecordEvaluation, TestRecordExemption, TestRecordError and the counts of
// TestValidatePodAndController.
func TestMetrics(t *testing.T) {
	evaluation := func(decision, mode, level, version, rest string) string {
		return "pod_security_evaluations_total decision=" + decision + " mode=" + mode + " policy_level=" + level +
			" policy_version=" + version + " request_operation=" + rest
	}
	failure := func(fatal, rest string) string {
		return "pod_security_errors_total fatal=" + fatal + " request_operation=" + rest
	}
	exemption := func(rest string) string { return "pod_security_exemptions_total request_operation=" + rest }
	const (
		newPod  = "create resource=pod subresource="
		updated = "update resource=pod subresource="
	)
	image := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.Containers[0].Image = "main:2"
		return pod
	}
	elsewhere := hostPod(nil)
	elsewhere.Namespace = "exempt"
	lost := hostPod(nil)
	lost.Namespace = "lost"
	exemptClass := hostPod(func(spec *corev1.PodSpec) { spec.RuntimeClassName = ptr.To("exempt-class") })
	for name, test := range map[string]struct {
		namespace *corev1.Namespace
		request   plugintest.Request
		want      []string
	}{
		"privileged": {labeled(), plugintest.Create(hostPod(nil)),
			[]string{evaluation("allow", "enforce", "privileged", "latest", newPod)}},
		"privileged, updated": {labeled(), plugintest.Update(hostPod(nil), hostPod(nil)),
			[]string{evaluation("allow", "enforce", "privileged", "latest", updated)}},
		"privileged, of a subresource": {labeled(), plugintest.Update(hostPod(nil), hostPod(nil)).On("pods", "resize"),
			[]string{evaluation("allow", "enforce", "privileged", "latest", updated+"resize")}},
		"kept to": {all("baseline"), plugintest.Create(restrictedPod(nil)),
			[]string{evaluation("allow", "enforce", "baseline", "latest", newPod)}},
		"violated": {all("baseline"), plugintest.Create(hostPod(nil)), []string{
			evaluation("deny", "enforce", "baseline", "latest", newPod),
			evaluation("deny", "audit", "baseline", "latest", newPod)}},
		"each mode": {labeled("enforce", "baseline", "enforce-version", "v1.22", "audit", "restricted", "audit-version",
			"v1.36", "warn", "restricted", "warn-version", "v1.99"), plugintest.Create(rootPod()), []string{
			evaluation("allow", "enforce", "baseline", "v1.22", newPod),
			evaluation("deny", "audit", "restricted", "v1.36", newPod),
			evaluation("deny", "warn", "restricted", "future", newPod)}},
		"privileged of a version": {labeled("enforce", "privileged", "enforce-version", "v1.22", "audit", "baseline"),
			plugintest.Create(rootPod()), []string{evaluation("allow", "enforce", "privileged", "latest", newPod)}},
		"an image": {labeled("enforce", "baseline", "warn", "privileged"),
			plugintest.Update(image(rootPod()), rootPod()),
			[]string{evaluation("allow", "enforce", "baseline", "latest", updated)}},
		"nothing of importance": {all("baseline"), plugintest.Update(hostPod(nil), hostPod(nil)), nil},
		"a template": {all("baseline"), plugintest.Create(deployment(hostPod(nil))), []string{
			evaluation("deny", "audit", "baseline", "latest", "create resource=controller subresource="),
			evaluation("deny", "warn", "baseline", "latest", "create resource=controller subresource=")}},
		"a namespace": {labeled(), plugintest.Update(all("baseline"), labeled()), nil},
		"status":      {all("baseline"), plugintest.Update(hostPod(nil), hostPod(nil)).On("pods", "status"), nil},
		"an exempt user": {all("baseline"), plugintest.Create(hostPod(nil)).By("exempt-user"),
			[]string{exemption(newPod)}},
		"exempt namespace": {all("baseline"), plugintest.Create(elsewhere), []string{exemption(newPod)}},
		"an exempt class":  {all("baseline"), plugintest.Create(exemptClass), []string{exemption(newPod)}},
		"an exempt template": {all("baseline"), plugintest.Create(deployment(elsewhere)),
			[]string{exemption("create resource=controller subresource=")}},
		"exempt, of a subresource": {all("baseline"), plugintest.Update(elsewhere, elsewhere).On("pods",
			"ephemeralcontainers"), []string{exemption(updated + "ephemeralcontainers")}},
		"labels unreadable": {labeled("audit", "unknown"), plugintest.Create(hostPod(nil)), []string{
			failure("false", newPod), evaluation("allow", "enforce", "privileged", "latest", newPod)}},
		"no namespace": {labeled(), plugintest.Create(lost), []string{failure("true", newPod)}},
		"no namespace of a template": {labeled(), plugintest.Create(deployment(lost)),
			[]string{failure("true", "create resource=controller subresource=")}},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, exempting, test.namespace)
			for _, when := range []string{"", "after DELETE /metrics: "} {
				if when != "" {
					legacyregistry.Reset()
				}
				before := counted(t)
				subject.Validate(t, test.request)
				got := map[string]float64{}
				for key, count := range counted(t) {
					if count -= before[key]; count != 0 {
						got[key] = count
					}
				}
				for _, want := range test.want {
					if got[want] != 1 {
						t.Errorf("%s%s: %v", when, want, got[want])
					}
					delete(got, want)
				}
				if len(got) > 0 {
					t.Errorf("%scounted besides: %v", when, got)
				}
			}
		})
	}
	// What an alert is made of is there before it happens.
	for _, key := range []string{evaluation("allow", "enforce", "privileged", "latest", newPod),
		evaluation("allow", "enforce", "privileged", "latest", updated), exemption(newPod), exemption(updated),
		exemption("create resource=controller subresource="), exemption("update resource=controller subresource=")} {
		if _, ok := counted(t)[key]; !ok {
			t.Errorf("there is no %s", key)
		}
	}
}
