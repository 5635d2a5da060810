// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"

	decisionsv1alpha1 "gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/peers"
)

// serverName returns a name for this server, in a label's value, that distinguishes it from others
// over the same etcd: its host and port. It is known once the server has its port.
func (o *Options) serverName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	suffix := "_" + strconv.Itoa(o.SecureServing.BindPort)
	host = notInLabels.ReplaceAllString(host, "-")
	host = host[:min(len(host), validation.LabelValueMaxLength-len(suffix))]
	return strings.TrimLeft(host, "-_.") + suffix
}

var notInLabels = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// applyPeers makes the server reachable for other servers over the same etcd, if there can be any and
// it has something to ask for. It must have an authority for clients, as every server with a data
// directory has: otherwise no client shows a certificate.
func (c *config) applyPeers() (err error) {
	o, g := c.options, c.generic
	if !o.sharesEtcd || !o.hasOwn() || len(o.Extensions) == 0 {
		return nil
	}
	c.peers, err = peers.New(peers.Config{
		Etcd:             c.backend.Client().Client,
		Prefix:           o.Etcd.StorageConfig.Prefix,
		Name:             o.serverName(),
		Address:          net.JoinHostPort(o.Run.AdvertiseAddress.String(), strconv.Itoa(o.SecureServing.BindPort)),
		Identity:         g.APIServerID,
		IdentitySelector: controlplaneapiserver.IdentityLeaseComponentLabelKey + "=" + controlplaneapiserver.KubeAPIServer,
		RenewInterval:    controlplaneapiserver.IdentityLeaseRenewIntervalPeriod,
		Client:           c.client,
		PathPrefix:       "/apis/" + decisionsv1alpha1.SchemeGroupVersion.Group + "/",
	})
	if err != nil {
		return err
	}
	certPEM, keyPEM := c.peers.ServingCertificate()
	cert, err := dynamiccertificates.NewStaticSNICertKeyContent("peers", certPEM, keyPEM, peers.ServerName)
	if err != nil {
		return err
	}
	g.SecureServing.SNICerts = append(g.SecureServing.SNICerts, cert)
	return nil
}

// admitPeers makes the server authenticate requests of other servers.
func (c *config) admitPeers() (err error) {
	g := c.generic
	if c.peers == nil || g.Authentication.Authenticator == nil {
		return nil
	}
	g.Authentication.Authenticator, err = peers.Authenticator(g.Authentication.Authenticator)
	return err
}

// addPeersHook makes the server known to the others, and the others to it, while it serves.
func (c *config) addPeersHook(s *server.GenericAPIServer) error {
	if c.peers == nil {
		return nil
	}
	return s.AddPostStartHook("gatehouse/peers", func(hook server.PostStartHookContext) error {
		started := make(chan struct{})
		go c.peers.Run(hook, func() { close(started) })
		select {
		case <-started:
		case <-time.After(peers.AnswerTimeout): // the server can do without
		case <-hook.Done():
		}
		return nil
	})
}
