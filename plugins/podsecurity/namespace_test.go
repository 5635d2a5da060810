// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecurity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/plugin/plugintest"
)

const (
	noLevel   = `must be one of privileged, baseline, restricted`
	noVersion = `must be "latest" or "v1.x"`
)

func wrongLabel(label, value, why string) string {
	return `metadata.labels[pod-security.kubernetes.io/` + label + `]: Invalid value: "` + value + `": ` + why
}

// Source: upstream's TestValidateNamespace (create …).
func TestNewNamespaces(t *testing.T) {
	for name, test := range map[string]struct {
		namespace *corev1.Namespace
		refused   string
	}{
		"no labels":            {labeled(), ""},
		"privileged":           {labeled("enforce", "privileged", "enforce-version", "v1.0"), ""},
		"baseline":             {labeled("enforce", "baseline"), ""},
		"restricted":           {all("restricted"), ""},
		"a version to come":    {labeled("enforce", "baseline", "enforce-version", "v1.10000"), ""},
		"a level that is none": {labeled("enforce", "unknown"), wrongLabel("enforce", "unknown", noLevel)},
		"an empty level":       {labeled("enforce", ""), wrongLabel("enforce", "", noLevel)},
		"no version": {labeled("enforce", "privileged", "enforce-version", "unknown"),
			wrongLabel("enforce-version", "unknown", noVersion)},
		"another major version": {labeled("warn-version", "v2.0"), wrongLabel("warn-version", "v2.0", noVersion)},
		"half a version":        {labeled("audit-version", "v1"), wrongLabel("audit-version", "v1", noVersion)},
		"leading zeros":         {labeled("audit-version", "v1.01"), wrongLabel("audit-version", "v1.01", noVersion)},
		"too large a version": {labeled("audit-version", "v1.99999999999999999999"),
			wrongLabel("audit-version", "v1.99999999999999999999", noVersion)},
		"every label": {labeled("enforce", "a", "enforce-version", "b", "audit", "c", "audit-version", "d", "warn", "e",
			"warn-version", "f"), "[" + wrongLabel("enforce", "a", noLevel) + ", " +
			wrongLabel("enforce-version", "b", noVersion) + ", " + wrongLabel("audit", "c", noLevel) + ", " +
			wrongLabel("audit-version", "d", noVersion) + ", " + wrongLabel("warn", "e", noLevel) + ", " +
			wrongLabel("warn-version", "f", noVersion) + "]"},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, "")
			result := subject.Validate(t, plugintest.Create(test.namespace))
			if test.refused == "" {
				of(t, result).want(t, said{})
			} else {
				result.Refused(t, 422, `Namespace "ns" is invalid: `+test.refused)
			}
			if calls := subject.Calls(); len(calls) > 0 {
				t.Errorf("calls %q", calls)
			}
		})
	}
}

// Source: upstream's TestValidateNamespace (update …).
func TestUpdatesOfNamespaces(t *testing.T) {
	const (
		checked   = `existing pods in namespace "ns" violate the new PodSecurity enforce level `
		violation = `p: host namespaces`
	)
	for name, test := range map[string]struct {
		old, now *corev1.Namespace
		config   string
		refused  string
		warned   string // the first warning, which is of the pod that is there
	}{
		"nothing":  {old: labeled("enforce", "baseline"), now: labeled("enforce", "baseline")},
		"audit":    {old: labeled(), now: labeled("audit", "restricted")},
		"warn":     {old: labeled(), now: labeled("warn", "restricted")},
		"stricter": {old: labeled(), now: labeled("enforce", "baseline"), warned: checked + `"baseline:latest"`},
		"the strict": {old: labeled("enforce", "baseline"), now: all("restricted"),
			warned: checked + `"restricted:latest"`},
		"laxer": {old: all("restricted"), now: labeled("enforce", "baseline")},
		"laxer, of the version": {old: labeled("enforce", "restricted", "enforce-version", "v1.0"),
			now: labeled("enforce", "baseline", "enforce-version", "v1.0")},
		"laxer, of another version": {old: labeled("enforce", "restricted", "enforce-version", "v1.0"),
			now: labeled("enforce", "baseline", "enforce-version", "v1.1"), warned: checked + `"baseline:v1.1"`},
		"another version": {old: labeled("enforce", "baseline", "enforce-version", "v1.0"),
			now: labeled("enforce", "baseline"), warned: checked + `"baseline:latest"`},
		"the latest, said": {old: labeled("enforce", "baseline"),
			now: labeled("enforce", "baseline", "enforce-version", "latest")},
		"privileged":            {old: labeled("enforce", "restricted"), now: labeled("enforce", "privileged")},
		"privileged by default": {old: labeled("enforce", "restricted", "enforce-version", "v1.0"), now: labeled()},
		"restricted by default": {old: labeled("enforce", "baseline", "enforce-version", "v1.0"), now: labeled(),
			config: configured("enforce: restricted"), warned: checked + `"restricted:latest"`},

		"unreadable as before": {old: labeled("enforce", "unknown"), now: labeled("enforce", "unknown")},
		"a version unreadable as before": {old: labeled("enforce", "baseline", "enforce-version", "unknown"),
			now: labeled("enforce", "baseline", "enforce-version", "unknown")},
		"unreadable as before, and stricter": {old: labeled("warn", "unknown"),
			now: labeled("warn", "unknown", "enforce", "baseline"), warned: checked + `"baseline:latest"`},
		"no longer unreadable": {old: labeled("enforce", "unknown"), now: labeled("enforce", "baseline")},
		"unreadable": {old: labeled("enforce", "restricted"), now: labeled("enforce", "unknown"),
			refused: wrongLabel("enforce", "unknown", noLevel)},
		"a version unreadable": {old: labeled("enforce", "baseline"),
			now:     labeled("enforce", "baseline", "enforce-version", "unknown"),
			refused: wrongLabel("enforce-version", "unknown", noVersion)},
		"otherwise unreadable": {old: labeled("enforce", "unknown"), now: labeled("enforce", "any"),
			refused: wrongLabel("enforce", "any", noLevel)},
		"one more unreadable": {old: labeled("enforce", "unknown"),
			now: labeled("enforce", "unknown", "warn", "unknown"),
			refused: "[" + wrongLabel("enforce", "unknown", noLevel) + ", " +
				wrongLabel("warn", "unknown", noLevel) + "]"},
		"one less unreadable": {old: labeled("enforce", "unknown", "warn", "unknown"),
			now:     labeled("enforce", "unknown"),
			refused: wrongLabel("enforce", "unknown", noLevel)},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, test.config, hostPod(nil))
			result := subject.Validate(t, plugintest.Update(test.now, test.old))
			if test.refused != "" {
				result.Refused(t, 422, `Namespace "ns" is invalid: `+test.refused)
				return
			}
			calls := subject.Calls()
			if test.warned == "" {
				of(t, result).want(t, said{})
				if len(calls) > 0 {
					t.Errorf("calls %q", calls)
				}
				return
			}
			of(t, result).want(t, said{warnings: []string{test.warned, violation}})
			if len(calls) != 1 || calls[0] != "list pods ns/" {
				t.Errorf("calls %q", calls)
			}
		})
	}
}

