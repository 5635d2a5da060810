package podsecurity

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"gatehouse.dev/chain/chaintest"
)

func deployment(pod *corev1.Pod) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "d"},
		Spec: appsv1.DeploymentSpec{Template: template(pod)}}
}

func template(pod *corev1.Pod) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: pod.Spec}
}

// Source: upstream's TestDefaultExtractPodSpec, TestDefaultHasPodSpec and TestConvert. It knows the
// versions that Kubernetes serves.
func TestEverythingWithATemplate(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "d"}
	pods := template(hostPod(nil))
	for name, object := range map[string]runtime.Object{
		"PodTemplate":           &corev1.PodTemplate{ObjectMeta: meta, Template: pods},
		"ReplicationController": &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Template: &pods}},
		"Deployment":            &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: pods}},
		"ReplicaSet":            &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Template: pods}},
		"StatefulSet":           &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Template: pods}},
		"DaemonSet":             &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Template: pods}},
		"Job":                   &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: pods}},
		"CronJob": &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pods}}}},
		"apps/v1beta2 Deployment":       &appsv1beta2.Deployment{ObjectMeta: meta, Spec: appsv1beta2.DeploymentSpec{Template: pods}},
		"apps/v1beta2 ReplicaSet":       &appsv1beta2.ReplicaSet{ObjectMeta: meta, Spec: appsv1beta2.ReplicaSetSpec{Template: pods}},
		"apps/v1beta2 StatefulSet":      &appsv1beta2.StatefulSet{ObjectMeta: meta, Spec: appsv1beta2.StatefulSetSpec{Template: pods}},
		"apps/v1beta2 DaemonSet":        &appsv1beta2.DaemonSet{ObjectMeta: meta, Spec: appsv1beta2.DaemonSetSpec{Template: pods}},
		"apps/v1beta1 Deployment":       &appsv1beta1.Deployment{ObjectMeta: meta, Spec: appsv1beta1.DeploymentSpec{Template: pods}},
		"apps/v1beta1 StatefulSet":      &appsv1beta1.StatefulSet{ObjectMeta: meta, Spec: appsv1beta1.StatefulSetSpec{Template: pods}},
		"extensions/v1beta1 Deployment": &extensionsv1beta1.Deployment{ObjectMeta: meta, Spec: extensionsv1beta1.DeploymentSpec{Template: pods}},
		"extensions/v1beta1 ReplicaSet": &extensionsv1beta1.ReplicaSet{ObjectMeta: meta, Spec: extensionsv1beta1.ReplicaSetSpec{Template: pods}},
		"extensions/v1beta1 DaemonSet":  &extensionsv1beta1.DaemonSet{ObjectMeta: meta, Spec: extensionsv1beta1.DaemonSetSpec{Template: pods}},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := chaintest.New(t, Descriptor, "", all("baseline"))
			want := said{warnings: []string{`would violate PodSecurity "baseline:latest": ` + hostViolation},
				audit: notes{"audit-violations": `would violate PodSecurity "baseline:latest": ` + hostViolation}}
			of(t, plugin.Validate(t, chaintest.Create(object))).want(t, want)
			// Every update, also one that changes nothing.
			of(t, plugin.Validate(t, chaintest.Update(object, object))).want(t, want)
		})
	}
}

// Source: upstream's TestValidatePodAndController (its deployments).
func TestTemplates(t *testing.T) {
	warning := []string{`would violate PodSecurity "restricted:latest": ` + rootViolation}
	violation := `would violate PodSecurity "restricted:latest": ` + rootViolation
	for name, test := range map[string]struct {
		namespace *corev1.Namespace
		object    runtime.Object
		want      said
	}{
		"a namespace that says nothing": {labeled(), deployment(hostPod(nil)), said{}},
		"what is kept to":               {all("restricted"), deployment(restrictedPod(nil)), said{}},
		"enforced alone":                {labeled("enforce", "restricted", "warn", "privileged"), deployment(rootPod()), said{}},
		"warned of as enforced":         {labeled("enforce", "restricted"), deployment(rootPod()), said{warnings: warning}},
		"warned of":                     {labeled("warn", "restricted"), deployment(rootPod()), said{warnings: warning}},
		"audited": {labeled("audit", "restricted"), deployment(rootPod()),
			said{audit: notes{"audit-violations": violation}}},
		"unreadable": {labeled("enforce", "none"), deployment(rootPod()), said{audit: notes{"error": `Failed to parse ` +
			`policy: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "none": must be one of ` +
			`privileged, baseline, restricted`}}},
		"no template": {all("restricted"), &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "d"}}, said{}},
		"no namespace": {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, deployment(rootPod()),
			said{audit: notes{"error": `failed to lookup namespace "ns": namespaces "ns" not found`}}},
	} {
		t.Run(name, func(t *testing.T) {
			plugin := chaintest.New(t, Descriptor, "", test.namespace)
			of(t, plugin.Validate(t, chaintest.Create(test.object))).want(t, test.want)
		})
	}
	plugin := chaintest.New(t, Descriptor, "", all("restricted"))
	scale := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "d"}}
	request := chaintest.Create(scale).On("deployments", "")
	request.Resource.Group = "apps"
	of(t, plugin.Validate(t, request)).want(t, said{audit: notes{
		"error": "failed to extract pod template: unexpected object type: *v1.Binding"}})
}
