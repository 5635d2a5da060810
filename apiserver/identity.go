// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"maps"
	"os"
	"strings"

	"github.com/google/uuid"
	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-helpers/apimachinery/lease"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/controller/apiserverleasegc"
	"k8s.io/utils/clock"
)

// OwnKey reports whether a key of etcd, without the common prefix, is one by which servers and
// controllers tell others about themselves: that they are alive, and whom they trust. A server
// writes these at any time after its start, and again if they are gone.
func OwnKey(key string) bool {
	return strings.HasPrefix(key, "leases/kube-system/") || strings.HasPrefix(key, "masterleases/") ||
		strings.HasPrefix(key, "gatehouse/servers/") || key == "configmaps/kube-system/extension-apiserver-authentication"
}

// addIdentityHooks adds hooks that keep a Lease in kube-system, by which the servers over one etcd
// know of each other, and remove the Leases of servers that are gone. The names are
// kube-apiserver's.
func (c *config) addIdentityHooks(s *server.GenericAPIServer) error {
	hostname, err := os.Hostname()
	if err != nil {
		return err
	}
	labels := map[string]string{
		controlplaneapiserver.IdentityLeaseComponentLabelKey: controlplaneapiserver.KubeAPIServer,
		corev1.LabelHostname: hostname,
	}
	controller := lease.NewController(clock.RealClock{}, c.client, s.APIServerID+"_"+uuid.NewString(),
		int32(controlplaneapiserver.IdentityLeaseDurationSeconds), nil,
		controlplaneapiserver.IdentityLeaseRenewIntervalPeriod, s.APIServerID, metav1.NamespaceSystem,
		func(l *coordinationv1.Lease) error {
			if l.Labels == nil {
				l.Labels = map[string]string{}
			}
			maps.Copy(l.Labels, labels)
			return nil
		})
	// Stop waits for a renewal under way, which goes on for as long as the lease can't be written:
	// without an etcd, until the renewals' context ends. The hook's ends only after Stop.
	renewing, stop := context.WithCancel(context.Background())
	if err := s.AddPostStartHook("start-kube-apiserver-identity-lease-controller",
		func(hook server.PostStartHookContext) error {
			context.AfterFunc(hook, stop)
			return controller.Start(renewing.Done())
		}); err != nil {
		stop()
		return err
	}
	if err := s.AddPreShutdownHook("stop-kube-apiserver-identity-lease-controller", func() error {
		stop()
		controller.Stop()
		return nil
	}); err != nil {
		stop()
		return err
	}
	return s.AddPostStartHook("start-kube-apiserver-identity-lease-garbage-collector",
		func(hook server.PostStartHookContext) error {
			go apiserverleasegc.NewAPIServerLeaseGC(c.client, controlplaneapiserver.IdentityLeaseGCPeriod,
				metav1.NamespaceSystem, controlplaneapiserver.IdentityLeaseComponentLabelKey+"="+
					controlplaneapiserver.KubeAPIServer).RunWithContext(hook)
			return nil
		})
}

// reportsStorageVersions reports whether the server publishes the version in which it stores each
// kind.
func reportsStorageVersions() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.StorageVersionAPI) &&
		utilfeature.DefaultFeatureGate.Enabled(features.APIServerIdentity)
}

// checkStorageVersions refuses a server that would wait for ever to write down what it may not.
func checkStorageVersions(resources *serverstorage.ResourceConfig) error {
	resource := apiserverinternalv1alpha1.SchemeGroupVersion.WithResource("storageversions")
	if reportsStorageVersions() && !resources.ResourceEnabled(resource) {
		return errors.New("--feature-gates=StorageVersionAPI=true needs " +
			"--runtime-config=internal.apiserver.k8s.io/v1alpha1=true")
	}
	return nil
}
