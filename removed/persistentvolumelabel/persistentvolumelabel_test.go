// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

const (
	region, zone         = corev1.LabelTopologyRegion, corev1.LabelTopologyZone
	betaRegion, betaZone = corev1.LabelFailureDomainBetaRegion, corev1.LabelFailureDomainBetaZone
)

// located is a cloud in which every volume is at the same place.
type located struct {
	region string
	zones  []string
}

func (l located) locate(context.Context, string, string) (topology, error) {
	return topologyOf(l.region, l.zones...), nil
}

// failing is a cloud that says nothing but why.
type failing string

func (f failing) locate(context.Context, string, string) (topology, error) {
	return nil, errors.New(string(f))
}

// asking returns a plugin that asks these clouds, which have that long to answer, and remembers nothing.
func asking(aws, gce provider, timeout time.Duration) *persistentVolumeLabel {
	return &persistentVolumeLabel{configuration: &configuration{aws: aws, gce: gce, timeout: timeout,
		answers: cache.NewLRUExpireCache(remembered)}}
}

// over is the plugin over these clouds.
func over(aws, gce provider) plugin.Descriptor {
	d := Descriptor
	d.New = func(io.Reader, *plugin.Env) (plugin.Plugin, error) {
		return asking(aws, gce, time.Minute), nil
	}
	return d
}

// onEBS and onPD are volumes with labels, written "key=value key=value".
func onEBS(id, labels string) *corev1.PersistentVolume {
	v := withLabels(labels)
	v.Spec.AWSElasticBlockStore = &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: id}
	return v
}

func onPD(name, labels string) *corev1.PersistentVolume {
	v := withLabels(labels)
	v.Spec.GCEPersistentDisk = &corev1.GCEPersistentDiskVolumeSource{PDName: name}
	return v
}

func withLabels(labels string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	for one := range strings.FieldsSeq(labels) {
		if v.Labels == nil {
			v.Labels = map[string]string{}
		}
		key, value, _ := strings.Cut(one, "=")
		v.Labels[key] = value
	}
	return v
}

func provisionedBy(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	v.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": "kubernetes.io/aws-ebs"}
	return v
}

// requiring gives a volume a term of required node affinity for each of terms, written
// "key=value,value key=value".
func requiring(v *corev1.PersistentVolume, terms ...string) *corev1.PersistentVolume {
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}}
	for _, term := range terms {
		var parsed corev1.NodeSelectorTerm
		for one := range strings.FieldsSeq(term) {
			key, values, _ := strings.Cut(one, "=")
			parsed.MatchExpressions = append(parsed.MatchExpressions,
				corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn,
					Values: strings.Split(values, ",")})
		}
		v.Spec.NodeAffinity.Required.NodeSelectorTerms = append(v.Spec.NodeAffinity.Required.NodeSelectorTerms, parsed)
	}
	return v
}

const (
	inRegion = "topology.kubernetes.io/region=r"
	inA      = inRegion + " topology.kubernetes.io/zone=a"
	inAB     = inRegion + " topology.kubernetes.io/zone=a__b"
	reqA     = inA
	reqAB    = inRegion + " topology.kubernetes.io/zone=a,b"
)

