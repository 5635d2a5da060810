// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package eventratelimit

import (
	"strings"
	"testing"
)

// The cases of TestValidateConfiguration in
// k8s.io/kubernetes/plugin/pkg/admission/eventratelimit/apis/eventratelimit/validation, and some
// more.
func TestConfiguration(t *testing.T) {
	const of = "the configuration of EventRateLimit: "
	for name, test := range map[string]struct{ config, want string }{
		"all types":             {limits("Server 1 1", "Namespace 1 1 10", "User 1 1", "SourceAndObject 1 1 10"), ""},
		"a server's cache size": {limits("Server 1 1 -1"), ""},
		"JSON": {`{"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": ` +
			`"Configuration", "limits": [{"type": "User", "qps": 1, "burst": 2}]}`, ""},
		"none":      {"", of + "limits: Required value: must not be empty"},
		"no limits": {head, of + "limits: Required value: must not be empty"},
		"unknown type": {limits("server 1 1"), of +
			`limits[0].type: Unsupported value: "server": supported values: "Namespace", "Server", ` +
			`"SourceAndObject", "User"`},
		"no type": {head + "limits: [{qps: 1, burst: 1}]", of +
			`limits[0].type: Unsupported value: "": supported values: "Namespace", "Server", "SourceAndObject", ` +
			`"User"`},
		"no burst": {head + "limits: [{type: User, qps: 1}]", of +
			"limits[0].burst: Invalid value: 0: must be positive"},
		"negative burst": {limits("User 1 1", "User 1 -1"), of +
			"limits[1].burst: Invalid value: -1: must be positive"},
		"no qps": {head + "limits: [{type: User, burst: 1}]", of +
			"limits[0].qps: Invalid value: 0: must be positive"},
		"all that is wrong": {limits("User -1 -2 -3"), of +
			"[limits[0].burst: Invalid value: -2: must be positive, limits[0].qps: Invalid value: -1: must be " +
			"positive, limits[0].cacheSize: Invalid value: -3: must not be negative]"},
		"half a token": {head + "limits: [{type: User, qps: 0.5, burst: 1}]", of +
			"limits.qps: is of type number 0.5, must be a whole number"},
		"too many": {head + "limits: [{type: User, qps: 2147483648, burst: 1}]", of +
			"limits.qps: is of type number 2147483648, must be a whole number"},
		"another field": {head + "limits: [{type: User, qps: 1, bursts: 1}]", of +
			`unknown field "limits[0].bursts", did you mean "burst"?`},
		"another kind": {"apiVersion: v1\nkind: Pod", of +
			`is kind "Pod" in apiVersion "v1", must be kind Configuration in apiVersion ` +
			`eventratelimit.admission.k8s.io/v1alpha1`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Descriptor.New(strings.NewReader(test.config), nil)
			if (err == nil) != (test.want == "") || err != nil && err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
	if _, err := Descriptor.New(nil, nil); err == nil {
		t.Error("without a configuration it should not start")
	}
}

func FuzzConfiguration(f *testing.F) {
	for _, config := range []string{
		"", head, limits("Server 1 1", "Namespace 2147483647 2147483647 2147483647"), limits("User 0 0 -1"), head +
			"limits: {}", head + "limits: [null]", "- 1", "\x00",
	} {
		f.Add(config)
	}
	f.Fuzz(func(t *testing.T, config string) {
		built, err := Descriptor.New(strings.NewReader(config), nil)
		if err != nil {
			return
		}
		p := built.(*eventRateLimit)
		if len(p.limits) == 0 {
			t.Error("accepted with no limits")
		}
		// What is accepted admits the first event.
		if err := p.Validate(t.Context(), attributes(about("kubelet", "p"), "alice"), nil); err != nil {
			t.Error(err)
		}
	})
}
