package podgroupprotection

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/chain/chaintest"
)

func group(finalizers ...string) *schedulingv1alpha2.PodGroup {
	return &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g",
		Finalizers: finalizers}}
}

// Upstream: TestPodGroupProtectionAdmit in
// plugin/pkg/admission/scheduling/podgroupprotection/admission_test.go.
func TestFinalizer(t *testing.T) {
	const ours = "scheduling.k8s.io/podgroup-protection"
	plugin := chaintest.New(t, Descriptor, "")
	for name, test := range map[string]struct {
		given *schedulingv1alpha2.PodGroup
		want  []string
	}{
		"none":          {group(), []string{ours}},
		"another":       {group("example.com/f"), []string{"example.com/f", ours}},
		"there already": {group(ours, "example.com/f"), []string{ours, "example.com/f"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := plugin.Admit(t, chaintest.Create(test.given)).Admitted(t).Object.(*schedulingv1alpha2.PodGroup)
			if !slices.Equal(got.Finalizers, test.want) {
				t.Errorf("got %q", got.Finalizers)
			}
		})
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	plugin := chaintest.New(t, Descriptor, "")
	for name, request := range map[string]chaintest.Request{
		"update": chaintest.Update(group(), group()),
		"status": chaintest.Create(group()).On("podgroups", "status"),
		"delete": chaintest.Delete(group()),
		"others": chaintest.Create(group()).On("workloads", ""),
	} {
		if plugin.Admit(t, request).Admitted(t).Handled {
			t.Errorf("%s is looked at", name)
		}
	}
	wrong := chaintest.Create(group())
	wrong.Object = &corev1.Pod{}
	plugin.Admit(t, wrong).Refused(t, 400, "PodGroupProtection: the object of a request for podgroups is a *v1.Pod")
}
