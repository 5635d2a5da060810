// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"io"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin"
)

// A plugin behind a gate that is off isn't built.
func TestGate(t *testing.T) {
	gates := featuregate.NewFeatureGate()
	if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		"On":  {Default: true, PreRelease: featuregate.Beta},
		"Off": {Default: false, PreRelease: featuregate.Alpha},
	}); err != nil {
		t.Fatal(err)
	}
	emulating := featuregate.NewVersionedFeatureGate(version.MustParse("1.34"))
	if err := emulating.AddVersioned(map[featuregate.Feature]featuregate.VersionedSpecs{
		"Later": {{Version: version.MustParse("1.36"), Default: true, PreRelease: featuregate.Beta}},
	}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		gate     featuregate.Feature
		features featuregate.FeatureGate
		built    bool
		err      string
	}{
		"none":                                {"", nil, true, ""},
		"of a later version than is emulated": {"Later", emulating, false, ""},
		"on":                                  {"On", gates, true, ""},
		"off":                                 {"Off", gates, false, ""},
		"unknown": {"Other", gates, false,
			`admission plugin "a": needs the feature gate Other, on or off`},
		"no features": {"On", nil, false,
			`admission plugin "a": needs the feature gate On, on or off`},
	} {
		t.Run(name, func(t *testing.T) {
			built := false
			c, err := New([]plugin.Descriptor{{Name: "a", Phases: plugin.Mutating, Gate: test.gate,
				New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) {
					built = true
					return fake{admit: idle}, nil
				}}}, nil, &plugin.Env{Features: test.features})
			wantError(t, err, test.err)
			if built != test.built || err == nil && c.Handles(admission.Create) != test.built {
				t.Errorf("built: %t", built)
			}
		})
	}
}
