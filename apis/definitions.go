// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apis

import (
	_ "embed"

	"k8s.io/apimachinery/pkg/runtime/schema"

	settingsv1alpha1 "gatehouse.dev/apis/settings/v1alpha1"
)

//go:embed settings/v1alpha1/podpresets.yaml
var podPresets []byte

// Definitions are CustomResourceDefinitions, as YAML, by the resource that they define. A cluster
// needs one for a plugin that reads the resource, if the cluster's API server isn't Gatehouse's.
var Definitions = map[schema.GroupVersionResource][]byte{settingsv1alpha1.PodPresets: podPresets}
