// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhookregistration_test keeps webhook configurations and certificates on a running
// server, as replicas of `gatehouse webhook` do, and breaks them. Replicas are this process's, so
// that their clock can be another one; the command itself is run in test/webhookmode.
package webhookregistration_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"gatehouse.dev/chain"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins/alwayspullimages"
	"gatehouse.dev/remote"
	"gatehouse.dev/remote/certificates"
	"gatehouse.dev/remote/registration"
	"gatehouse.dev/test/servertest"
	"gatehouse.dev/webhook/server"
)

var suite servertest.Suite

func TestMain(m *testing.M) { suite.Main(m) }

// cluster is the one that the tests share.
var cluster = sync.OnceValue(func() *servertest.Cluster { return servertest.Start(&suite) })

// alone gives an installation a server of its own. What waits for Leases and namespaces to end
// needs little of the machine, and can wait beside others.
func alone(i *installation) { i.cluster = servertest.Start(i.t) }

const name, namespace = "gatehouse", "webhooks"

// An installation has replicas behind one address, which their calls are spread over.
type installation struct {
	t       *testing.T
	cluster *servertest.Cluster
	options registration.Options
	clock   *shifted

	mu       sync.Mutex
	replicas []*replica
	next     int
	asked    atomic.Int64                        // answered reviews
	seen     func(*admissionv1.AdmissionRequest) // is shown what the replicas are asked about
}

// install starts replicas, with a clock that is off, and waits until API servers ask them. What
// they have in the cluster goes with the test.
func install(t *testing.T, replicas int, off time.Duration, change func(*installation)) *installation {
	t.Helper()
	i := begin(t, off, change)
	for range replicas {
		i.start(i.clock, nil).ready()
	}
	i.eventuallyAsked()
	return i
}

// begin is an installation without replicas.
func begin(t *testing.T, off time.Duration, change func(*installation)) *installation {
	t.Helper()
	i := &installation{t: t, cluster: cluster(), clock: &shifted{off: off}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	i.options = registration.Options{Name: name, Namespace: namespace, URL: "https://" + listener.Addr().String(),
		Plugins: []plugin.Descriptor{alwayspullimages.Descriptor}}
	if change != nil {
		change(i)
	}
	t.Cleanup(func() {
		for _, r := range i.running() {
			r.stop()
		}
		listener.Close()
		i.remove()
	})
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			i.forward(connection)
		}
	}()
	return i
}

// remove removes what replicas that have ended have left.
func (i *installation) remove() {
	i.t.Helper()
	ctx, client := context.Background(), i.cluster.Client
	for _, err := range []error{
		client.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(ctx, name, metav1.DeleteOptions{}),
		client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(ctx, name, metav1.DeleteOptions{}),
		client.CoreV1().Secrets(namespace).Delete(ctx, i.options.Installation().SecretName(), metav1.DeleteOptions{}),
		client.CoordinationV1().Leases(namespace).Delete(ctx, name, metav1.DeleteOptions{}),
	} {
		if err != nil && !apierrors.IsNotFound(err) {
			i.t.Error(err)
		}
	}
}

// forward gives a connection to the replicas in turn. Where there are none it hangs up.
func (i *installation) forward(connection net.Conn) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.replicas) == 0 {
		connection.Close()
		return
	}
	i.next++
	r := i.replicas[i.next%len(i.replicas)]
	r.open.Add(1)
	r.connections <- connection
}

func (i *installation) running() []*replica {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]*replica{}, i.replicas...)
}

// A replica is what `gatehouse webhook` is, with a client and a clock that may be the test's.
type replica struct {
	installation *installation
	certificates *certificates.Own
	connections  chan net.Conn
	open         atomic.Int64 // connections
	cancel       context.CancelFunc
	done         sync.WaitGroup
	kept         chan error // what the Keeper ended with
}