// The cases of Test_PVLAdmission in k8s.io/kubernetes 1.30's
// plugin/pkg/admission/storage/persistentvolume/label/admission_test.go, where they aren't about
// other clouds, and more. Labels that somebody set are kept here.
func TestAdmit(t *testing.T) {
	a, ab := located{"r", []string{"a"}}, located{"r", []string{"a", "b"}}
	nobody := failing("nobody should be asked")
	emptyTerm := func(v *corev1.PersistentVolume) *corev1.PersistentVolume { return requiring(v, "") }
	csi := withLabels(region + "=r " + zone + "=a")
	csi.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1"}
	for name, test := range map[string]struct {
		aws, gce    provider
		given, want *corev1.PersistentVolume
		warning     string
	}{
		"AWS":           {a, nobody, onEBS("vol-1", ""), requiring(onEBS("vol-1", inA), reqA), ""},
		"GCE, one zone": {nobody, a, onPD("disk", ""), requiring(onPD("disk", inA), reqA), ""},
		"GCE, regional": {nobody, ab, onPD("disk", ""), requiring(onPD("disk", inAB), reqAB), ""},
		"other labels are kept": {a, nobody, onEBS("vol-1", "app=db"),
			requiring(onEBS("vol-1", "app=db "+inA), reqA), ""},
		"beta labels are kept": {a, nobody, onEBS("vol-1", betaRegion+"=r "+betaZone+"=a"),
			requiring(onEBS("vol-1", betaRegion+"=r "+betaZone+"=a "+inA), reqA), ""},
		"the same labels are kept": {nobody, ab, onPD("disk", inRegion+" "+zone+"=b__a"),
			requiring(onPD("disk", inRegion+" "+zone+"=b__a"), reqAB), ""},
		"another zone's label is kept": {a, nobody, onEBS("vol-1", zone+"=b"),
			requiring(onEBS("vol-1", inRegion+" "+zone+"=b"), reqA),
			`metadata.labels[topology.kubernetes.io/zone]: is "b", but the volume is in "a": no node has both, so ` +
				`pods with this volume will not be scheduled; leave the label out, or correct it`},
		"an empty label is kept": {a, nobody, onEBS("vol-1", region+"="),
			requiring(onEBS("vol-1", region+"= "+zone+"=a"), reqA),
			`metadata.labels[topology.kubernetes.io/region]: is "", but the volume is in "r": no node has both, so ` +
				`pods with this volume will not be scheduled; leave the label out, or correct it`},

		"terms get more": {a, nobody, requiring(onEBS("vol-1", ""), "disk=ssd", "disk=hdd"),
			requiring(onEBS("vol-1", inA), "disk=ssd "+reqA, "disk=hdd "+reqA), ""},
		"an empty term": {a, nobody, emptyTerm(onEBS("vol-1", "")),
			requiring(onEBS("vol-1", inA), reqA), ""},
		"an own zone's affinity is kept": {a, nobody, requiring(onEBS("vol-1", ""), "disk=ssd", zone+"=z"),
			requiring(onEBS("vol-1", inA), "disk=ssd", zone+"=z"), ""},
		"a beta affinity is something": {a, nobody, requiring(onEBS("vol-1", ""), betaZone+"=a"),
			requiring(onEBS("vol-1", inA), betaZone+"=a "+reqA), ""},
		"provisioned, with labels": {nobody, nobody, provisionedBy(onEBS("vol-1", inA)),
			requiring(provisionedBy(onEBS("vol-1", inA)), reqA), ""},
		"provisioned, in several zones": {nobody, nobody, provisionedBy(onPD("disk", inRegion+" "+zone+"=b__a")),
			requiring(provisionedBy(onPD("disk", inRegion+" "+zone+"=b__a")), reqAB), ""},
		"provisioned, with beta labels": {nobody, nobody,
			provisionedBy(onEBS("vol-1", betaRegion+"=r "+betaZone+"=a")),
			requiring(provisionedBy(onEBS("vol-1", betaRegion+"=r "+betaZone+"=a")), betaRegion+"=r "+betaZone+"=a"),
			""},
		"provisioned, with one label": {a, nobody, provisionedBy(onEBS("vol-1", zone+"=a")),
			requiring(provisionedBy(onEBS("vol-1", inA)), reqA), ""},
		"provisioned, with one of each": {a, nobody, provisionedBy(onEBS("vol-1", zone+"=a "+betaRegion+"=r")),
			requiring(provisionedBy(onEBS("vol-1", betaRegion+"=r "+inA)), reqA), ""},
		"provisioned and affine": {nobody, nobody, requiring(provisionedBy(onEBS("vol-1", inA)), region+"=r"),
			requiring(provisionedBy(onEBS("vol-1", inA)), region+"=r"), ""},
		"EBS, yet to be made": {nobody, nobody, onEBS("placeholder-for-provisioning", ""),
			onEBS("placeholder-for-provisioning", ""), ""},
		"PD, yet to be made": {nobody, nobody, onPD("placeholder-for-provisioning", ""),
			onPD("placeholder-for-provisioning", ""), ""},
		"another kind of volume": {nobody, nobody, withLabels("app=db"), withLabels("app=db"), ""},
		"another kind, by a provisioner": {nobody, nobody, provisionedBy(csi.DeepCopy()),
			provisionedBy(csi.DeepCopy()), ""},
		"only preferences to be affine": {a, nobody, withAffinity(onEBS("vol-1", ""), &corev1.VolumeNodeAffinity{}),
			requiring(onEBS("vol-1", inA), reqA), ""},
		"affine to nodes by their fields": {a, nobody, withFields(requiring(onEBS("vol-1", ""), "")),
			withFields(requiring(onEBS("vol-1", inA), reqA)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			result := plugintest.New(t, over(test.aws, test.gce), "").Admit(t, plugintest.Create(test.given)).Admitted(t)
			if !apiequality.Semantic.DeepEqual(result.Object, test.want) {
				t.Errorf("got  %v\nwant %v", result.Object, test.want)
			}
			if got := strings.Join(result.Warnings, "\n"); got != test.warning {
				t.Errorf("warns %q\nwant  %q", got, test.warning)
			}
		})
	}
}

func withAffinity(v *corev1.PersistentVolume, affinity *corev1.VolumeNodeAffinity) *corev1.PersistentVolume {
	v.Spec.NodeAffinity = affinity
	return v
}

func withFields(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchFields = []corev1.NodeSelectorRequirement{
		{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"node"}},
	}
	return v
}

