package jsondiff_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"gatehouse.dev/chain/jsondiff"
)

// usualPod is what a deployment's pod looks like once it has its defaults.
func usualPod() *corev1.Pod {
	pod := pod()
	pod.Annotations = map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "9090"}
	resources := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
	container := func(name string) corev1.Container {
		return corev1.Container{Name: name, Image: "registry.example.com/shop/" + name + ":1.42.0",
			ImagePullPolicy: corev1.PullIfNotPresent,
			Ports:           []corev1.ContainerPort{{Name: name, ContainerPort: 8080}},
			Env:             []corev1.EnvVar{{Name: "LEVEL", Value: "info"}, {Name: "MODE", Value: "fast"}},
			Resources: corev1.ResourceRequirements{Requests: resources("250m", "256Mi"),
				Limits: resources("1", "512Mi")},
			ReadinessProbe: &corev1.Probe{PeriodSeconds: 5, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/readyz", Port: intstr.FromString(name)}}},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/web"}, {Name: "tmp",
				MountPath: "/tmp"}},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
		}
	}
	pod.Spec = corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), FSGroup: ptr.To[int64](2000)},
		Containers:      []corev1.Container{container("web"), container("proxy")},
		NodeSelector:    map[string]string{"kubernetes.io/os": "linux"},
		Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.
			ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "web"}}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		TerminationGracePeriodSeconds: ptr.To[int64](30),
	}
	return pod
}

// usualChanges are what a server's plugins do to each pod.
var usualChanges = []struct {
	name string
	do   func(*corev1.Pod)
}{
	{"ServiceAccount", func(p *corev1.Pod) {
		p.Spec.ServiceAccountName, p.Spec.DeprecatedServiceAccount = "default", "default"
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "kube-api-access-x7k2p",
			VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](420),
				Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
					{ConfigMap: &corev1.ConfigMapProjection{Items: []corev1.KeyToPath{{Key: "ca.crt",
						Path: "ca.crt"}}}},
				}}}})
		for i := range p.Spec.Containers {
			c := &p.Spec.Containers[i]
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "kube-api-access-x7k2p", ReadOnly: true,
				MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"})
		}
	}},
	{"Priority", func(p *corev1.Pod) {
		p.Spec.Priority, p.Spec.PreemptionPolicy = ptr.To[int32](0), ptr.To(corev1.PreemptLowerPriority)
	}},
	{"nothing", func(*corev1.Pod) {}},
	{"LimitRanger", func(p *corev1.Pod) {
		p.Annotations["kubernetes.io/limit-ranger"] = "LimitRanger plugin set: ephemeral-storage"
		for _, c := range p.Spec.Containers {
			c.Resources.Requests["ephemeral-storage"] = resource.MustParse("1Gi")
			c.Resources.Limits["ephemeral-storage"] = resource.MustParse("1Gi")
		}
	}},
	{"DefaultTolerationSeconds", func(p *corev1.Pod) {
		for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key,
				Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: ptr.To[int64](300)})
		}
	}},
	{"AlwaysPullImages", func(p *corev1.Pod) {
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].ImagePullPolicy = corev1.PullAlways
		}
	}},
}

// What it takes to tell what each plugin changed in a pod: Told in place of Untold, where plugins
// do the same with a pod of their own and nobody asks.
func BenchmarkUsual(b *testing.B) {
	object := usualPod()
	b.Run("Remember", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			jsondiff.Remember(object).Forget()
		}
	})
	b.Run("Untold", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			changing := object.DeepCopy()
			for _, c := range usualChanges {
				c.do(changing)
			}
		}
	})
	b.Run("Told", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			changing := object.DeepCopy()
			memory := jsondiff.Remember(changing)
			for _, c := range usualChanges {
				c.do(changing)
				if _, err := memory.Since(changing).Patch(); err != nil {
					b.Fatal(err)
				}
			}
			memory.Forget()
		}
	})
}