func (i *installation) start(c clock.Clock, client kubernetes.Interface) *replica {
	i.t.Helper()
	if client == nil {
		client = i.cluster.Client
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &replica{installation: i, connections: make(chan net.Conn, 1000), cancel: cancel, kept: make(chan error, 1)}
	options := i.options
	r.certificates = certificates.NewOwn(certificates.Options{Installation: options.Installation(),
		Hosts: options.Hosts(), Client: client, Clock: c})
	mux := http.NewServeMux()
	for _, call := range registration.Served(&options) {
		built, err := chain.New(call.Plugins, nil, nil)
		if err != nil {
			i.t.Fatal(err)
		}
		mux.Handle(call.Path, i.review(built, call.Phase))
	}
	serving := make(chan struct{})
	r.done.Go(func() {
		defer close(r.kept)
		keeper := registration.Keeper{Options: options, Client: client, Certificates: r.certificates, Serving: serving,
			Clock: c}
		r.kept <- keeper.Run(ctx)
	})
	r.done.Go(func() {
		if err := r.certificates.Run(ctx); err != nil {
			i.t.Error(err)
		}
	})
	r.done.Go(func() { r.serve(ctx, mux) })
	close(serving)
	return r
}

// ready is the replica when it is, and is called from then on.
func (r *replica) ready() *replica {
	i := r.installation
	i.t.Helper()
	servertest.Retry(i.t, "the replica to be ready", r.certificates.Ready)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.replicas = append(i.replicas, r)
	return r
}

func (i *installation) review(c *chain.Chain, phase plugin.Phase) http.Handler {
	decide := remote.Validate(c)
	if phase == plugin.Mutating {
		decide = remote.Mutate(c)
	}
	return server.FallibleHandler(func(ctx context.Context, r *admissionv1.AdmissionRequest) (server.Response, error) {
		if i.seen != nil {
			i.seen(r)
		}
		i.asked.Add(1)
		return decide(ctx, r)
	})
}

// serve answers one call a connection, so that each call is one more that verifies the certificate.
func (r *replica) serve(ctx context.Context, handler http.Handler) {
	s := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			r.open.Add(-1)
		}
	}}
	s.SetKeepAlivesEnabled(false)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(r.listener()) }()
	<-ctx.Done()
	if err := s.Shutdown(context.Background()); err != nil {
		r.installation.t.Error(err)
	}
	<-ended
}

// stop ends it when it has answered.
func (r *replica) stop() {
	i := r.installation
	i.mu.Lock()
	for n := range i.replicas {
		if i.replicas[n] == r {
			i.replicas = append(i.replicas[:n], i.replicas[n+1:]...)
			break
		}
	}
	i.mu.Unlock()
	servertest.Eventually(i.t, "all calls to be answered", func() bool { return r.open.Load() == 0 })
	r.cancel()
	r.done.Wait()
}

// eventuallyAsked waits until a pod is changed as the plugin changes it.
func (i *installation) eventuallyAsked() {
	i.t.Helper()
	servertest.Retry(i.t, "the plugin to act", i.ask)
}

// eventuallyNotAsked waits until nobody is asked any more: an API server calls a webhook for a moment
// longer than its configuration is stored.
func (i *installation) eventuallyNotAsked() {
	i.t.Helper()
	servertest.Retry(i.t, "nobody to be asked", func() error {
		if err := i.ask(); err == nil || err.Error() != "nobody was asked" {
			return fmt.Errorf("somebody was: %v", err)
		}
		return nil
	})
}

// ask makes a pod, in a dry run, and is an error where the plugin hasn't changed it.
func (i *installation) ask() error { return i.askIn("default") }

func (i *installation) askIn(where string) error {
	pod, err := i.cluster.Client.CoreV1().Pods(where).Create(i.t.Context(), servertest.Pod("web"),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil && pod.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways {
		err = errors.New("nobody was asked")
	}
	return err
}

// load asks all the time, by 16 clients, until it is called; then it is how often they asked. One
// that is refused fails the test.
func (i *installation) load() (end func() int64) {
	i.t.Helper()
	ctx, cancel := context.WithCancel(i.t.Context())
	var clients sync.WaitGroup
	var count atomic.Int64
	for range 16 {
		clients.Go(func() {
			for ctx.Err() == nil {
				if err := i.ask(); err != nil {
					i.t.Errorf("after %d: %v", count.Load(), err)
					return
				}
				count.Add(1)
			}
		})
	}
	return func() int64 {
		cancel()
		clients.Wait()
		return count.Load()
	}
}

// more waits until many more calls have been answered: that long an API server may take to see what
// is stored.
func (i *installation) more() {
	i.t.Helper()
	enough := i.asked.Load() + 100
	servertest.Eventually(i.t, "more calls", func() bool { return i.asked.Load() > enough })
}

func (i *installation) mutating() *admissionregistrationv1.MutatingWebhookConfiguration {
	i.t.Helper()
	c, err := i.cluster.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(i.t.Context(), name,
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		i.t.Fatal(err)
	}
	return c
}

func (i *installation) secret() *corev1.Secret {
	i.t.Helper()
	s, err := i.cluster.Client.CoreV1().Secrets(namespace).Get(i.t.Context(), i.options.Installation().SecretName(),
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		i.t.Fatal(err)
	}
	return s
}

// trusts tells whether the configuration trusts all that the Secret has, and no more than so many.
func (i *installation) trusts(authorities int) bool {
	i.t.Helper()
	s := i.secret() // first: the configuration follows
	c := i.mutating()
	if c == nil || s == nil || len(c.Webhooks) == 0 {
		return false
	}
	bundle := string(c.Webhooks[0].ClientConfig.CABundle)
	return strings.HasPrefix(bundle, string(s.Data["ca.crt"])) && strings.Count(bundle, "BEGIN") == authorities
}
