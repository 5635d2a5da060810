package plugins

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/featuregate"

	"gatehouse.dev/chain"
	"gatehouse.dev/chain/chaintest"
)

// A plugin that must read the API, and gets no answer in time, doesn't say that the request is
// forbidden: it says what the API said, or 504.
func TestNoAnswerInTime(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{ServiceAccountName: "a", PriorityClassName: "c",
			Tolerations: []corev1.Toleration{{Key: "a", Operator: "Exists"}}}}
	claim := func(size string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"},
			Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: new("s"),
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound,
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}
	}
	create := chaintest.Create(pod)
	exec := chaintest.Connect(pod, "exec", &corev1.PodExecOptions{})
	exec.Name, exec.Namespace = "p", "ns"
	eviction := chaintest.Create(pod).On("pods", "eviction").By("system:node:n", "system:nodes")
	for name, request := range map[string]chaintest.Request{
		"LimitRanger": create, "ServiceAccount": create, "Priority": create, "PodNodeSelector": create,
		"PodTolerationRestriction": create, "NamespaceLifecycle": create, "NamespaceExists": create,
		"NamespaceAutoProvision": create, "ResourceQuota": create, "DenyEscalatingExec": exec,
		"DenyExecOnPrivileged": exec, "NodeRestriction": eviction,
		"PersistentVolumeClaimResize": chaintest.Update(claim("2Gi"), claim("1Gi")),
	} {
		for _, fault := range []struct {
			err  error
			code int
		}{
			{apierrors.NewTimeoutError("late", 1), 504},
			{apierrors.NewServiceUnavailable("starting"), 503},
			{context.DeadlineExceeded, 504},
		} {
			t.Run(name+" "+fault.err.Error(), func(t *testing.T) {
				cluster := chaintest.NewCluster(t)
				cluster.Env.Authorizer = authorizer.AuthorizerFunc(
					func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
						return authorizer.DecisionAllow, "", nil
					})
				gates := featuregate.NewFeatureGate()
				for _, gate := range []featuregate.Feature{"AllowInsecureKubeletCertificateSigningRequests",
					"ServiceAccountNodeAudienceRestriction", "PodCertificateRequest", "RecoverVolumeExpansionFailure"} {
					_ = gates.Add(
						map[featuregate.Feature]featuregate.FeatureSpec{gate: {PreRelease: featuregate.Alpha}})
				}
				cluster.Env.Features = gates
				i := slices.IndexFunc(List, func(d chain.Descriptor) bool { return d.Name == name })
				built := cluster.Build(t, List[i], "")
				cluster.Client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, fault.err
				})
				var result chaintest.Result
				if _, mutates := built.Interface.(admission.MutationInterface); mutates {
					result = built.Admit(t, request)
				} else {
					result = built.Validate(t, request)
				}
				if result.Code() != fault.code {
					t.Errorf("got %d: %v", result.Code(), result.Err)
				}
			})
		}
	}
}
