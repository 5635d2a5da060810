// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/featuregate"
)

var isGPU = map[string]string{"gpu": "example.com/gpu"}

// neighbours are Others.
type neighbours struct {
	classes map[string]string
	pod     *corev1.Pod
	claims  []*resourcev1.ResourceClaim
	err     error
}

func (n *neighbours) ExtendedResource(class string) (string, error)      { return n.classes[class], n.err }
func (n *neighbours) Pod(string, string) (*corev1.Pod, error)            { return n.pod, n.err }
func (n *neighbours) Claims(string) ([]*resourcev1.ResourceClaim, error) { return n.claims, n.err }

// Source: the cases named extended-resource-claim of TestResourceClaimEvaluatorUsage in
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core/resource_claims_test.go.
func TestExtendedResourceClaimUsage(t *testing.T) {
	const explicit, implicit = "example.com/gpu=1", "deviceclass.resource.kubernetes.io/gpu=1"
	identified := func(pod *corev1.Pod) {
		pod.UID = "uid"
		pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "foo"}
	}
	both := box("c", explicit+","+implicit, "")
	unidentified := func(pod *corev1.Pod) { pod.UID = "uid" }
	const full = "requests.example.com/gpu=2,requests.deviceclass.resource.kubernetes.io/gpu=2"
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		devices int64
		spoil   func(*resourcev1.ResourceClaim, *corev1.Pod)
		want    string
		other   func(*resourcev1.ResourceClaim)
	}{
		"implicit": {newPod(with(box("c", implicit, "")), identified), 1, nil, "requests.example.com/gpu=1", nil},
		"explicit": {newPod(withInit(box("c", explicit, "")), identified), 1, nil,
			"requests.deviceclass.resource.kubernetes.io/gpu=1", nil},
		"hybrid": {newPod(withInit(both), with(both), identified), 2, nil,
			"requests.example.com/gpu=1,requests.deviceclass.resource.kubernetes.io/gpu=1", nil},
		"nil-status": {
			newPod(withInit(box("i", explicit, "")), with(box("c", implicit, "")),
				func(pod *corev1.Pod) { pod.UID = "uid" }), 2, nil,
			"requests.example.com/gpu=1,requests.deviceclass.resource.kubernetes.io/gpu=1", nil,
		},
		"not verified": {nil, 2, nil, full, nil},
		"not annotated": {newPod(with(both), identified), 1,
			func(c *resourcev1.ResourceClaim, _ *corev1.Pod) { c.Annotations = nil },
			"requests.example.com/gpu=1,requests.deviceclass.resource.kubernetes.io/gpu=1", nil},
		"no owner": {newPod(with(both), identified), 1,
			func(c *resourcev1.ResourceClaim, _ *corev1.Pod) { c.OwnerReferences = nil },
			"requests.example.com/gpu=1,requests.deviceclass.resource.kubernetes.io/gpu=1", nil},
		"another pod": {newPod(with(both), identified), 1,
			func(_ *resourcev1.ResourceClaim, p *corev1.Pod) { p.UID = "other" },
			"requests.example.com/gpu=1,requests.deviceclass.resource.kubernetes.io/gpu=1", nil},
		"another claim": {newPod(with(both), identified), 1,
			func(c *resourcev1.ResourceClaim, _ *corev1.Pod) { c.Name = "bar" },
			"requests.example.com/gpu=1,requests.deviceclass.resource.kubernetes.io/gpu=1", nil},
		"another's name comes first": {pod: newPod(with(both), unidentified), devices: 2, want: full,
			other: func(*resourcev1.ResourceClaim) {}},
		"another is older": {pod: newPod(with(both), unidentified), devices: 2, want: full,
			other: func(c *resourcev1.ResourceClaim) {
				c.Name, c.CreationTimestamp = "z", metav1.NewTime(noon.Add(-time.Second))
			}},
		"another is newer": {pod: newPod(with(both), unidentified), devices: 1,
			other: func(c *resourcev1.ResourceClaim) { c.CreationTimestamp = metav1.NewTime(noon.Add(time.Second)) }},
		"another pod's": {pod: newPod(with(both), unidentified), devices: 1,
			other: func(c *resourcev1.ResourceClaim) { c.OwnerReferences[0].UID = "other" }},
		"another one that nobody made": {pod: newPod(with(both), unidentified), devices: 1,
			other: func(c *resourcev1.ResourceClaim) { c.Annotations = nil }},
		"another, but the pod names this one": {pod: newPod(with(both), identified), devices: 1,
			other: func(*resourcev1.ResourceClaim) {}},
		"the pod has ended": {pod: newPod(with(both), identified, inPhase(corev1.PodSucceeded)), devices: 2,
			want: full},
	} {
		t.Run(name, func(t *testing.T) {
			yes := true
			claim := newClaim(exactly("gpu", test.devices))
			claim.CreationTimestamp = metav1.NewTime(noon)
			claim.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
			claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "uid",
				Controller: &yes}}
			if test.spoil != nil {
				test.spoil(claim, test.pod)
			}
			others := []*resourcev1.ResourceClaim{claim}
			if test.other != nil {
				other := claim.DeepCopy()
				other.Name = "another"
				test.other(other)
				others = append(others, other)
			}
			c, err := Meter{
				Now:     atNoon,
				Related: &neighbours{classes: isGPU, pod: test.pod, claims: others},
			}.CostOf(resourceClaims, claim)
			if err != nil {
				t.Fatal(err)
			}
			wantList(t, "usage", c.Usage(),
				list(strings.TrimSuffix(fmt.Sprintf(
					"count/resourceclaims.resource.k8s.io=1,gpu.deviceclass.resource.k8s.io/devices=%d,%s",
					test.devices,
					test.want), ",")))
		})
	}
}

