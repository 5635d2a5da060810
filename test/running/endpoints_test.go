// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package running_test

import (
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cliflag "k8s.io/component-base/cli/flag"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// flags are an option that sets flags of kube-apiserver's.
func flags(t *testing.T, args ...string) gatehousetest.Option {
	return gatehousetest.WithConfig(func(c *server.Config) {
		var groups cliflag.NamedFlagSets
		c.API.AddFlags(&groups)
		all := groups.FlagSet("all")
		for _, group := range groups.FlagSets {
			all.AddFlagSet(group)
		}
		if err := all.Parse(args); err != nil {
			t.Fatal(err)
		}
	})
}

// The kubernetes Service has as its endpoint what servers have agreed on: by leases in etcd, by
// their number, or not at all.
// Source: k8s.io/kubernetes/pkg/controlplane/reconcilers.
func TestEndpointReconcilers(t *testing.T) {
	const address = "192.0.2.1" // nobody's
	for _, tt := range []struct {
		reconciler string
		published  bool
		leases     int64
	}{{"lease", true, 1}, {"master-count", true, 0}, {"none", false, 0}} {
		t.Run(tt.reconciler, func(t *testing.T) {
			c := servertest.Start(t, flags(t, "--advertise-address="+address,
				"--endpoint-reconciler-type="+tt.reconciler, "--apiserver-count=1"))
			servertest.Retry(t, "the kubernetes Service's endpoint", func() error {
				if _, err := c.Client.CoreV1().Services("default").Get(t.Context(), "kubernetes",
					metav1.GetOptions{}); err != nil {
					return err
				}
				endpoints, err := c.Client.CoreV1().Endpoints("default").Get(t.Context(), "kubernetes",
					metav1.GetOptions{})
				switch {
				case !tt.published && apierrors.IsNotFound(err):
					return nil
				case err != nil:
					return err
				case !tt.published || len(endpoints.Subsets) != 1 || len(endpoints.Subsets[0].Addresses) != 1 ||
					endpoints.Subsets[0].Addresses[0].IP != address:
					return fmt.Errorf("they are %+v", endpoints.Subsets)
				}
				return nil
			})
			leases, err := c.Etcd.Client().KV.Get(t.Context(), "/registry/masterleases/", clientv3.WithPrefix())
			if err != nil {
				t.Fatal(err)
			}
			if leases.Count != tt.leases {
				t.Errorf("%d servers hold leases, want %d", leases.Count, tt.leases)
			}
		})
	}
}
