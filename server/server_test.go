package server_test

import (
	"context"
	"io"
	"os"
	"testing"

	"k8s.io/apiserver/pkg/admission"

	"gatehouse.dev/chain"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// A server that can't be built after its plugins leaves nothing of theirs running.
func TestPluginsEndWithAServerThatDoesNotStart(t *testing.T) {
	var done <-chan struct{}
	built := chain.Descriptor{Name: "Built", Phases: chain.Validating, Default: true, New: func(_ io.Reader, env *chain.Env) (admission.Interface, error) {
		done = env.Done
		return passing{admission.NewHandler(admission.Create)}, nil
	}}
	err := servertest.StartError(t, func(c *server.Config) {
		c.Plugins = []chain.Descriptor{built}
		if err := os.Mkdir(c.API.AdminKubeconfig(), 0o700); err != nil {
			t.Fatal(err)
		}
	})
	if err == nil {
		t.Fatal("the server has been built")
	}
	select {
	case <-done:
	default:
		t.Errorf("the plugin may run on after %v", err)
	}
}

type passing struct{ *admission.Handler }

// Validate implements admission.ValidationInterface.
func (passing) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}
