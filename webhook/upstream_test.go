// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	webhookadmissionv1 "k8s.io/apiserver/pkg/admission/plugin/webhook/config/apis/webhookadmission/v1"

	"gatehouse.dev/internal/configfile"
	"gatehouse.dev/internal/kubesource"
)

// formerKind is the kind of configuration of older releases, which upstream no longer reads.
var formerKind = configfile.Meta{APIVersion: "apiserver.config.k8s.io/v1alpha1", Kind: "WebhookAdmission"}

func TestConfigurationKindsAreUpstreams(t *testing.T) {
	calls := kubesource.Parse(t, "k8s.io/apiserver/pkg/admission/plugin/webhook/config/kubeconfig.go")
	for _, call := range calls.Calls("utilruntime.Must") {
		switch added := kubesource.Text(call.Args[0]); added {
		case "webhookadmission.AddToScheme(scheme)", "v1.AddToScheme(scheme)":
		default:
			t.Errorf("upstream reads a version that this test doesn't know: %s", added)
		}
	}
	scheme := runtime.NewScheme()
	if err := webhookadmissionv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	theirs := map[configfile.Meta]bool{formerKind: true}
	for kind := range scheme.KnownTypes(webhookadmissionv1.SchemeGroupVersion) {
		theirs[configfile.Meta{APIVersion: webhookadmissionv1.SchemeGroupVersion.String(), Kind: kind}] = true
	}
	ours := map[configfile.Meta]bool{}
	for _, kind := range configKinds {
		ours[kind] = true
	}
	if !maps.Equal(ours, theirs) {
		t.Errorf("kinds of configuration are\n%v\nupstream's are\n%v", ours, theirs)
	}
}
