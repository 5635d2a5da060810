// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"slices"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// formerGates are feature gates that Kubernetes had, and that what is written about our plugins
// tells users to set: what they switched on has long been plain behaviour. Setting one to true is
// answered with a warning by the command, setting it to false is an error.
var formerGates = map[featuregate.Feature]featuregate.VersionedSpecs{
	"ExpandPersistentVolumes": {
		{Version: version.MustParse("1.24"), Default: true, LockToDefault: true, PreRelease: featuregate.GA},
	},
}

// FormerGates returns the names of feature gates that have become plain behaviour.
func FormerGates() []string {
	var names []string
	for name := range formerGates {
		names = append(names, string(name))
	}
	slices.Sort(names)
	return names
}

func init() {
	utilruntime.Must(logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate))
	utilruntime.Must(utilfeature.DefaultMutableFeatureGate.AddVersioned(formerGates))
}
