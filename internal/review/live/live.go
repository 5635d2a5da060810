// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live reads what admission reads from a running cluster, for a review, or for a file, a
// snapshot.
//
//	Connect ─▶ Cluster ─▶ Read(Want) ─▶ State ─▶ Write ─▶ file ─▶ Parse ─▶ State
//
// It only gets and lists. Of Secrets it reads only the metadata. Lists are read in pages, several
// at a time. If the cluster doesn't show something, a Gap says on which verdicts that bears: no
// verdict is based on something that could not be read. Fields that only say when and how an object
// was written are removed, so that two snapshots of the same cluster are equal.
package live

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	// connectTimeout bounds the first request, requestTimeout each that follows.
	connectTimeout = 15 * time.Second
	requestTimeout = time.Minute
	// requestsPerSecond and burst bound the requests to the cluster in a second.
	requestsPerSecond, burst = 50, 100
)

// A Cluster is a running cluster to read from.
type Cluster struct {
	// Host is its address, Version its release of Kubernetes, as v1.37.2.
	Host, Version string
	// Progress, if not nil, is called with the number of lists that have been read, and of all
	// lists.
	Progress func(done, all int)

	objects   dynamic.Interface
	names     metadata.Interface
	discovery *discovery.DiscoveryClient
	mapper    meta.RESTMapper

	ranges *reading // of the ServiceCIDRs; nil until the first Read
}

// Connect connects to a cluster. The error says whether the cluster can't be reached or doesn't accept
// the credentials.
func Connect(ctx context.Context, config *rest.Config) (*Cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst, config.Timeout = requestsPerSecond, burst, requestTimeout
	config.UserAgent = "gatehouse-review"
	c := &Cluster{Host: config.Host}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("no answer within %s", connectTimeout))
	defer cancel()
	version, err := client.WithLegacy().RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, c.unreachable(config, err)
	}
	if c.Version, err = gitVersion(version); err != nil {
		return nil, fmt.Errorf("the cluster at %s: /version: %w", c.Host, err)
	}
	if c.objects, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.names, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	c.discovery = client
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	return c, nil
}

// unreachable returns an error that says why the cluster can't be read.
func (c *Cluster) unreachable(config *rest.Config, err error) error {
	expired := expiredCertificate(config)
	if of := (*url.Error)(nil); errors.As(err, &of) {
		err = of.Err // the host is named
	}
	switch {
	case apierrors.IsUnauthorized(err) && expired != "":
		return fmt.Errorf("the cluster at %s doesn't know who asks: %s; log in to it again", c.Host, expired)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the cluster at %s doesn't know who asks: the kubeconfig's credentials have expired, or "+
			"are another cluster's; log in to it again", c.Host)
	case expired != "":
		return fmt.Errorf("the cluster at %s can't be read: %s: %w", c.Host, expired, err)
	}
	return fmt.Errorf("the cluster at %s can't be reached: %w", c.Host, err)
}

// expiredCertificate returns a sentence if the client certificate has expired, or "" if it hasn't or
// there is none.
func expiredCertificate(config *rest.Config) string {
	data := config.CertData
	if len(data) == 0 && config.CertFile != "" {
		data, _ = os.ReadFile(config.CertFile)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return ""
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil || time.Now().Before(certificate.NotAfter) {
		return ""
	}
	return "the kubeconfig's client certificate expired on " + certificate.NotAfter.Format(time.DateOnly)
}

// connectionLost reports whether an error isn't an answer of the API server.
func connectionLost(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.As(err, &status)
}
