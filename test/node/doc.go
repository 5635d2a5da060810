// Package node does for pods, in tests, what a cluster's node does, so that an installation runs as
// its objects say and not as a test would have it:
//
//   - [Isolated] gives a test a network and mounts of its own, by running it again in a process
//     that has them. Addresses of 10.0.0.0/8 are those of its Services and pods.
//   - [Node.Run] runs a pod's container as its spec says, which it has from the API server with all
//     that admission put into it: the user, the read-only root with nothing in it but the program
//     and the volumes, no capabilities, the environment and the token of its service account.
//   - [Node.Publish] and [Node.Serve] are the endpoints controller and the proxy: the Service's
//     EndpointSlice has the pod once its readiness probe says so, and what connects to the Service's
//     cluster IP arrives there.
//
// What a spec says that isn't done here fails the test. It takes Linux and root; where that isn't
// given the test is skipped by its name, see package needs.
package node
