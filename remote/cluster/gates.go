// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
)

// knownGates are the feature gates of kube-apiserver that plugins ask for, with the history of their
// defaults. A test compares them with those of the Kubernetes among the modules.
//
// Source: k8s.io/kubernetes/pkg/features#defaultVersionedKubernetesFeatureGates dc135cfc
var knownGates = map[featuregate.Feature]featuregate.VersionedSpecs{
	"AllowInsecureKubeletCertificateSigningRequests": {defaultSince(0, true), defaultSince(31, false)},
	"ClusterTrustBundle":                             {defaultSince(27, false), defaultSince(37, true)},
	"CSIVolumeHealth":                                {defaultSince(21, false)},
	"CompositePodGroup":                              {defaultSince(37, false)},
	"DRAExtendedResource":                            {defaultSince(34, false), defaultSince(36, true)},
	"DRANodeAllocatableResources":                    {defaultSince(36, false)},
	"DynamicResourceAllocation":                      {defaultSince(26, false), defaultSince(34, true)},
	"GenericWorkload":                                {defaultSince(35, false)},
	"InPlacePodVerticalScaling":                      {defaultSince(27, false), defaultSince(33, true)},
	"NodeDeclaredFeatures":                           {defaultSince(35, false), defaultSince(36, true)},
	"PodCertificateRequest":                          {defaultSince(34, false), defaultSince(37, true)},
	"PodGroupPreemptionPolicy":                       {defaultSince(37, false)},
	"PodLevelResources":                              {defaultSince(32, false), defaultSince(34, true)},
	"PodLevelResourcesFixKubeletQOSClass":            {defaultSince(37, true)},
	"PodTopologyLabelsAdmission":                     {defaultSince(33, false), defaultSince(35, true)},
	"RecoverVolumeExpansionFailure":                  {defaultSince(23, false), defaultSince(32, true)},
	"ServiceAccountNodeAudienceRestriction":          {defaultSince(32, false), defaultSince(33, true)},
	"VolumeAttributesClass":                          {defaultSince(29, false), defaultSince(34, true)},
}

// defaultSince returns the default of a gate from a minor release of Kubernetes on. Plugins don't ask for
// a gate's stage.
func defaultSince(minor uint, on bool) featuregate.FeatureSpec {
	return featuregate.FeatureSpec{Version: version.MajorMinor(1, minor), Default: on, PreRelease: featuregate.Beta}
}

const (
	// maxMetrics bounds what is read of /metrics. That of a large cluster has some 30 MiB.
	maxMetrics = 256 << 20
	// metricsTimeout bounds how long that may take.
	metricsTimeout = 30 * time.Second
)

// gates are the feature gates of the cluster. They are read when the first of them is asked for,
// since most plugins want none.
type gates struct {
	read func() featuregate.MutableVersionedFeatureGate
}

var _ featuregate.FeatureGate = gates{}

// newGates returns the gates of a cluster that emulates a release. shown reads those that it shows.
func newGates(emulated *version.Version, shown func() (map[string]bool, error)) gates {
	return gates{sync.OnceValue(func() featuregate.MutableVersionedFeatureGate {
		on, err := shown()
		if err != nil {
			klog.Warningf("Feature gates of the cluster are taken to be as by default in Kubernetes %s: %v", emulated,
				err)
		}
		specs := maps.Clone(knownGates)
		for name := range specs {
			if enabled, told := on[string(name)]; told {
				specs[name] = featuregate.VersionedSpecs{defaultSince(0, enabled)}
			}
		}
		g := featuregate.NewVersionedFeatureGate(emulated)
		if err := g.AddVersioned(specs); err != nil {
			panic(err) // of what is written above, nothing contradicts
		}
		return g
	})}
}

// Enabled implements featuregate.FeatureGate.
func (g gates) Enabled(key featuregate.Feature) bool { return g.read().Enabled(key) }

// KnownFeatures implements featuregate.FeatureGate.
func (g gates) KnownFeatures() []string { return g.read().KnownFeatures() }

// Dependencies implements featuregate.FeatureGate.
func (g gates) Dependencies() map[featuregate.Feature][]featuregate.Feature {
	return g.read().Dependencies()
}

// DeepCopy implements featuregate.FeatureGate.
func (g gates) DeepCopy() featuregate.MutableVersionedFeatureGate { return g.read().DeepCopy() }

// Validate implements featuregate.FeatureGate.
func (g gates) Validate() []error { return g.read().Validate() }

// readGates reads the gates that the server shows at /metrics.
func readGates(ctx context.Context, client rest.Interface) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, metricsTimeout)
	defer cancel()
	body, err := client.Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading /metrics: %w", err)
	}
	defer body.Close()
	return gatesIn(io.LimitReader(body, maxMetrics))
}

// shownGate is a line that Kubernetes' servers have of each feature gate.
var shownGate = regexp.MustCompile(`^kubernetes_feature_enabled\{name="([A-Za-z0-9_]+)",.*\} ([01])$`)

// gatesIn returns the gates that metrics show.
func gatesIn(metrics io.Reader) (map[string]bool, error) {
	on := map[string]bool{}
	lines := bufio.NewReader(metrics)
	for {
		line, cut, err := lines.ReadLine()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("reading /metrics: %w", err)
			}
			break
		}
		if gate := shownGate.FindSubmatch(line); gate != nil && !cut {
			on[string(gate[1])] = string(gate[2]) == "1"
		}
	}
	if len(on) == 0 {
		return nil, errors.New("/metrics has no kubernetes_feature_enabled")
	}
	return on, nil
}
