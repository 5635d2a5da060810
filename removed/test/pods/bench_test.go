// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pods_test

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"

	"gatehouse.dev/chain"
	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/plugin"
	policyv1beta1 "gatehouse.dev/removed/apis/policy/v1beta1"
	"gatehouse.dev/telemetry"
	"gatehouse.dev/test/servertest"
)

// shaping are the plugins that shape pods, without the two that ask a backend.
var shaping = []string{
	"SecurityContextDeny", "LimitPodHardAntiAffinityTopology", "PodPreset", "TaintNodesByCondition", "AlwaysPullImages",
	"PodSecurityPolicy", "PodNodeSelector",
	"Priority", "DefaultTolerationSeconds", "PodTolerationRestriction", "DenyEscalatingExec", "DenyExecOnPrivileged",
	"ExtendedResourceToleration",
}

// BenchmarkShapingPlugins is what all plugins that shape pods take in the chain for the creation of
// a pod: both phases, conversions and metrics included, with the kinds and conversions of the
// server and caches that a server fills. Authorization isn't included: whoever asks may use the
// policy.
func BenchmarkShapingPlugins(b *testing.B) {
	c := servertest.Start(b, gatehousetest.WithPlugins("PodPreset", "PodSecurityPolicy"))
	namespace := c.Namespace(b, map[string]string{
		"scheduler.alpha.kubernetes.io/node-selector": "disk=ssd",
		"scheduler.alpha.kubernetes.io/defaultTolerations": `[{"key":"team","operator":"Equal","value":"shop",` +
			`"effect":"NoSchedule"}]`,
	})
	anything := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy/v1beta1", "kind": "PodSecurityPolicy", "metadata": map[string]any{"name": "anything"},
		"spec": map[string]any{
			"volumes": []any{"*"}, "seLinux": map[string]any{"rule": "RunAsAny"},
			"runAsUser":          map[string]any{"rule": "RunAsAny"},
			"supplementalGroups": map[string]any{"rule": "RunAsAny"}, "fsGroup": map[string]any{"rule": "RunAsAny"},
		},
	}}
	if _, err := c.Dynamic.Resource(policyv1beta1.PodSecurityPolicies).Create(b.Context(), anything,
		metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	built, interfaces := shapingChain(b, c), admission.NewObjectInterfacesFromScheme(legacyscheme.Scheme)
	kind, pods := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods")
	model := internalPod(b, namespace)
	one := func(pod *core.Pod) error {
		a := admission.NewAttributesRecord(pod, nil, kind, namespace, pod.Name, pods, "", admission.Create,
			&metav1.CreateOptions{}, false, &user.DefaultInfo{Name: "alice"})
		if err := built.Admit(context.Background(), a, interfaces); err != nil {
			return err
		}
		return built.Validate(context.Background(), a, interfaces)
	}
	servertest.Retry(b, "the policy to be known", func() error { return one(model.DeepCopy()) })

	// Plugins change the pod, so each creation begins with what they may change as it was. A copy
	// of the whole pod for each would be garbage that isn't the chain's, and would be collected at
	// its expense.
	unchanged, pod, containers := model.DeepCopy(), &core.Pod{}, make([]core.Container, len(model.Spec.Containers))
	b.ReportAllocs()
	for b.Loop() {
		copy(containers, model.Spec.Containers)
		*pod = *model
		pod.Spec.Containers = containers
		if err := one(pod); err != nil {
			b.Fatal(err)
		}
	}
	if diff := cmp.Diff(unchanged, model); diff != "" {
		b.Errorf("plugins change more of a pod than is restored: %s", diff)
	}
}

// shapingChain is a chain of these plugins over the server's caches.
func shapingChain(b *testing.B, c *servertest.Cluster) *chain.Chain {
	b.Helper()
	env := &plugin.Env{
		Client: c.Client, Dynamic: c.Dynamic, Informers: informers.NewSharedInformerFactory(c.Client, 0),
		Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer(), Done: b.Context().Done(),
	}
	var selected []plugin.Descriptor
	for _, d := range compiled.Plugins {
		if slices.Contains(shaping, d.Name) {
			selected = append(selected, d)
		}
	}
	if len(selected) != len(shaping) {
		b.Fatalf("%d of %d plugins are on the list", len(selected), len(shaping))
	}
	built, err := chain.New(selected, nil, env, telemetry.Metrics())
	if err != nil {
		b.Fatal(err)
	}
	env.Informers.Start(b.Context().Done())
	env.Informers.WaitForCacheSync(b.Context().Done())
	return built
}

// internalPod is a pod of two containers as the server holds it once it has decoded it.
func internalPod(b *testing.B, namespace string) *core.Pod {
	b.Helper()
	amounts := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
	container := func(name string) corev1.Container {
		return corev1.Container{
			Name: name, Image: "registry.example.com/shop/" + name + ":1.42.0",
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			Env:   []corev1.EnvVar{{Name: "LEVEL", Value: "info"}},
			Resources: corev1.ResourceRequirements{Requests: amounts("250m", "256Mi"),
				Limits: amounts("1", "512Mi")},
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/web"}},
		}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web",
			Labels: map[string]string{"app": "web", "tier": "front"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{container("web"), container("proxy")},
			Volumes: []corev1.Volume{{Name: "config",
				VolumeSource: corev1.VolumeSource{
					ConfigMap: &corev1.ConfigMapVolumeSource{
						LocalObjectReference: corev1.LocalObjectReference{Name: "web"},
					},
				}}},
		},
	}
	legacyscheme.Scheme.Default(pod)
	internal, err := runtime.UnsafeObjectConvertor(legacyscheme.Scheme).ConvertToVersion(pod, core.SchemeGroupVersion)
	if err != nil {
		b.Fatal(err)
	}
	return internal.(*core.Pod)
}
