// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package nodedeclaredfeaturevalidator

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	versionutil "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	features "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/component-helpers/nodedeclaredfeatures/types"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

const (
	initResize = "InPlacePodVerticalScalingInitContainers"
	podResize  = "InPlacePodLevelResourcesVerticalScaling"
)

func node(name string, declared ...string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{DeclaredFeatures: declared}}
}

func requesting(cpu string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}
}

// pod is a pod on a node, of a generation, whose init container requests as much.
func pod(node string, generation int64, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Generation: generation},
		Spec: corev1.PodSpec{
			NodeName:       node,
			InitContainers: []corev1.Container{{Name: "init", Resources: requesting(cpu)}},
			Containers:     []corev1.Container{{Name: "c", Resources: requesting("1")}},
		},
	}
}

// Upstream: TestNodeDeclaredFeaturesValidatorAdmission in
// plugin/pkg/admission/nodedeclaredfeatures/admission_test.go, which makes up features of its own.
func TestUpdate(t *testing.T) {
	const (
		requires    = `pods "p" is forbidden: pod update requires features `
		unavailable = ` which are not available on node `
		refused     = requires + initResize + unavailable
	)
	subject := plugintest.New(t, Descriptor, "", node("knows", "GuaranteedQoSPodCPUResize", initResize), node("old"),
		node("other", "Other"))
	whole := func(p *corev1.Pod, cpu string) *corev1.Pod {
		resources := requesting(cpu)
		p.Spec.Resources = &resources
		return p
	}
	for name, test := range map[string]struct {
		pod, old *corev1.Pod
		want     string
	}{
		"the node knows it":       {pod("knows", 2, "2"), pod("knows", 1, "1"), ""},
		"the node doesn't":        {pod("old", 2, "2"), pod("old", 1, "1"), refused + `"old"`},
		"it knows something else": {pod("other", 2, "2"), pod("other", 1, "1"), refused + `"other"`},
		"nothing is needed":       {pod("old", 2, "1"), pod("old", 1, "1"), ""},
		"no node":                 {pod("", 2, "2"), pod("", 1, "1"), ""},
		"a node that isn't there": {pod("gone", 2, "2"), pod("gone", 1, "1"),
			`pods "p" is forbidden: node "gone" not found`},
		"... and nothing is needed": {pod("gone", 2, "1"), pod("gone", 1, "1"), ""},
		"the spec doesn't change":   {pod("old", 1, "2"), pod("old", 1, "1"), ""},
		"two features, one is there": {whole(pod("knows", 2, "2"), "4"), whole(pod("knows", 1, "1"), "3"),
			requires + podResize + unavailable + `"knows"`},
		"two features, none is": {whole(pod("old", 2, "2"), "4"), whole(pod("old", 1, "1"), "3"),
			requires + podResize + ", " + initResize + unavailable + `"old"`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, request := range []plugintest.Request{plugintest.Update(test.pod, test.old),
				plugintest.Update(test.pod, test.old).On("pods", "resize")} {
				result := subject.Validate(t, request)
				if test.want == "" {
					result.Admitted(t)
				} else {
					result.Refused(t, 403, test.want)
				}
			}
		})
	}
}

// resizing is a feature that every changed pod needs, and that all nodes have after a version.
type resizing struct{ last string }

func (resizing) Name() string                                       { return "Resizing" }
func (resizing) Discover(*types.NodeConfiguration) bool             { return false }
func (resizing) Requirements() *types.FeatureRequirements           { return &types.FeatureRequirements{} }
func (resizing) InferForScheduling(*types.PodInfo) bool             { return false }
func (resizing) InferForUpdate(*types.PodInfo, *types.PodInfo) bool { return true }
func (r resizing) MaxVersion() *versionutil.Version                 { return versionutil.MustParse(r.last) }

// Upstream: "Feature not need as its generally available" in the same test.
func TestWhatAllNodesHaveIsNotAskedFor(t *testing.T) {
	for last, want := range map[string]string{
		"1.99.0": `pods "p" is forbidden: pod update requires features Resizing which are not available on node "old"`,
		"1.34.0": "",
	} {
		built := plugintest.New(t, Descriptor, "", node("old"))
		built.Built.(*nodeDeclaredFeatureValidator).known = features.New([]types.Feature{resizing{last}})
		result := built.Validate(t, plugintest.Update(pod("old", 2, "1"), pod("old", 1, "1")))
		if want == "" {
			result.Admitted(t)
		} else {
			result.Refused(t, 403, want)
		}
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	given, old := pod("gone", 2, "2"), pod("gone", 1, "1")
	for name, request := range map[string]plugintest.Request{
		"status":     plugintest.Update(given, old).On("pods", "status"),
		"ephemerals": plugintest.Update(given, old).On("pods", "ephemeralcontainers"),
		"delete":     plugintest.Delete(given),
		"others":     plugintest.Update(given, old).On("others", ""),
	} {
		if subject.Validate(t, request).Admitted(t).Handled {
			t.Errorf("%s is looked at", name)
		}
	}
	subject.Validate(t, plugintest.Create(given)).Admitted(t)
	const noPod = "NodeDeclaredFeatureValidator: the object of a request for pods is a *v1.Secret"
	wrong := plugintest.Update(given, old)
	wrong.Object = &corev1.Secret{}
	subject.Validate(t, wrong).Refused(t, 400, noPod)
	wrong.Object, wrong.OldObject = given, &corev1.Secret{}
	subject.Validate(t, wrong).Refused(t, 400, noPod)
}

func TestItWaitsForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		built, err := Descriptor.New(nil, &plugin.Env{Informers: informers.NewSharedInformerFactory(fake.NewClientset(),
			0)})
		if err != nil {
			t.Fatal(err)
		}
		subject := plugintest.Plugin{Built: built}
		subject.Validate(t, plugintest.Update(pod("n", 2, "1"), pod("n", 1, "1"))).Admitted(t)
		subject.Validate(t, plugintest.Update(pod("n", 2, "2"), pod("n", 1, "1"))).Refused(t, 403,
			`pods "p" is forbidden: not yet ready to handle request`)
	})
}
