package priority

import (
	"testing"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/plugin/plugintest"
)

// group makes a PodGroup as pod makes a pod.
func group(text string) *schedulingv1alpha3.PodGroup {
	like := pod(text).Spec
	return &schedulingv1alpha3.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"},
		Spec: schedulingv1alpha3.PodGroupSpec{PriorityClassName: like.PriorityClassName, Priority: like.Priority}}
}

// The cases of TestAdmitPodGroup in upstream's admission_test.go, and some more.
func TestPodGroups(t *testing.T) {
	const (
		off = "off"
	)
	for name, test := range map[string]struct {
		classes []string
		request plugintest.Request
		gate    string
		want    string
		refused string
	}{
		"with a class": {[]string{"a=1000 Never"}, plugintest.Create(group("a")), "", "a 1000 -", ""},
		"without one":  {[]string{"a=1000 default"}, plugintest.Create(group("")), "", "a 1000 -", ""},
		"without one, there is no default": {[]string{"a=1000"}, plugintest.Create(group("")), "",
			"- 0 -", ""},
		"the class's number": {[]string{"a=1000"}, plugintest.Create(group("a 1000")), "", "a 1000 -", ""},
		"another number": {[]string{"a=1000"}, plugintest.Create(group("a 7")), "", "",
			`podgroups.scheduling.k8s.io "g" is forbidden: priority set in the pod group (7) must match the priority ` +
				`computed (1000) based on the priority class set in the spec`},
		"a number without a class": {nil, plugintest.Create(group("- 7")), "", "",
			`podgroups.scheduling.k8s.io "g" is forbidden: priority set in the pod group (7) must match the priority ` +
				`computed (0) based on the priority class set in the spec`},
		"no such class": {nil, plugintest.Create(group("b")), "", "",
			`podgroups.scheduling.k8s.io "g" is forbidden: no PriorityClass with name b was found`},
		"an update":        {[]string{"a=1000"}, plugintest.Update(group("a"), group("a")), "", "a - -", ""},
		"a status":         {nil, plugintest.Create(group("b")).On("podgroups", "status"), "", "b - -", ""},
		"without the gate": {nil, plugintest.Create(group("b 7")), off, "b 7 -", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := plugintest.NewCluster(t, classes(test.classes...)...)
			gates := featuregate.NewFeatureGate()
			if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
				"WorkloadAwarePreemption": {Default: test.gate != off, PreRelease: featuregate.Alpha}}); err != nil {
				t.Fatal(err)
			}
			cluster.Env.Features = gates
			result := cluster.Build(t, Descriptor, "").Admit(t, test.request)
			if test.refused != "" {
				result.Refused(t, 403, test.refused)
				return
			}
			got := result.Admitted(t).Object.(*schedulingv1alpha3.PodGroup).Spec
			like := pod("")
			like.Spec.PriorityClassName, like.Spec.Priority = got.PriorityClassName, got.Priority
			if says(like) != test.want {
				t.Errorf("got %s, want %s", says(like), test.want)
			}
		})
	}
}
