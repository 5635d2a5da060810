// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/plugin"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// A server that can't be built after its plugins leaves nothing of theirs running.
func TestPluginsEndWithAServerThatDoesNotStart(t *testing.T) {
	var done <-chan struct{}
	built := plugin.Descriptor{Name: "Built", Phases: plugin.Validating, Operations: []admission.Operation{admission.Create}, Default: true,
		New: func(_ io.Reader, env *plugin.Env) (plugin.Plugin, error) {
			done = env.Done
			return passing{}, nil
		}}
	err := servertest.StartError(t, gatehousetest.WithConfig(func(c *server.Config) {
		c.Plugins = []plugin.Descriptor{built}
		if err := os.Mkdir(c.API.AdminKubeconfig(), 0o700); err != nil {
			t.Fatal(err)
		}
	}))
	if err == nil {
		t.Fatal("the server has been built")
	}
	select {
	case <-done:
	default:
		t.Errorf("the plugin may run on after %v", err)
	}
}

type passing struct{}

// Validate implements admission.ValidationInterface.
func (passing) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}

// A plugin whose Former no server can use is an error, rather than a server without what it would serve.
func TestUnusableFormer(t *testing.T) {
	err := servertest.StartError(t, gatehousetest.WithConfig(func(c *server.Config) {
		c.Plugins = []plugin.Descriptor{{Name: "Wrong", Phases: plugin.Validating,
			Operations: []admission.Operation{admission.Create}, Server: plugin.Server{Former: func() {}},
			New: func(io.Reader, *plugin.Env) (plugin.Plugin, error) { return passing{}, nil }}}
	}))
	const want = "plugin Wrong: Server.Former of its Descriptor is a func()"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// A server whose plugins would wait forever for what --runtime-config has switched off doesn't
// start. Without the plugins it does.
func TestPluginsWithoutTheirResources(t *testing.T) {
	const needed = "admissionregistration.k8s.io/v1 are switched off, but an admission plugin that is enabled needs " +
		"them: "
	for name, test := range map[string]struct {
		off, want string
		plugins   []string
	}{
		"webhooks": {
			"admissionregistration.k8s.io/v1=false",
			"--runtime-config: [" + strings.Join([]string{
				"mutatingadmissionpolicies of " + needed + "MutatingAdmissionPolicy",
				"mutatingadmissionpolicybindings of " + needed + "MutatingAdmissionPolicy",
				"mutatingwebhookconfigurations of " + needed + "MutatingAdmissionWebhook",
				"validatingadmissionpolicies of " + needed + "ValidatingAdmissionPolicy",
				"validatingadmissionpolicybindings of " + needed + "ValidatingAdmissionPolicy",
				"validatingwebhookconfigurations of " + needed + "ValidatingAdmissionWebhook",
			}, ", ") + "]",
			[]string{"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy",
				"ValidatingAdmissionWebhook"},
		},
		"classes of storage": {
			"storage.k8s.io/v1/storageclasses=false",
			"--runtime-config: storageclasses of storage.k8s.io/v1 are switched off, but an admission plugin that " +
				"is enabled needs them: DefaultStorageClass, PersistentVolumeClaimResize",
			[]string{"DefaultStorageClass", "PersistentVolumeClaimResize"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			off := servertest.RuntimeConfig(test.off)
			if err := servertest.StartError(t, off); err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
			gatehousetest.Start(t, off, gatehousetest.WithoutPlugins(test.plugins...))
		})
	}
}
