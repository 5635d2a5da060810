// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package persistentvolumelabel implements the admission plugin PersistentVolumeLabel, which labels
// a new PersistentVolume on an AWS EBS volume or a GCE persistent disk with its region and zones,
// and adds a node affinity for them. Pods that use the volume are then scheduled to nodes that can
// attach it. Kubernetes had the plugin until 1.31. README.md has the rules.
//
// Secrets are in files that only their owner may read; they are read whenever they are needed and
// appear in no message.
package persistentvolumelabel

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
)

const (
	name = "PersistentVolumeLabel"
	// remembered bounds the remembered answers.
	remembered = 2048
	// beingProvisioned stands for the name of a volume that a provisioner has yet to make:
	// ProvisionedVolumeName of k8s.io/cloud-provider/volume.
	beingProvisioned = "placeholder-for-provisioning"
)

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
	Resources:  plugin.On(corev1.Resource("persistentvolumes")),
	New: func(config io.Reader, env *plugin.Env) (plugin.Plugin, error) {
		c, err := load(config)
		return &persistentVolumeLabel{configuration: c, calls: env.Webhooks}, err
	},
}

// A provider knows the volumes of a cloud. It is called concurrently. locate returns where the volume with
// that name is. zoneLabel is the zone in its labels, or "", for clouds in which a name is unique only in its
// zone. An error is the refusal's reason and holds no secrets.
type provider interface {
	locate(ctx context.Context, volume, zoneLabel string) (topology, error)
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

// find returns where a volume is. It is empty if the plugin has nothing to set.
func (p *persistentVolumeLabel) find(ctx context.Context, a admission.Attributes, volume *corev1.PersistentVolume) (topology,
	error) {
	var from provider
	var cloud, kind, id string
	switch source := &volume.Spec.PersistentVolumeSource; {
	case source.AWSElasticBlockStore != nil:
		from, cloud, kind, id = p.aws, "AWS", "EBS", source.AWSElasticBlockStore.VolumeID
	case source.GCEPersistentDisk != nil:
		from, cloud, kind, id = p.gce, "GCE", "PD", source.GCEPersistentDisk.PDName
	}
	if cloud == "" {
		return nil, nil
	}
	if said, err := provisioned(volume); said != nil || err != nil || id == beingProvisioned {
		return said, err
	}
	var found topology
	err := fmt.Errorf("unable to build %s cloud provider for %s: the configuration of %s has no field %s", cloud, kind,
		name, strings.ToLower(cloud))
	if from != nil {
		var ask bool
		if ask, err = p.calls.Ask(a, name, nil, func() string { return cloud + " " + kind + " volume " + id }); ask {
			found, err = p.ask(ctx, from, cloud, id, zoneLabel(volume))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("error querying %s %s volume %s: %w", cloud, kind, id, err)
	}
	return found, nil
}

// ask asks a cloud for a volume, unless it remembers the answer.
func (p *persistentVolumeLabel) ask(ctx context.Context, from provider, cloud, id, zoneLabel string) (topology, error) {
	// A hash, because what users write in names and labels can be large.
	question := func(zones string) any { return sha256.Sum256([]byte(cloud + "\x00" + id + "\x00" + zones)) }
	if known, ok := p.answers.Get(question(zoneLabel)); ok && p.ttl > 0 {
		return known.(topology), nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	found, err := from.locate(ctx, id, zoneLabel)
	if err != nil {
		return nil, err
	}
	p.answers.Add(question(zoneLabel), found, p.ttl)
	if zoneLabel == "" {
		// Remember it also for the question that the plugin asks when it sees its own label.
		p.answers.Add(question(found.zones()), found, p.ttl)
	}
	return found, nil
}
