// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package shops

import (
	"context"
	"os"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
)

// The servers are processes, of the programs in KUBEBUILDER_ASSETS. They call the webhooks over a port on
// which the manager serves.
func TestWithEnvtest(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip(`needs the programs of envtest: export KUBEBUILDER_ASSETS=$(gatehouse envtest)`)
	}
	env := &envtest.Environment{
		CRDInstallOptions:     envtest.CRDInstallOptions{Paths: []string{"config/crd"}, ErrorIfPathMissing: true},
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{"config/webhook"}},
	}
	config, err := env.Start()
	must(t, err)
	t.Cleanup(func() { must(t, env.Stop()) })

	hooks := &env.WebhookInstallOptions
	mgr := newManager(t, config, ctrlwebhook.NewServer(ctrlwebhook.Options{
		Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir,
	}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		must(t, <-ended)
	})
	for started := mgr.GetWebhookServer().StartedChecker(); started(nil) != nil; {
		select {
		case err := <-ended:
			t.Fatalf("the manager ended: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
	checkWebhooks(t, config)
}
