// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecurity

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/iotest"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/pod-security-admission/api"
)

// head is the beginning of a configuration.
const head = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n"

// Source: upstream's TestLoadFromData and TestLoadFromReader.
func TestConfiguration(t *testing.T) {
	latest := func(level api.Level) api.LevelVersion {
		return api.LevelVersion{Level: level, Version: api.LatestVersion()}
	}
	privileged := latest(api.LevelPrivileged)
	byDefault := api.Policy{Enforce: privileged, Audit: privileged, Warn: privileged}
	baseline := byDefault
	baseline.Enforce = latest(api.LevelBaseline)
	full := api.Policy{
		Enforce: api.LevelVersion{Level: api.LevelBaseline, Version: api.MajorMinorVersion(1, 7)},
		Audit:   api.LevelVersion{Level: api.LevelRestricted, Version: api.MajorMinorVersion(1, 999)},
		Warn:    api.LevelVersion{Level: api.LevelPrivileged, Version: api.LatestVersion()},
	}
	for name, test := range map[string]struct {
		config string
		want   api.Policy
	}{
		"empty": {"", byDefault},
		"blank": {"\n", byDefault},
		"JSON": {`{"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration",
			"defaults": {"enforce": "baseline"}}`, baseline},
		"nothing in it": {head, byDefault},
		"v1":            {head + "defaults: {enforce: baseline}", baseline},
		"v1beta1":       {strings.Replace(head, "v1", "v1beta1", 1) + "defaults: {enforce: baseline}", baseline},
		"v1alpha1":      {strings.Replace(head, "v1", "v1alpha1", 1) + "defaults: {enforce: baseline}", baseline},
		"all of it": {head + `defaults: {enforce: baseline, enforce-version: v1.7, audit: restricted,
			audit-version: v1.999, warn: privileged, warn-version: latest}`, full},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := load(strings.NewReader(test.config))
			if err != nil || c.defaults != test.want {
				t.Errorf("got %v, %v, want %v", &c.defaults, err, &test.want)
			}
		})
	}
	if c, err := load(nil); err != nil || c.defaults != byDefault {
		t.Errorf("got %v, %v", c.defaults, err)
	}
	c, err := load(strings.NewReader(head + `exemptions: {usernames: [alice, "system:serviceaccount:a:b"],
		namespaces: [kube-system], runtimeClasses: [special.example.com]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range []struct{ got, want sets.Set[string] }{
		{c.exempted.users, sets.New("alice", "system:serviceaccount:a:b")},
		{c.exempted.namespaces, sets.New("kube-system")},
		{c.exempted.runtimeClasses, sets.New("special.example.com")},
	} {
		if !maps.Equal(set.got, set.want) {
			t.Errorf("got %v, want %v", set.got, set.want)
		}
	}
}

// Source: upstream's TestLoadFromData and TestValidatePodSecurityConfiguration.
func TestWhatIsNoConfiguration(t *testing.T) {
	const (
		must      = ", must be kind PodSecurityConfiguration in apiVersion pod-security.admission.config.k8s.io/v1"
		label     = "a lowercase RFC 1123 label must consist of"
		subdomain = "a lowercase RFC 1123 subdomain must consist of"
	)
	for name, test := range map[string]struct {
		config string
		want   []string
	}{
		"no apiVersion": {"kind: PodSecurityConfiguration",
			[]string{`is kind "PodSecurityConfiguration" in apiVersion ""` + must}},
		"no kind": {"apiVersion: pod-security.admission.config.k8s.io/v1", []string{`is kind "" in apiVersion ` +
			`"pod-security.admission.config.k8s.io/v1"` + must}},
		"another group": {strings.Replace(head, "pod-security.admission.config.k8s.io", "apps", 1),
			[]string{`is kind "PodSecurityConfiguration" in apiVersion "apps/v1"` + must}},
		"another version": {strings.Replace(head, "v1", "v99", 1), []string{`is kind "PodSecurityConfiguration" in ` +
			`apiVersion "pod-security.admission.config.k8s.io/v99"` + must}},
		"another kind": {strings.Replace(head, "PodSecurityConfiguration", "Some", 1),
			[]string{`is kind "Some" in apiVersion "pod-security.admission.config.k8s.io/v1"` + must}},
		"an unknown field": {head + "deflaults: {enforce: baseline}", []string{`unknown field "deflaults"`}},
		"an unknown one within": {head + "defaults: {enforceVersion: latest}",
			[]string{`unknown field "defaults.enforceVersion"`}},
		"another type": {head + "exemptions: {namespaces: a}",
			[]string{"exemptions.namespaces: is of type string, must be a list"}},
		"defaults": {head + `defaults: {enforce: baslein, enforce-version: v.122, warn: Baseline, warn-version: "1.20",
			audit: lorum, audit-version: ipsum}`, []string{
			`[defaults.enforce: Invalid value: "baslein": ` + noLevel,
			`, defaults.enforce-version: Invalid value: "v.122": ` + noVersion,
			`, defaults.warn: Invalid value: "Baseline": ` + noLevel,
			`, defaults.warn-version: Invalid value: "1.20": ` + noVersion,
			`, defaults.audit: Invalid value: "lorum": ` + noLevel,
			`, defaults.audit-version: Invalid value: "ipsum": ` + noVersion + `]`}},
		"namespaces": {head + `exemptions: {namespaces: ["", "_&$%#", TEST,
			testtesttesttesttesttesttesttesttesttesttesttesttesttesttesttest, testing, testing]}`, []string{
			`[exemptions.namespaces[0]: Invalid value: "": ` + label,
			`exemptions.namespaces[1]: Invalid value: "_&$%#": ` + label,
			`exemptions.namespaces[2]: Invalid value: "TEST": ` + label,
			`exemptions.namespaces[3]: Invalid value: "testtest`, `must be no more than 63`,
			`, exemptions.namespaces[5]: Duplicate value: "testing"]`}},
		"runtime classes": {head + `exemptions: {runtimeClasses: ["", "_&$%#", TEST, testing, testing]}`, []string{
			`[exemptions.runtimeClasses[0]: Invalid value: "": ` + subdomain,
			`exemptions.runtimeClasses[1]: Invalid value: "_&$%#": ` + subdomain,
			`exemptions.runtimeClasses[2]: Invalid value: "TEST": ` + subdomain,
			`, exemptions.runtimeClasses[4]: Duplicate value: "testing"]`}},
		"users": {head + `exemptions: {usernames: ["", alice, alice]}`, []string{
			`[exemptions.usernames[0]: Invalid value: "": username must not be empty, ` +
				`exemptions.usernames[2]: Duplicate value: "alice"]`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(strings.NewReader(test.config))
			if err == nil || !strings.HasPrefix(err.Error(), "the configuration of PodSecurity: "+test.want[0]) {
				t.Fatalf("got %v, want %s…", err, test.want[0])
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v\nwant … %s", err, want)
				}
			}
		})
	}
	gone := errors.New("disk gone")
	if _, err := load(iotest.ErrReader(gone)); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}
