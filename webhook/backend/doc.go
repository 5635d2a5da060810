// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backend calls webhooks. It finds the backend that a WebhookClientConfig names, keeps
// connections to it, and posts reviews.
//
//	pool, err := backend.NewPool(backend.Config{KubeConfigFile: …, Services: …, EndpointSlices: …})
//	client, err := pool.Client(webhook.ClientConfig)
//	answer, err := client.Post(ctx, [][]byte{review}, 10*time.Second)
//
// # Connections
//
// A backend that speaks HTTP/2 has one connection, on which all calls travel; it gets more only if
// there are more calls than it takes at a time. If there is no connection, the first call dials and
// all others wait for that: a hundred calls make one TLS handshake. An http.Transport would dial for
// each, so this package pools http.ClientConns. If the handshake shows that the backend speaks
// HTTP/1.1, an http.Transport takes over for ten minutes.
//
// Connections are shared in the whole process by clients that verify the server by the same
// authorities and name, and show it the same client certificate. A connection that is silent is
// pinged, and closed if it stays silent. One without calls is closed after 90 seconds, or as soon as
// no pool retains a client that uses it.
//
// # Services
//
// A service reference is resolved at each call, from the cache: to one of the ready endpoints, at
// random, of the service's EndpointSlices, and to another if no connection to it can be made; to the name of an ExternalName service; to the cluster
// IP of a service that has no EndpointSlices. Each endpoint has a connection of its own, so calls
// are spread over all replicas. A URL is one backend: if it names a balancer of connections, all
// calls go to one replica until its connection closes. Kubernetes keeps to HTTP/1.1 for that reason
// (issue 75791).
//
// If the environment names a proxy, it is asked, in HTTP/1.1, for the name in a URL, and for the
// address of a service's endpoint, unless NO_PROXY has that or the service's name.
//
// # Endpoints that can't be reached
//
// A breaker keeps calls from an address to which no connection could be made for a second, if
// Config.Breaker is set. If no other endpoint is left they end at once with a NotCalledError. One
// goroutine for each such address tries to connect. Nothing else opens a breaker: clients can choose
// objects that a webhook takes long to judge, or fails about.
//
// A review is sent once. It is sent again if the backend asks for that by Retry-After, or says in
// HTTP/2 that it didn't process it.
//
// # Credentials
//
// Credentials are those of the user of the kubeconfig file whose name is the backend's host
// ("svc.ns.svc:8443", "*.ns.svc", "*", without the port for 443), else of the user of the current
// context. Files of tokens and client certificates are read again when they change.
//
// Client.WithToken has a client show a token, if the file has no credentials for its backend.
//
// Redirects are answers like any other. Following them would let a webhook have the server send
// reviews and credentials elsewhere.
//
// The package has no promise of compatibility.
package backend
