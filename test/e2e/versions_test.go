package e2e_test

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A server that is to be like an older Kubernetes, or whose metrics are scraped, has nothing to say
// of it.
func TestQuietServer(t *testing.T) {
	t.Parallel()
	srv := serve(t, "--emulated-version=1.33")
	for range 3 {
		if _, err := srv.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	// A namespace goes once all controllers that have to do with it run.
	namespaceGoes(t, srv.client, "quiet")
	srv.stop(t)
	if srv.stderr.String() != "" {
		t.Errorf("the server said:\n%s", srv.stderr)
	}
}

// With the feature StorageVersionAPI the server writes down in which version it stores each kind,
// and doesn't start where it couldn't.
func TestStorageVersions(t *testing.T) {
	t.Parallel()
	const feature = "--feature-gates=StorageVersionAPI=true"
	srv := serve(t, feature, "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true")
	eventually(t, startTimeout, func(ctx context.Context) error {
		version,
			err := srv.client.InternalV1alpha1().StorageVersions().Get(ctx, "apps.deployments", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if version.Status.CommonEncodingVersion == nil || *version.Status.CommonEncodingVersion != "apps/v1" {
			return errors.New("it has no version that all servers have")
		}
		return nil
	})
	srv.stop(t)
	says(t, refusedBy(t, 2, startFor(t, serveCommand(t, feature))), "StorageVersionAPI",
		"--runtime-config=internal.apiserver.k8s.io/v1alpha1=true")
}
