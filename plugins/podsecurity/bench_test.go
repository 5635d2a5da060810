// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podsecurity

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/plugintest"
)

// Source: upstream's BenchmarkVerifyPod and BenchmarkVerifyNamespace.
func BenchmarkValidate(b *testing.B) {
	for name, test := range map[string]struct {
		namespace *corev1.Namespace
		request   plugintest.Request
	}{
		"a pod, privileged":          {labeled(), plugintest.Create(restrictedPod(nil))},
		"a pod, restricted":          {all("restricted"), plugintest.Create(restrictedPod(nil))},
		"a Deployment, privileged":   {labeled(), plugintest.Create(deployment(restrictedPod(nil)))},
		"a Deployment, restricted":   {all("restricted"), plugintest.Create(deployment(restrictedPod(nil)))},
		"a pod's update, restricted": {all("restricted"), plugintest.Update(restrictedPod(nil), restrictedPod(nil))},
	} {
		b.Run(name, func(b *testing.B) {
			subject := plugintest.New(b, Descriptor, "", test.namespace).Built.(plugin.Validator)
			r, ctx := test.request, warning.WithWarningRecorder(context.Background(), &warnings{})
			b.ReportAllocs()
			for b.Loop() {
				a := admission.NewAttributesRecord(r.Object, r.OldObject, r.Kind, r.Namespace, r.Name, r.Resource, "",
					r.Operation, r.Options, false, r.User)
				if err := subject.Validate(ctx, a, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
