// Package persistentvolumelabel is the plugin PersistentVolumeLabel: a PersistentVolume on an AWS
// EBS volume or a GCE persistent disk is created with the labels and the node affinity that say in
// which region and zones that is, so that pods which use it are scheduled where it can be attached.
// Kubernetes had it for volumes that an administrator creates; since 1.31 it is gone, with the
// cloud providers that were compiled in.
//
// Where a volume is, its cloud says: EC2's DescribeVolumes, or Compute Engine's disks. The provider
// interface is all that the plugin knows of a cloud. What was answered is remembered for a while;
// where a volume is doesn't change. Two clouds can be configured, and one that is not refuses its
// volumes, as nobody could say where they are.
//
// # What is set
//
// The labels topology.kubernetes.io/region and topology.kubernetes.io/zone, the latter with the
// zones of a regional disk in order and joined by two underscores; and for each a requirement in
// every term of the required node affinity, which gets a term where it has none. Where any term has
// a requirement for one of these keys already, the affinity is somebody's own and stays as it is.
//
// Labels that are set are kept, and so are the beta ones of before 1.17. A label that contradicts
// the cloud leaves a volume that no pod can use, as its node affinity is what the cloud says; a
// warning tells. A volume that a provisioner made (it carries the annotation
// pv.kubernetes.io/provisioned-by) with both labels is believed, in this generation of labels or
// the beta one: its node affinity is made from them and the cloud isn't asked.
//
// # Failures
//
// A cloud that throttles, fails or can't be reached is asked again, after a time that doubles. What
// can't be answered within the timeout is a refusal, as a volume without labels would be attached
// nowhere or to the wrong nodes.
//
// Secrets are in files that only their owner may read. They are read again whenever they are
// needed, so they can be replaced; and they appear in no message.
package persistentvolumelabel

import (
	"context"
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

// Descriptor is PersistentVolumeLabel, not yet built. It needs nothing; its configuration is of
// kind PersistentVolumeLabelConfiguration.
var Descriptor = plugin.Descriptor{
	Name:       name,
	Summary:    "Labels volumes of AWS and GCE with their region and zone",
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

// configuration is the configuration file with its defaults.
type configuration struct {
	// aws and gce tell where volumes are.
	aws, gce provider
	// timeout is how long a request waits for the cloud.
	timeout time.Duration
}

type persistentVolumeLabel struct {
	*configuration
	// calls says whether the clouds are asked at all.
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