// configured is a configuration with these defaults.
func configured(defaults string) string {
	return "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n" +
		"defaults: {" + defaults + "}\nexemptions: {namespaces: [exempt], runtimeClasses: [exempt-class]}\n"
}

// Source: upstream's TestExemptNamespaceWarning and TestValidateNamespace (… exempt …).
func TestExemptNamespaces(t *testing.T) {
	const baseline = "enforce: baseline, enforce-version: v1.23, audit: baseline, audit-version: v1.23, " +
		"warn: baseline, warn-version: v1.23"
	exempt := func(pairs ...string) *corev1.Namespace {
		namespace := labeled(pairs...)
		namespace.Name = "exempt"
		return namespace
	}
	for name, test := range map[string]struct {
		namespace *corev1.Namespace
		defaults  string
		created   string // what is ignored, empty where nothing is
		updated   string
	}{
		"nothing": {exempt(), "", "", ""},
		"privileged": {exempt("enforce", "privileged", "enforce-version", "v1.24", "warn-version", "v1.25"), "", "",
			""},
		"enforce": {exempt("enforce", "baseline"), "", "enforce=baseline:latest", "enforce=baseline:latest"},
		// An update that changes nothing of what is enforced isn't looked at.
		"warn":  {exempt("warn", "baseline"), "", "warn=baseline:latest", ""},
		"audit": {exempt("audit", "restricted"), "", "audit=restricted:latest", ""},
		"all of them": {exempt("enforce", "restricted", "enforce-version", "v1.0", "audit", "restricted", "warn",
			"baseline"), "", "enforce=restricted:v1.0, audit=restricted:latest, warn=baseline:latest",
			"enforce=restricted:v1.0, audit=restricted:latest, warn=baseline:latest"},
		"the default":       {exempt(), baseline, "", ""},
		"the default, said": {exempt("enforce", "baseline", "enforce-version", "v1.23"), baseline, "", ""},
		"a version":         {exempt("warn-version", "latest"), baseline, "warn=baseline:latest", ""},
		"privileged of some": {exempt("enforce", "privileged", "warn-version", "v1.22"), baseline,
			"warn=baseline:v1.22", ""},
	} {
		t.Run(name, func(t *testing.T) {
			subject := plugintest.New(t, Descriptor, configured(test.defaults))
			for ignored, request := range map[*string]plugintest.Request{
				&test.created: plugintest.Create(test.namespace),
				&test.updated: plugintest.Update(test.namespace, exempt()),
			} {
				want := said{}
				if *ignored != "" {
					want.warnings = []string{`namespace "exempt" is exempt from Pod Security, and the policy (` +
						*ignored + `) will be ignored`}
				}
				of(t, subject.Validate(t, request)).want(t, want)
			}
			if calls := subject.Calls(); len(calls) > 0 {
				t.Errorf("calls %q", calls)
			}
		})
	}
	// Its labels must be readable all the same.
	subject := plugintest.New(t, Descriptor, configured(""))
	subject.Validate(t, plugintest.Create(exempt("enforce", "unknown"))).Refused(t, 422,
		`Namespace "exempt" is invalid: `+wrongLabel("enforce", "unknown", noLevel))
}