// If two classes of a claim are the same extended resource, devices of both count. (Upstream's
// Usage takes one of the two at random.)
func TestClaimOfTwoClassesThatAreOneResource(t *testing.T) {
	c, err := Meter{Related: &neighbours{classes: map[string]string{"a": "example.com/gpu", "b": "example.com/gpu"}}}.
		CostOf(resourceClaims, newClaim(exactly("a", 2), exactly("b", 3)))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Usage()["requests.example.com/gpu"]; got.Value() != 5 {
		t.Errorf("used %s, want 5", got.String())
	}
}

// What can't be read is an error, and nothing that isn't needed is read.
func TestClaimWithoutOthers(t *testing.T) {
	lost := errors.New("lost")
	meter := Meter{Related: &neighbours{err: lost}}
	if c, err := meter.CostOf(resourceClaims, newClaim(exactly("gpu", 1))); c != nil || !errors.Is(err, lost) {
		t.Errorf("got %v, %v", c, err)
	}
	for name, off := range map[string]Gates{"extended resources": DRAExtendedResource,
		"claims": DynamicResourceAllocation} {
		meter.Off = off
		if _, err := meter.CostOf(resourceClaims, newClaim(exactly("gpu", 1))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	meter.Off = 0
	if _, err := meter.CostOf(resourceClaims, newClaim()); err != nil {
		t.Errorf("without devices: %v", err)
	}
}

// Source: the uses of utilfeature.DefaultFeatureGate in
// k8s.io/kubernetes/pkg/quota/v1/evaluator/core, and in ComputePodQOS of
// k8s.io/kubernetes/pkg/apis/core/v1/helper/qos/qos.go.
func TestGates(t *testing.T) {
	whole := newPod(with(box("c", "cpu=1", "")), func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu=3"), Limits: list("cpu=4")}
	})
	resized := newPod(with(box("c", "cpu=1", "")), func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c",
			Resources: &corev1.ResourceRequirements{Requests: list("cpu=2")}}}
	})
	claim := newClaim(exactly("gpu", 2))
	shrunk := &corev1.PersistentVolumeClaim{}
	shrunk.Spec.Resources.Requests = list("storage=1Gi")
	shrunk.Status.AllocatedResources = list("storage=5Gi")
	const devices = "gpu.deviceclass.resource.k8s.io/devices"
	for name, test := range map[string]struct {
		off    Gates
		on     func(Meter) (*Cost, error)
		name   corev1.ResourceName
		with   string // "": not among what is used
		closed string
	}{
		"pod-level resources": {PodLevelResources, func(m Meter) (*Cost, error) { return m.CostOf(pods, whole) },
			"requests.cpu", "3", "1"},
		"pod-level limits": {PodLevelResources, func(m Meter) (*Cost, error) { return m.CostOf(pods, whole) },
			"limits.cpu", "4", ""},
		"resize": {InPlacePodVerticalScaling, func(m Meter) (*Cost, error) { return m.CostOf(pods, resized) },
			"requests.cpu", "2", "1"},
		"expansion": {RecoverVolumeExpansionFailure,
			func(m Meter) (*Cost, error) { return m.CostOf(persistentVolumeClaims, shrunk) },
			"requests.storage", "5Gi", "1Gi"},
		"by extended resource": {DRAExtendedResource,
			func(m Meter) (*Cost, error) { return m.CostOf(resourceClaims, claim) },
			"requests.example.com/gpu", "2", ""},
		"by implicit extended resource": {DRAExtendedResource,
			func(m Meter) (*Cost, error) { return m.CostOf(resourceClaims, claim) },
			"requests.deviceclass.resource.kubernetes.io/gpu", "2", ""},
		"by class": {DRAExtendedResource,
			func(m Meter) (*Cost, error) { return m.CostOf(resourceClaims, claim) }, devices, "2", "2"},
		"claims at all": {DynamicResourceAllocation,
			func(m Meter) (*Cost, error) { return m.CostOf(resourceClaims, claim) }, devices, "2", ""},
		"claims' number": {DynamicResourceAllocation,
			func(m Meter) (*Cost, error) { return m.CostOf(resourceClaims, claim) },
			"count/resourceclaims.resource.k8s.io", "1", "1"},
	} {
		for off, want := range map[Gates]string{0: test.with, test.off: test.closed} {
			meter := Meter{Now: atNoon, Off: off, Related: &neighbours{classes: isGPU}}
			c, err := test.on(meter)
			if err != nil {
				t.Fatal(err)
			}
			got, used := c.Usage()[test.name]
			if used != (want != "") || used && got.Cmp(resource.MustParse(want)) != 0 {
				t.Errorf("%s, off: %b: used %s (%t), want %q", name, off, got.String(), used, want)
			}
		}
	}

	if all := GatesOff(func(featuregate.Feature) bool { return false }); all != 1<<len(gates)-1 {
		t.Errorf("off: %b, want all of %d", all, len(gates))
	}
	if off := GatesOff(func(g featuregate.Feature) bool { return g != "DynamicResourceAllocation" }); off !=
		DynamicResourceAllocation|DRAExtendedResource {
		t.Errorf("off without DynamicResourceAllocation: %b", off)
	}
}

