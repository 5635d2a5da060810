// Package backend calls webhooks: it knows who is meant by a WebhookClientConfig, keeps the
// connections, and posts.
//
//	pool, err := backend.NewPool(backend.Config{KubeConfigFile: …, Services: …, EndpointSlices: …})
//	client, err := pool.Client(webhook.ClientConfig)
//	answer, err := client.Post(ctx, [][]byte{review}, 10*time.Second)
//
// # Connections
//
// A webhook is called with each write that it matches, by as many requests at a time as the server
// has, so what a call costs is what the connection costs. Clients whose servers are proven by the
// same authorities and name, and to whom the same client certificate is shown, share connections,
// in the whole process. A backend that speaks HTTP/2 has one connection, on which all calls travel;
// more only while it wants to see fewer calls at a time than there are. When there is none yet, or
// none any more since the backend was restarted, the first call dials and all others wait for that:
// a hundred calls make one TLS handshake. An http.Transport dials for each instead, so this package
// pools http.ClientConns for HTTP/2. What has been dialing for seconds is not waited for by later calls: the
// backend may be back by now. The first handshake tells what the backend speaks; with HTTP/1.1
// net/http's pool takes over, for a while, after which a handshake asks again.
//
// Connections that nothing is heard of for a few seconds are pinged, and given up if the ping stays
// unanswered. Those without calls are closed after 90 seconds; those whose last webhook is gone
// (Pool.Retain) when their calls are done.
//
// # Services
//
// A service reference is resolved at each call, from the cache: to one of the ready endpoints, at
// random, of the service's EndpointSlices; to the name of an ExternalName service; to the cluster
// IP of a service that has no EndpointSlices. Each endpoint is a backend with a connection of its
// own, so calls are spread over all replicas, and go to new ones when they are ready. A webhook
// with a URL is one backend, whatever is behind its name: where that is a balancer of connections,
// all calls go to one replica until its connection closes. Kubernetes keeps to HTTP/1.1 for that
// reason (issue 75791).
//
// # Credentials
//
// They come from the users of a kubeconfig file, whose names are hosts: "svc.ns.svc:8443",
// "*.ns.svc", "*", without the port for 443; else those of its current context; else none. Token
// files and client certificate files are read again when they change. What backends are sent
// otherwise is what kube-apiserver sends, and faults are told in its words.
//
// # Bounds
//
// The context's deadline bounds everything, from the wait for a dial to the last byte of the
// answer. Answers over 3 MiB are refused while they are read. Redirects are answers like any other,
// and not ones that help: following them would let whoever answers for a webhook have the server
// send reviews, and credentials, elsewhere.
package backend
