// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A server that is to be like an older Kubernetes, or whose metrics are scraped, has nothing to say
// of it.
func TestQuietServer(t *testing.T) {
	t.Parallel()
	srv := serve(t, "--emulated-version=1.34", "--etcd-servers-overrides=/events#http://"+startPlainEtcd(t))
	// The metrics tell the sizes of both databases. A scrape leaves out the one that doesn't answer
	// within a second, which a busy machine may not manage.
	eventually(t, startTimeout, func(ctx context.Context) error {
		metrics, err := srv.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		for _, id := range []string{"etcd-0", "etcd-1"} {
			if !strings.Contains(string(metrics), `apiserver_storage_size_bytes{storage_cluster_id="`+id+`"}`) {
				return cmp.Or(err, fmt.Errorf("/metrics doesn't tell the size of %s", id))
			}
		}
		return err
	})
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