// Gates of which scopes and demands depend.
func TestGatesOfScopesAndDemands(t *testing.T) {
	whole := newPod(with(box("c", "", "")), func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu=3")}
	})
	class := "gold"
	classed := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeAttributesClassName: &class}}
	for _, off := range []Gates{0, PodLevelResources | VolumeAttributesClass} {
		meter := Meter{Now: atNoon, Off: off}
		ofPod, _ := meter.CostOf(pods, whole)
		ofClaim, _ := meter.CostOf(persistentVolumeClaims, classed)
		on := off == 0
		if got := ofPod.isInScope(corev1.ResourceQuotaScopeBestEffort, "", nil); got != !on {
			t.Errorf("off %b: best effort: %t", off, got)
		}
		if got := ofPod.omissionMessage(list("requests.cpu=1")); (got == "") != on {
			t.Errorf("off %b: missing: %q", off, got)
		}
		if got := ofClaim.isInScope(corev1.ResourceQuotaScopeVolumeAttributesClass, corev1.ScopeSelectorOpExists,
			nil); got != on {
			t.Errorf("off %b: of a volume attributes class: %t", off, got)
		}
	}
}

// What is given back for a claim that the scheduler made is what can't have been accounted for by
// its pod, and a write that may change what others cost says so.
func TestUnties(t *testing.T) {
	const gpu = "example.com/gpu=2"
	is := func(claimed string) podOption {
		return func(p *corev1.Pod) {
			p.UID = "uid"
			if claimed != "" {
				p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
					ResourceClaimName: claimed}
			}
		}
	}
	made := newClaim(exactly("gpu", 2))
	made.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "uid",
		Controller: new(bool)}}
	*made.OwnerReferences[0].Controller = true
	own := newClaim(exactly("gpu", 2))
	running, named := newPod(with(box("c", gpu, "")), is("")), newPod(with(box("c", gpu, "")), is("foo"))
	over := newPod(with(box("c", gpu, "")), is("foo"), inPhase(corev1.PodFailed))
	plain := newPod(with(box("c", "cpu=1", "")), is(""))
	orphan := cost(t, resourceClaims, made)
	if c := orphan.CertainPart(); len(c.uses) != 2 || !(Change{Old: c}).IsUncertain() {
		t.Errorf("certain of a claim without its pod: %v", c.Usage())
	}
	if c := cost(t, resourceClaims, own); c.CertainPart() != c {
		t.Error("a claim that nobody made isn't certain")
	}
	if c := cost(t, pods, running); c.CertainPart() != c {
		t.Error("a pod isn't certain")
	}
	for name, test := range map[string]struct {
		change Change
		may    bool
		named  string
	}{
		"a new pod":                {Change{Resource: pods, Old: nil, New: cost(t, pods, running)}, false, ""},
		"a pod goes":               {Change{Resource: pods, Old: cost(t, pods, running), New: nil}, true, ""},
		"a pod ends":               {Change{Resource: pods, Old: cost(t, pods, named), New: cost(t, pods, over)}, true, ""},
		"a pod that has ended":     {Change{Resource: pods, Old: cost(t, pods, over), New: cost(t, pods, over)}, false, ""},
		"a pod names its claim":    {Change{Resource: pods, Old: cost(t, pods, running), New: cost(t, pods, named)}, true, "foo"},
		"a pod like most":          {Change{Resource: pods, Old: cost(t, pods, plain), New: nil}, false, ""},
		"a claim is made":          {Change{Resource: resourceClaims, Old: nil, New: orphan}, true, ""},
		"a made claim goes":        {Change{Resource: resourceClaims, Old: orphan, New: nil}, true, ""},
		"a made claim's status":    {Change{Resource: resourceClaims, Old: orphan, New: cost(t, resourceClaims, made)}, false, ""},
		"a claim that nobody made": {Change{Resource: resourceClaims, Old: nil, New: cost(t, resourceClaims, own)}, false, ""},
	} {
		if may, named := test.change.AffectsKin(); may != test.may || named != test.named {
			t.Errorf("%s: %t, except %q", name, may, named)
		}
	}
}
