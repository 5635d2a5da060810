package podgroupprotection

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/plugin/plugintest"
)

func group(finalizers ...string) *schedulingv1beta1.PodGroup {
	return &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g",
		Finalizers: finalizers}}
}

// Upstream: TestPodGroupProtectionAdmit in
// plugin/pkg/admission/scheduling/podgroupprotection/admission_test.go.
func TestFinalizer(t *testing.T) {
	const ours = "scheduling.k8s.io/podgroup-protection"
	subject := plugintest.New(t, Descriptor, "")
	for name, test := range map[string]struct {
		given *schedulingv1beta1.PodGroup
		want  []string
	}{
		"none":          {group(), []string{ours}},
		"another":       {group("example.com/f"), []string{"example.com/f", ours}},
		"there already": {group(ours, "example.com/f"), []string{ours, "example.com/f"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := subject.Admit(t, plugintest.Create(test.given)).Admitted(t).Object.(*schedulingv1beta1.PodGroup)
			if !slices.Equal(got.Finalizers, test.want) {
				t.Errorf("got %q", got.Finalizers)
			}
		})
	}
}

func TestOtherRequestsAreLeftAlone(t *testing.T) {
	subject := plugintest.New(t, Descriptor, "")
	for name, request := range map[string]plugintest.Request{
		"update": plugintest.Update(group(), group()),
		"status": plugintest.Create(group()).On("podgroups", "status"),
		"delete": plugintest.Delete(group()),
		"others": plugintest.Create(group()).On("workloads", ""),
	} {
		if subject.Admit(t, request).Admitted(t).Handled {
			t.Errorf("%s is looked at", name)
		}
	}
	wrong := plugintest.Create(group())
	wrong.Object = &corev1.Pod{}
	subject.Admit(t, wrong).Refused(t, 400, "PodGroupProtection: the object of a request for podgroups is a *v1.Pod")
}
