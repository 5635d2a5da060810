// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initializers_test

import (
	"net/http"
	"testing"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/servertest"
)

const version = "admissionregistration.k8s.io/v1alpha1"

// Kubernetes has kinds of its own in the version. Without the plugin it means those.
func TestServed(t *testing.T) {
	for name, test := range map[string]struct {
		options        []gatehousetest.Option
		configurations int
		policies       int
	}{
		"by default": {nil, http.StatusNotFound, http.StatusNotFound},
		"by the plugin": {[]gatehousetest.Option{withInitializers}, http.StatusOK,
			http.StatusNotFound},
		"by the plugin, and the version": {[]gatehousetest.Option{withInitializers,
			servertest.RuntimeConfig(version + "=true")}, http.StatusOK, http.StatusNotFound},
		"by the plugin, and everything": {[]gatehousetest.Option{withInitializers,
			servertest.RuntimeConfig("api/all=true")}, http.StatusOK, http.StatusNotFound},
		"by the version": {[]gatehousetest.Option{servertest.RuntimeConfig(version + "=true")},
			http.StatusNotFound, http.StatusOK},
		"by its name": {[]gatehousetest.Option{servertest.RuntimeConfig(version +
			"/initializerconfigurations=true")}, http.StatusOK, http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			c := servertest.Start(t, test.options...)
			for path, want := range map[string]int{
				"/apis/" + version + "/initializerconfigurations":                     test.configurations,
				"/apis/" + version + "/mutatingadmissionpolicies":                     test.policies,
				"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": http.StatusOK,
			} {
				var code int
				c.Client.Discovery().RESTClient().Get().AbsPath(path).Do(t.Context()).StatusCode(&code)
				if code != want {
					t.Errorf("%s: %d, want %d", path, code, want)
				}
			}
		})
	}
}

func TestCantBeServed(t *testing.T) {
	for name, test := range map[string]struct{ setting, want string }{
		"with one of Kubernetes' kinds": {
			version + "/mutatingadmissionpolicies=true",
			"--runtime-config: mutatingadmissionpolicies of " + version +
				" can't be served where initializerconfigurations are; Kubernetes has them in another version, too",
		},
		"switched off": {
			version + "/initializerconfigurations=false",
			"--runtime-config: initializerconfigurations of " + version +
				" are switched off, but an admission plugin that is enabled needs them: Initializers",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := servertest.StartError(t, withInitializers, servertest.RuntimeConfig(test.setting)); err == nil ||
				err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}
