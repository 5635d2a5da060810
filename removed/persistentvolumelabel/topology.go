// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/warning"
	storagevolume "k8s.io/component-helpers/storage/volume"
)

// zoneDelimiter is between the zones of one label: LabelMultiZoneDelimiter of
// k8s.io/cloud-provider/volume.
const zoneDelimiter = "__"

// A domain is where a volume is, by one label: a region, or its zones, sorted.
type domain struct {
	label  string
	values []string
}

func (d domain) value() string { return strings.Join(d.values, zoneDelimiter) }

// topology says where a volume is: its region and its zones. It is empty if that isn't known.
type topology []domain

func topologyOf(region string, zones ...string) topology {
	return topology{{corev1.LabelTopologyRegion, []string{region}}, {corev1.LabelTopologyZone, zones}}
}

// zones returns the value of the zone label.
func (t topology) zones() string { return t[1].value() }

// provisioned returns what the labels say of a volume that a provisioner made and labelled in full,
// nil for any other. The rules are those of findVolumeLabels in k8s.io/kubernetes 1.30's
// plugin/pkg/admission/storage/persistentvolume/label/admission.go.
func provisioned(volume *corev1.PersistentVolume) (topology, error) {
	for _, labels := range [...]struct{ region, zone string }{
		{corev1.LabelTopologyRegion, corev1.LabelTopologyZone},
		{corev1.LabelFailureDomainBetaRegion, corev1.LabelFailureDomainBetaZone},
	} {
		region, hasRegion := volume.Labels[labels.region]
		zone, hasZone := volume.Labels[labels.zone]
		if !hasRegion || !hasZone || !metav1.HasAnnotation(volume.ObjectMeta, storagevolume.AnnDynamicallyProvisioned) {
			continue
		}
		zones, err := parseZones(zone)
		if err != nil {
			return nil, fmt.Errorf("failed to convert label string for Zone: %s to a Set", zone)
		}
		return topology{{labels.region, []string{region}}, {labels.zone, zones}}, nil
	}
	return nil, nil
}

// zoneLabel returns the zones in a volume's labels.
func zoneLabel(volume *corev1.PersistentVolume) string {
	return cmp.Or(volume.Labels[corev1.LabelTopologyZone], volume.Labels[corev1.LabelFailureDomainBetaZone])
}

// parseZones returns the zones of a label, sorted and without duplicates.
func parseZones(label string) ([]string, error) {
	zones := strings.Split(label, zoneDelimiter)
	for i := range zones {
		if zones[i] = strings.TrimSpace(zones[i]); zones[i] == "" {
			return nil, fmt.Errorf("%q separated list (%q) must not contain an empty string", zoneDelimiter, label)
		}
	}
	slices.Sort(zones)
	return slices.Compact(zones), nil
}

// warn warns the volume's creator of labels that contradict the topology.
func (t topology) warn(ctx context.Context, volume *corev1.PersistentVolume) {
	for _, d := range t {
		value, ok := volume.Labels[d.label]
		if values, err := parseZones(value); ok && (err != nil || !slices.Equal(values, d.values)) {
			warning.AddWarning(ctx, "", fmt.Sprintf("metadata.labels[%s]: is %q, but the volume is in %q: no node has "+
				"both, so pods with this volume will not be scheduled; leave the label out, or correct it",
				d.label, value, d.value()))
		}
	}
}

// label sets the labels that aren't set yet.
func (t topology) label(volume *corev1.PersistentVolume) {
	for _, d := range t {
		if _, ok := volume.Labels[d.label]; !ok {
			metav1.SetMetaDataLabel(&volume.ObjectMeta, d.label, d.value())
		}
	}
}

// require adds to the required node affinity, unless it has requirements for these labels already.
func (t topology) require(volume *corev1.PersistentVolume) {
	affinity := cmp.Or(volume.Spec.NodeAffinity, &corev1.VolumeNodeAffinity{})
	required := cmp.Or(affinity.Required, &corev1.NodeSelector{})
	if len(t) == 0 || slices.ContainsFunc(required.NodeSelectorTerms, t.hasKeyIn) {
		return
	}
	affinity.Required, volume.Spec.NodeAffinity = required, affinity
	if len(required.NodeSelectorTerms) == 0 {
		required.NodeSelectorTerms = make([]corev1.NodeSelectorTerm, 1)
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		for _, d := range t {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: d.label, Operator: corev1.NodeSelectorOpIn, Values: slices.Clone(d.values),
			})
		}
	}
}

func (t topology) hasKeyIn(term corev1.NodeSelectorTerm) bool {
	return slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool {
		return slices.ContainsFunc(t, func(d domain) bool { return d.label == r.Key })
	})
}
