// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	genericoptions "k8s.io/apiserver/pkg/server/options"
	controlplaneoptions "k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
	netutils "k8s.io/utils/net"
)

// complete derives what was not given and makes the files a server of its own needs. ctx bounds
// what it starts.
func (o *Options) complete(ctx context.Context) error {
	o.sharesEtcd = !o.Embedded() && !o.InProcess
	if err := o.completeAddresses(); err != nil {
		return err
	}
	if err := o.Run.Complete(); err != nil {
		return err
	}
	if err := o.completeCertificates(); err != nil {
		return err
	}
	if err := o.completeServiceAccounts(ctx); err != nil {
		return err
	}
	o.Authorization.Complete()
	o.Authentication.ApplyAuthorization(o.Authorization)

	// A list followed by a watch must find the watch's start still in the cache.
	storage := &o.Etcd.StorageConfig
	storage.EventsHistoryWindow = max(storage.EventsHistoryWindow, o.Run.RequestTimeout+15*time.Second)
	if o.Etcd.EnableWatchCache {
		sizes := kubeapiserver.DefaultWatchCacheSizes()
		given, err := genericoptions.ParseWatchCacheSizes(o.Etcd.WatchCacheSizes)
		if err != nil {
			return fmt.Errorf("--watch-cache-sizes: %w", err)
		}
		for resource, size := range given {
			sizes[resource] = size
		}
		if o.Etcd.WatchCacheSizes, err = genericoptions.WriteWatchCacheSizes(sizes); err != nil {
			return fmt.Errorf("--watch-cache-sizes: %w", err)
		}
	}
	o.completeRuntimeConfig()
	return o.validate()
}

// completeRuntimeConfig takes what older releases wanted to be told.
func (o *Options) completeRuntimeConfig() {
	// These kinds are of a configuration file; no server ever served them.
	delete(o.APIEnablement.RuntimeConfig, "eventratelimit.admission.k8s.io/v1alpha1")
	// kube-apiserver takes "v1" and "api/v1" for the legacy group, whose group name is empty.
	for key, value := range o.APIEnablement.RuntimeConfig {
		trimmed := strings.TrimPrefix(key, "api/")
		if trimmed == "v1" || strings.HasPrefix(trimmed, "v1/") {
			delete(o.APIEnablement.RuntimeConfig, key)
			o.APIEnablement.RuntimeConfig["/v1"] = value
		}
	}
}

func (o *Options) completeAddresses() error {
	// Where a server of its own is reached only from its own machine, no other address would be
	// true.
	if o.hasOwn() && len(o.Run.AdvertiseAddress) == 0 && o.SecureServing.BindAddress.IsLoopback() {
		o.Run.AdvertiseAddress = o.SecureServing.BindAddress
	}
	if err := o.Run.DefaultAdvertiseAddress(o.SecureServing); err != nil {
		return err
	}
	// Kubernetes refuses loopback addresses as endpoints.
	o.publishEndpoints = !o.Run.AdvertiseAddress.IsLoopback() &&
		o.EndpointReconcilerType != string(reconcilers.NoneEndpointReconcilerType)
	if o.Run.ExternalHost == "" {
		o.Run.ExternalHost = o.Run.AdvertiseAddress.String()
	}
	if o.ServiceNodePortRange.Size == 0 {
		o.ServiceNodePortRange = kubeoptions.DefaultServiceNodePortRange
	}
	ranges := strings.Split(o.ServiceClusterIPRanges, ",")
	if o.ServiceClusterIPRanges == "" {
		ranges = []string{kubeoptions.DefaultServiceIPCIDR.String()}
	}
	if len(ranges) > 2 {
		return errors.New("--service-cluster-ip-range must not contain more than two entries")
	}
	for i, cidr := range ranges {
		_, parsed, err := netutils.ParseCIDRSloppy(cidr)
		if err != nil {
			return fmt.Errorf("--service-cluster-ip-range %q is not a valid CIDR: %w", cidr, err)
		}
		r, firstIP, err := controlplaneoptions.ServiceIPRange(*parsed)
		if err != nil {
			return fmt.Errorf("--service-cluster-ip-range %q: %w", cidr, err)
		}
		if o.serviceIPs[i] = r; i == 0 {
			o.apiServiceIP = firstIP
		} else if netutils.IsIPv6CIDR(&o.serviceIPs[0]) == netutils.IsIPv6CIDR(&r) {
			return fmt.Errorf("--service-cluster-ip-range %q: the two ranges must be of different IP families",
				o.ServiceClusterIPRanges)
		}
	}
	return nil
}
