// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package persistentvolumelabel implements the admission plugin PersistentVolumeLabel, which labels
// a new PersistentVolume on an AWS EBS volume or a GCE persistent disk with its region and zones,
// and adds a node affinity for them. Pods that use the volume are then scheduled to nodes that can
// attach it. Kubernetes had the plugin until 1.31.
//
// The plugin asks the cloud (EC2's DescribeVolumes or Compute Engine's disks) through the provider
// interface, and remembers the answer. A volume of a cloud that isn't configured is refused.
//
// It sets the labels topology.kubernetes.io/region and topology.kubernetes.io/zone. The zones of a
// regional disk are in order, joined by two underscores. Each term of the required node affinity
// gets a requirement for each label, unless any term has one for these keys already. Labels that
// are set, also the beta ones from before 1.17, are kept; a warning says if one contradicts the
// cloud. The cloud isn't asked about a volume with both labels that a provisioner made (annotation
// pv.kubernetes.io/provisioned-by).
//
// A cloud that throttles, fails or can't be reached is asked again after a time that doubles.
// Without an answer within the timeout the volume is refused. Secrets are in files that only their
// owner may read; they are read whenever they are needed and appear in no message.
package persistentvolumelabel

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
)

const name = "PersistentVolumeLabel"

// beingProvisioned stands for the name of a volume that a provisioner has yet to make:
// ProvisionedVolumeName of k8s.io/cloud-provider/volume.
const beingProvisioned = "placeholder-for-provisioning"

var persistentVolumes = corev1.Resource("persistentvolumes")

//go:embed README.md
var manual string

// Descriptor describes PersistentVolumeLabel. It needs nothing; its configuration is of kind
// PersistentVolumeLabelConfiguration.
//
//schema:configuration fileFormat PersistentVolumeLabelConfiguration gatehouse.dev/v1alpha1
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Labels volumes of AWS and GCE with their region and zone",
	Manual:     manual,
	Deprecated: "clouds' own controllers label volumes",
	Remedy: "Name a disk that exists, in the form that the message names; if the cloud can't be asked, " +
		"correct the plugin's configuration.",
	Phases:     plugin.Mutating,
	Operations: []admission.Operation{admission.Create},
	Resources:  plugin.On(persistentVolumes),
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		c, err := load(config)
		if err != nil {
			return nil, err
		}
		return &persistentVolumeLabel{configuration: c, calls: env.Webhooks}, nil
	},
}

// configuration holds the configuration file with its defaults.
type configuration struct {
	// aws and gce find volumes.
	aws, gce provider
	// timeout is how long a request waits for the cloud.
	timeout time.Duration
}

type persistentVolumeLabel struct {
	*configuration
	// calls says whether the plugin asks the clouds at all.
	calls plugin.WebhookCalls
}

var _ plugin.Mutator = &persistentVolumeLabel{}

// Admit labels a new volume.
func (p *persistentVolumeLabel) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	volume, ok := a.GetObject().(*corev1.PersistentVolume)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("%s: the object of a request for persistentvolumes is a %T", name,
			a.GetObject()))
	}
	found, err := p.find(ctx, a, volume)
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	found.warn(ctx, volume)
	found.label(volume)
	found.require(volume)
	return nil
}

// find returns the location of a volume. It is empty if the plugin has nothing to set.
func (p *persistentVolumeLabel) find(ctx context.Context, a admission.Attributes, volume *corev1.PersistentVolume) (topology,
	error) {
	var from provider
	var kind, id string
	switch source := &volume.Spec.PersistentVolumeSource; {
	case source.AWSElasticBlockStore != nil:
		from, kind, id = p.aws, "AWS EBS", source.AWSElasticBlockStore.VolumeID
	case source.GCEPersistentDisk != nil:
		from, kind, id = p.gce, "GCE PD", source.GCEPersistentDisk.PDName
	default:
		return nil, nil
	}
	if said, err := provisioned(volume); said != nil || err != nil {
		return said, err
	}
	if id == beingProvisioned {
		return nil, nil
	}
	if _, nobody := from.(notConfigured); !nobody {
		if ask, err := p.calls.Ask(a, name, nil, func() string { return kind + " volume " + id }); err != nil {
			return nil, fmt.Errorf("error querying %s volume %s: %w", kind, id, err)
		} else if !ask {
			return nil, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	where, err := from.locate(ctx, id, zoneLabel(volume))
	if err != nil {
		return nil, fmt.Errorf("error querying %s volume %s: %w", kind, id, err)
	}
	return where.topology(), nil
}
