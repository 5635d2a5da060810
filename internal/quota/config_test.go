// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
)

const limitedYAML = `
limitedResources:
- apiGroup: ""
  resource: persistentvolumeclaims
  matchContains:
  - .storageclass.storage.k8s.io/requests.storage
- apiGroup: ""
  resource: pods
  matchScopes:
  - scopeName: PriorityClass
    operator: In
    values:
    - cluster-services
  - scopeName: CrossNamespacePodAffinity
`

const configV1 = "kind: ResourceQuotaConfiguration\napiVersion: apiserver.config.k8s.io/v1\n"

// Source: TestLoadConfiguration in
// k8s.io/apiserver/pkg/admission/plugin/resourcequota/config_test.go.
func TestLoadConfig(t *testing.T) {
	want := []LimitedResource{
		{Resource: "persistentvolumeclaims", MatchContains: []string{".storageclass.storage.k8s.io/requests.storage"}},
		{Resource: "pods", MatchScopes: []corev1.ScopedResourceSelectorRequirement{
			requirement(priorityClass, in, "cluster-services"), {ScopeName: crossNamespace},
		}},
	}
	for name, test := range map[string]struct {
		text string
		want []LimitedResource
	}{
		"v1": {configV1 + limitedYAML, want},
		"v1beta1": {"kind: Configuration\napiVersion: resourcequota.admission.k8s.io/v1beta1\n" +
			limitedYAML, want},
		"v1alpha1": {"kind: Configuration\napiVersion: resourcequota.admission.k8s.io/v1alpha1\n" +
			limitedYAML, want},
		"JSON": {`{"kind":"ResourceQuotaConfiguration",` +
			`"apiVersion":"apiserver.config.k8s.io/v1","limitedResources":[{"resource":"pods"}]}`,
			[]LimitedResource{{Resource: "pods"}}},
		"a document and empty ones": {"---\n# ours\n---\n" + configV1 + limitedYAML + "---\n", want},
		"nothing":                   {configV1, nil},
		"null":                      {configV1 + "limitedResources: null", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := LoadConfig(strings.NewReader(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("\n got %v\nwant %v", got, test.want)
			}
		})
	}
	if got, err := LoadConfig(nil); got != nil || err != nil {
		t.Errorf("nil: %v, %v", got, err)
	}
}

func TestLoadConfigErrors(t *testing.T) {
	const must = ": must be kind ResourceQuotaConfiguration in apiVersion apiserver.config.k8s.io/v1, or " +
		"Configuration in apiVersion " +
		"resourcequota.admission.k8s.io/v1beta1, or Configuration in apiVersion resourcequota.admission.k8s.io/v1alpha1"
	pods := func(scope string) string {
		return configV1 + "limitedResources:\n- resource: services\n- resource: pods\n  matchScopes:\n  - " + scope
	}
	for name, test := range map[string]struct{ text, want string }{
		"empty":        {"", `apiVersion "", kind ""` + must},
		"a list":       {"[1]", `apiVersion "", kind ""` + must},
		"unknown type": {`{"kind":"Unknown","apiVersion":"v1"}`, `apiVersion "v1", kind "Unknown"` + must},
		"kind and version apart": {
			"kind: Configuration\napiVersion: apiserver.config.k8s.io/v1",
			`apiVersion "apiserver.config.k8s.io/v1", kind "Configuration"` + must,
		},
		"no YAML": {"\t", "yaml: found character that cannot start any token"},
		"duplicate field": {configV1 + "limitedResources:\n- resource: a\n  resource: b", "yaml: unmarshal errors:" +
			"\n  line 5: key \"resource\" already set in map"},
		"duplicate field in JSON": {
			`{"kind":"ResourceQuotaConfiguration","apiVersion":"apiserver.config.k8s.io/v1","kind":"x"}`,
			"yaml: unmarshal errors:\n  line 1: key \"kind\" already set in map",
		},
		"unknown fields": {
			configV1 + "foo: 1\nlimitedResources:\n- resource: a\n  Foo: b",
			`[unknown field "foo", unknown field "limitedResources[0].Foo"]`,
		},
		"two documents": {configV1 + "---\n" + configV1, "more than one YAML document: must be one"},
		"an object for a resource": {configV1 + "limitedResources: [1]",
			"limitedResources: is of type number, must be an object"},
		"wrong type": {configV1 + "limitedResources: pods",
			"limitedResources: is of type string, must be a list"},
		"wrong type below": {configV1 + "limitedResources:\n- resource: 1",
			"limitedResources.resource: is of type number, must be a string"},
		"no resource": {configV1 + "limitedResources:\n- resource: a\n- apiGroup: b\n- {}",
			"[limitedResources[1].resource: Required value, limitedResources[2].resource: Required value]"},
		"unknown scope": {pods("{scopeName: Often, operator: Exists}"),
			`limitedResources[1].matchScopes[0].scopeName: Invalid value: "Often": unsupported scope`},
		"no operator": {pods("{scopeName: PriorityClass}"),
			`limitedResources[1].matchScopes[0].operator: Invalid value: "": not a valid selector operator`},
		"unknown operator": {pods("{scopeName: PriorityClass, operator: Like, values: [a]}"),
			`[limitedResources[1].matchScopes[0].operator: Invalid value: "Like": not a valid selector operator, ` +
				`limitedResources[1].matchScopes[0].values: Invalid value: ["a"]: must be no value when ` +
				"`operator` is 'Exist' or 'DoesNotExist' for scope selector]"},
		"operator of another scope": {pods("{scopeName: BestEffort, operator: DoesNotExist}"),
			`limitedResources[1].matchScopes[0].operator: Invalid value: "DoesNotExist": must be 'Exists' for scope ` +
				`BestEffort`},
		"no values": {pods("{scopeName: VolumeAttributesClass, operator: NotIn}"),
			"limitedResources[1].matchScopes[0].values: Required value: must be at least one value when `operator` " +
				"is 'In' or 'NotIn' for scope selector"},
		"values": {pods("{scopeName: Terminating, values: [a]}"),
			"limitedResources[1].matchScopes[0].values: Invalid value: [\"a\"]: must be no value when `operator` is " +
				"'Exist' or 'DoesNotExist' for scope selector"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := LoadConfig(strings.NewReader(test.text))
			if err == nil {
				t.Fatalf("got %v", got)
			}
			if err.Error() != test.want {
				t.Errorf("\n got %s\nwant %s", err, test.want)
			}
			if got != nil {
				t.Errorf("got %v in spite of an error", got)
			}
		})
	}
	broken := errors.New("broken")
	if _, err := LoadConfig(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// Whatever is read, it doesn't panic, and what is accepted can be used.
func FuzzLoadConfig(f *testing.F) {
	f.Add([]byte(configV1 + limitedYAML))
	f.Add([]byte(`{"kind":"Configuration","apiVersion":"resourcequota.admission.k8s.io/v1alpha1",` +
		`"limitedResources":[{"resource":"pods","matchContains":["cpu"]}]}`))
	f.Add([]byte("limitedResources: [[], null]"))
	pod := newPod(ofClass("a"), with(box("c", "cpu=1", "")))
	f.Fuzz(func(t *testing.T, data []byte) {
		limited, err := LoadConfig(bytes.NewReader(data))
		if err != nil {
			if limited != nil {
				t.Errorf("%v in spite of %v", limited, err)
			}
			return
		}
		for _, l := range limited {
			if l.Resource == "" {
				t.Error("a limited resource without a name")
			}
		}
		_, _ = change(t, pods, nil, pod).Admit(nil, limited)
	})
}
