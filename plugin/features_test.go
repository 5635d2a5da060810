// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"testing"

	"k8s.io/component-base/featuregate"
)

func TestEnabled(t *testing.T) {
	gates := featuregate.NewFeatureGate()
	if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{"On": {Default: true, PreRelease: "BETA"},
		"Off": {PreRelease: "ALPHA"}}); err != nil {
		t.Fatal(err)
	}
	for gate, want := range map[featuregate.Feature]bool{"On": true, "Off": false, "Unknown": false} {
		if got := (&Env{Features: gates}).Enabled(gate); got != want {
			t.Errorf("%s: %t", gate, got)
		}
		if got := (&Env{Features: gates}).Disabled(gate); got != (gate == "Off") {
			t.Errorf("%s is disabled: %t", gate, got)
		}
		if (&Env{}).Enabled(gate) || (&Env{}).Disabled(gate) {
			t.Errorf("%s is on or off without gates", gate)
		}
	}
}
