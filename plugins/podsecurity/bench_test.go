package podsecurity

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"gatehouse.dev/chain/chaintest"
)

// Source: upstream's BenchmarkVerifyPod and BenchmarkVerifyNamespace.
func BenchmarkValidate(b *testing.B) {
	for name, test := range map[string]struct {
		namespace *corev1.Namespace
		request   chaintest.Request
	}{
		"a pod, privileged":          {labeled(), chaintest.Create(restrictedPod(nil))},
		"a pod, restricted":          {all("restricted"), chaintest.Create(restrictedPod(nil))},
		"a Deployment, privileged":   {labeled(), chaintest.Create(deployment(restrictedPod(nil)))},
		"a Deployment, restricted":   {all("restricted"), chaintest.Create(deployment(restrictedPod(nil)))},
		"a pod's update, restricted": {all("restricted"), chaintest.Update(restrictedPod(nil), restrictedPod(nil))},
	} {
		b.Run(name, func(b *testing.B) {
			plugin := chaintest.New(b, Descriptor, "", test.namespace).Interface.(admission.ValidationInterface)
			r, ctx := test.request, warning.WithWarningRecorder(context.Background(), &warnings{})
			b.ReportAllocs()
			for b.Loop() {
				a := admission.NewAttributesRecord(r.Object, r.OldObject, r.Kind, r.Namespace, r.Name, r.Resource, "",
					r.Operation, r.Options, false, r.User)
				if err := plugin.Validate(ctx, a, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