func TestRefusals(t *testing.T) {
	invalid := failing("invalid volume")
	for name, test := range map[string]struct {
		given *corev1.PersistentVolume
		want  string
	}{
		"AWS": {onEBS("123", ""),
			`persistentvolumes "pv" is forbidden: error querying AWS EBS volume 123: invalid volume`},
		"GCE": {onPD("123", ""),
			`persistentvolumes "pv" is forbidden: error querying GCE PD volume 123: invalid volume`},
		"a provisioner's label that names no zone": {provisionedBy(onEBS("123", inRegion+" "+zone+"=a____b")),
			`persistentvolumes "pv" is forbidden: failed to convert label string for Zone: a____b to a Set`},
		"one that is empty": {provisionedBy(onEBS("123", inRegion+" "+zone+"=")),
			`persistentvolumes "pv" is forbidden: failed to convert label string for Zone:  to a Set`},
	} {
		t.Run(name, func(t *testing.T) {
			result := plugintest.New(t, over(invalid, invalid), "").Admit(t, plugintest.Create(test.given)).Refused(t,
				403, test.want)
			if result.Changed {
				t.Errorf("is changed to %v", result.Object)
			}
		})
	}
}

// The recommended plugins of Kubernetes 1.5 had this one, with no configuration. There a cluster
// that was in no cloud refused too.
func TestWithoutConfiguration(t *testing.T) {
	p := plugintest.New(t, Descriptor, "")
	p.Admit(t, plugintest.Create(withLabels(""))).Admitted(t)
	p.Admit(t, plugintest.Create(onEBS("vol-1", ""))).Refused(t, 403,
		`persistentvolumes "pv" is forbidden: error querying AWS EBS volume vol-1: unable to build AWS cloud `+
			`provider for EBS: the configuration of PersistentVolumeLabel has no field aws`)
	p.Admit(t, plugintest.Create(onPD("disk", ""))).Refused(t, 403,
		`persistentvolumes "pv" is forbidden: error querying GCE PD volume disk: unable to build GCE cloud provider `+
			`for PD: the configuration of PersistentVolumeLabel has no field gce`)
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	nobody := failing("nobody should be asked")
	p := plugintest.New(t, over(nobody, nobody), "")
	v := onEBS("vol-1", "")
	for name, request := range map[string]plugintest.Request{
		"another resource": plugintest.Create(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c",
			Namespace: "ns"}}),
		"another group": func() plugintest.Request {
			r := plugintest.Create(
				v)
			r.Resource.Group = "example.com"
			return r
		}(),
		"a subresource": plugintest.Create(v).On("persistentvolumes", "status"),
	} {
		t.Run(name, func(t *testing.T) {
			if result := p.Admit(t, request).Admitted(t); result.Changed {
				t.Errorf("is changed to %v", result.Object)
			}
		})
	}
	for _, request := range []plugintest.Request{plugintest.Update(v, v), plugintest.Delete(v)} {
		if p.Admit(t, request).Handled {
			t.Errorf("handles %s", request.Operation)
		}
	}
	p.Admit(t, plugintest.Create(&corev1.Pod{}).On("persistentvolumes", "")).Refused(t, 400,
		"PersistentVolumeLabel: the object of a request for persistentvolumes is a *v1.Pod")
}

func TestItIsOff(t *testing.T) {
	if Descriptor.Default {
		t.Error("is on by default")
	}
}

// waiting is a cloud that waits for the request to end.
type waiting struct{}

func (waiting) locate(ctx context.Context, _, _ string) (topology, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestTimeout(t *testing.T) {
	d := over(waiting{}, waiting{})
	d.New = func(io.Reader, *plugin.Env) (plugin.Plugin, error) {
		return asking(waiting{}, waiting{}, time.Nanosecond), nil
	}
	plugintest.New(t, d, "").Admit(t, plugintest.Create(onEBS("vol-1", ""))).
		Refused(t, 403,
			`persistentvolumes "pv" is forbidden: error querying AWS EBS volume vol-1: context deadline exceeded`)
}

// Where webhooks aren't called the cloud isn't either.
func TestNotCalled(t *testing.T) {
	for calls, want := range map[plugin.WebhookCalls]string{
		plugin.WebhooksSkipped: "it would be asked, about AWS EBS volume vol-1, but no webhooks are; <nil>",
		plugin.WebhooksDown: `; persistentvolumes "pv" is forbidden: error querying AWS EBS volume vol-1: all ` +
			"webhooks are taken to be down",
	} {
		cluster := plugintest.NewCluster(t)
		d := over(failing("asked"), failing("asked"))
		d.New = func(io.Reader, *plugin.Env) (plugin.Plugin, error) {
			p := asking(failing("asked"), failing("asked"), time.Minute)
			p.calls = calls
			return p, nil
		}
		told := ""
		err := cluster.Build(t, d, "").Observe(t.Context(), t, plugin.Mutating, plugintest.Create(onEBS("vol-1", "")),
			plugin.Observe{Want: plugin.Wants{Calls: true}, Step: func(_ context.Context, step plugin.Step) {
				for _, c := range step.Calls {
					told += c.Why
				}
			}})
		if got := fmt.Sprintf("%s; %v", told, err); got != want {
			t.Errorf("%s: got %s, want %s", calls, got, want)
		}
	}
}

// What isn't handled costs nothing.
func BenchmarkOtherResource(b *testing.B) {
	p := &persistentVolumeLabel{configuration: &configuration{}}
	a := admission.NewAttributesRecord(&corev1.Pod{}, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p",
		corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Admit(b.Context(), a, nil); err != nil {
			b.Fatal(err)
		}
	}
}
