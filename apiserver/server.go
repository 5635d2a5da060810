// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/healthz"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/util/notfoundhandler"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	corev1informers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/component-base/tracing"

	"gatehouse.dev/apiserver/datadir"
	"gatehouse.dev/apiserver/etcd"
	"gatehouse.dev/apiserver/manifests"
	"gatehouse.dev/apiserver/pki"
	"gatehouse.dev/apiserver/storage"
	"gatehouse.dev/apiserver/storage/ledger"
	"gatehouse.dev/internal/kinds"
	"gatehouse.dev/internal/quota"
	"gatehouse.dev/plugin"
)

const (
	// readyPoll is how often a starting server checks whether it is ready. The check is a function
	// call.
	readyPoll = 5 * time.Millisecond

	adminUser = "kubernetes-admin"
)

// Admission is the admission control of a server. chain.Chain implements it.
type Admission interface {
	admission.MutationInterface
	admission.ValidationInterface
	// WithRequest is a filter around all requests.
	WithRequest(next http.Handler) http.Handler
	// ReadyChecks returns checks for /readyz.
	ReadyChecks() []healthz.HealthChecker
}

// An AdmissionFunc builds the admission control that every write passes, from what the server offers.
type AdmissionFunc func(env *plugin.Env) (Admission, error)

// OptionsError is an error in the options or in a file that they name: the same options fail again,
// whatever happens around them. Errors at run time, such as a port in use or an etcd that doesn't
// answer, are not OptionsErrors.
type OptionsError struct{ Err error }

func (e OptionsError) Error() string { return e.Err.Error() }

// Unwrap returns the error as it was.
func (e OptionsError) Unwrap() error { return e.Err }

// optionsError returns err as an error in the options, unless the disk is full: then the same options
// may work later.
func optionsError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return OptionsError{Err: err}
}

// Server is an API server that has been built and has not yet ended.
type Server struct {
	options     *Options
	lock        *datadir.Lock
	etcd        *etcd.Server // nil if the etcd is somebody else's
	tracer      tracing.TracerProvider
	backend     *storage.Backend
	admission   *bootstrapAdmission
	handler     http.Handler                    // what is behind authentication and authorization
	writes      func(http.Handler) http.Handler // what is around it for writes
	authorizer  authorizer.Authorizer
	requestInfo request.RequestInfoResolver
	informers   informers.SharedInformerFactory
	kinds       *restmapper.DeferredDiscoveryRESTMapper // plugins'
	schemas     customSchemas
	served      map[schema.GroupVersionResource]patchable // built-in resources and subresources
	fill        func(context.Context)                     // fills the caches, which live until the context ends
	run         func(context.Context) error
	cancel      context.CancelFunc // ends what New started
	done        chan struct{}      // closed once nothing is served any more, or New has failed
	admin       *rest.Config
	loopback    *rest.Config // how the server calls itself
	dialled     *rest.Config // how it is called over TLS, if it listens
	ready       chan struct{}
}

// New builds a server: it takes the port, opens the storage, builds the admission chain and writes
// the administrator's kubeconfig. Whatever is wrong with the options, the port, the storage or the
// chain's configuration is its error, an OptionsError if the options are wrong, and nothing is left
// running then. The server serves when Run is called; Run must be called, since it also releases
// everything.
func New(ctx context.Context, o *Options, admit AdmissionFunc) (_ *Server, err error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &Server{options: o, cancel: cancel, done: make(chan struct{}), ready: make(chan struct{})}
	defer func() {
		if err != nil {
			s.release()
		}
	}()
	// Before anything is changed: a second server on the same directory or port must fail at once.
	if err := s.takeDirectory(); err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil {
		return nil, err
	}
	if err := o.complete(ctx); err != nil {
		return nil, optionsError(err)
	}
	// Clients learn at /metrics which gates are on, and which versions the server has.
	utilfeature.DefaultMutableFeatureGate.AddMetrics()
	compatibility.DefaultComponentGlobalsRegistry.AddMetrics()
	if s.tracer, err = o.newTracer(); err != nil {
		return nil, OptionsError{Err: err}
	}
	if err := s.openStorage(ctx); err != nil {
		return nil, err
	}
	c, err := newConfig(ctx, o, s.tracer, s.backend, s.ready)
	if err != nil {
		return nil, optionsError(err)
	}
	if err := s.buildAdmission(c, admit); err != nil {
		return nil, err
	}
	// The servers' caches read what is stored; nothing has been read before.
	if s.etcd != nil {
		if err := s.etcd.AwaitReady(ctx); err != nil {
			return nil, err
		}
	}
	// The library keeps the stack of each call that adds a path, of which there are hundreds. The stack
	// of a goroutine of its own is short.
	built := make(chan error)
	go func() { built <- s.buildServers(c) }()
	if err := <-built; err != nil {
		return nil, err
	}
	s.loopback, s.dialled, s.writes, s.served = c.generic.LoopbackClientConfig, c.dialled, c.writes, c.patched
	s.authorizer, s.requestInfo = c.generic.Authorization.Authorizer, server.NewRequestInfoResolver(c.generic)
	return s, s.writeAdminKubeconfig()
}

// takeDirectory makes the server the only user of its data directory, if it has one.
func (s *Server) takeDirectory() (err error) {
	o := s.options
	if !o.hasOwn() {
		return nil
	}
	if s.lock, err = datadir.Acquire(o.DataDir); err != nil {
		return err
	}
	if err := s.lock.Check(datadir.AdminKubeconfig, datadir.PKI, datadir.Etcd); err != nil {
		return err
	}
	if dir := o.SecureServing.ServerCert.CertDirectory; dir != "" {
		if err := datadir.Check(dir); err != nil {
			return fmt.Errorf("--cert-dir: %w", err)
		}
	}
	return nil
}

// listen takes the port.
func (s *Server) listen() error {
	serving := s.options.SecureServing
	if s.options.InProcess {
		serving.Listener = newSilentListener()
	}
	if errs := serving.Validate(); len(errs) > 0 && serving.Listener == nil && !s.options.hasOwn() {
		return OptionsError{errs[0]} // a port of 0 is one that nobody would find
	}
	if serving.Listener == nil && serving.BindPort > 0 && (serving.PermitPortSharing || serving.PermitAddressSharing) {
		var info *server.SecureServingInfo // the library has what sets the socket's options
		sharing := genericoptions.SecureServingOptions{BindAddress: serving.BindAddress, BindPort: serving.BindPort,
			PermitPortSharing: serving.PermitPortSharing, PermitAddressSharing: serving.PermitAddressSharing}
		if err := sharing.ApplyTo(&info); err != nil {
			return err
		}
		serving.Listener = info.Listener
	}
	if serving.Listener == nil {
		address := net.JoinHostPort(serving.BindAddress.String(), strconv.Itoa(serving.BindPort))
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("can't listen on %s: %w (--bind-address and --secure-port choose another)", address,
				errors.Unwrap(err))
		}
		serving.Listener = listener
	}
	serving.Listener = newListener(serving.Listener)
	serving.BindPort = serving.Listener.Addr().(*net.TCPAddr).Port
	return nil
}

// openStorage makes the backend. An etcd of the server's own is then about to serve.
func (s *Server) openStorage(ctx context.Context) (err error) {
	config := &s.options.Etcd.StorageConfig
	config.Transport.TracerProvider = s.tracer
	var quotas *ledger.Options
	if s.options.CountQuotas {
		quotas = &ledger.Options{Off: quota.GatesOff(utilfeature.DefaultFeatureGate.Enabled),
			KeepStatus: s.options.KeepQuotaStatus}
	}
	if s.options.Embedded() {
		if s.etcd, err = etcd.Begin(s.options.etcdDir()); err != nil {
			return err
		}
		// The parts of Kubernetes that dial etcd themselves find it here.
		config.Transport.ServerList = []string{s.etcd.Endpoint()}
		s.backend, err = storage.NewBackend(ctx, *config, s.etcd.Client(), quotas)
	} else {
		s.backend, err = storage.NewBackend(ctx, *config, nil, quotas)
	}
	// From here on compaction is the backend's.
	config.CompactionInterval = 0
	return err
}

func (s *Server) buildAdmission(c *config, admit AdmissionFunc) error {
	dynamicClient, err := dynamic.NewForConfig(c.generic.LoopbackClientConfig)
	if err != nil {
		return err
	}
	mapper := kinds.NewMapper(c.client.Discovery())
	if err := c.generic.AddPostStartHook("start-apiserver-admission-initializer", func(hook server.PostStartHookContext) error {
		go kinds.Forget(mapper, hook.Done())
		return nil
	}); err != nil {
		return err
	}
	s.informers, s.kinds = c.informers, mapper
	env := &plugin.Env{
		Client:        c.client,
		Dynamic:       dynamicClient,
		Informers:     c.informers,
		Authorizer:    c.generic.Authorization.Authorizer,
		RESTMapper:    mapper,
		UnknownFields: s.schemas.unknownFields,
		Features:      utilfeature.DefaultFeatureGate,
		Version:       c.generic.EffectiveVersion,
		APIServerID:   c.generic.APIServerID,
		Done:          s.done,

		ValidateManifest: manifests.Validate,
	}
	if s.options.showsTokens() {
		env.WebhookToken = c.webhookToken
	}
	// Plugins are built from their configuration, and wait for nothing.
	built, err := admit(env)
	if err != nil {
		return OptionsError{Err: err}
	}
	c.generic.AddReadyzChecks(built.ReadyChecks()...)
	c.admitted = built.WithRequest
	s.admission = &bootstrapAdmission{chain: built}
	c.generic.AdmissionControl = s.admission
	return nil
}

// buildServers links the three servers: a request that one doesn't know goes to the next.
func (s *Server) buildServers(c *config) error {
	notFound := notfoundhandler.New(c.generic.Serializer, genericapifilters.NoMuxAndDiscoveryIncompleteKey)
	extensions, err := c.newExtensions(server.NewEmptyDelegateWithCustomHandler(notFound))
	if err != nil {
		return err
	}
	s.schemas.definitions.Store(new(extensions.Informers.Apiextensions().V1().CustomResourceDefinitions().Lister()))
	kubernetes, err := c.newKubernetes(extensions.GenericAPIServer)
	if err != nil {
		return err
	}
	aggregator, err := c.newAggregator(kubernetes, extensions)
	if err != nil {
		return err
	}
	prepared, err := aggregator.PrepareRun()
	if err != nil {
		return err
	}
	// The last server of a process is the one whose databases /metrics shows, as of all its
	// metrics.
	metrics.SetStorageMonitorGetter(s.backend.Monitors)
	s.run = prepared.Run
	s.fill = func(ctx context.Context) {
		c.fill(ctx, c.informers, extensions.Informers, aggregator.APIRegistrationInformers)
	}
	s.handler = aggregator.GenericAPIServer.UnprotectedHandler()
	c.loopback.serve(aggregator.GenericAPIServer.Handler)
	return nil
}

// Run serves until ctx ends, then lets requests in flight finish, and closes the storage. It may be
// called once.
func (s *Server) Run(ctx context.Context) error {
	defer s.release()
	ctx, cancel := s.afterStart(ctx)
	defer cancel()
	caching, stopCaching := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCaching() // once nothing is served any more
	s.fill(caching)
	go s.awaitReady(ctx)
	if s.etcd == nil {
		return s.run(ctx)
	}
	stopped := make(chan error, 1)
	go func() {
		select {
		case err := <-s.etcd.Err():
			stopped <- fmt.Errorf("etcd on data directory %s stopped: %w", s.options.DataDir, err)
			cancel()
		case <-ctx.Done():
			close(stopped)
		}
	}()
	return errors.Join(s.run(ctx), <-stopped)
}

// afterStart returns a context that ends when ctx does, but not while the server starts: some of
// Kubernetes' start hooks end the process if they are interrupted.
func (s *Server) afterStart(ctx context.Context) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		select {
		case <-s.ready:
		case <-later.Done():
		case <-time.After(bootstrapTimeout):
		}
		cancel()
	})
	return later, cancel
}

// awaitReady closes ready when /readyz says ok, and ends the exemption of the server's own writes.
func (s *Server) awaitReady(ctx context.Context) {
	for {
		response := httptest.NewRecorder()
		s.handler.ServeHTTP(response, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
		if response.Code == http.StatusOK {
			s.admission.ready.Store(true)
			close(s.ready)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(readyPoll):
		}
	}
}

// Ready is closed once the server is ready: /readyz has said ok.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// AdminConfig returns the administrator's client configuration, that of admin.kubeconfig. Without a
// data directory it is the server's own.
func (s *Server) AdminConfig() *rest.Config { return rest.CopyConfig(s.admin) }

// Pods returns the server's cache of all pods, with what podcache.Trim, or podcache.Whole, leaves of
// them. It doesn't have hidden objects.
func (s *Server) Pods() corev1informers.PodInformer { return s.informers.Core().V1().Pods() }

// Etcd returns the server's own etcd, or nil if it uses another.
func (s *Server) Etcd() *etcd.Server { return s.etcd }

func (s *Server) release() {
	close(s.done)
	s.cancel()
	if s.options.SecureServing.Listener != nil {
		s.options.SecureServing.Listener.Close()
	}
	if s.backend != nil {
		s.backend.Close()
	}
	if s.etcd != nil {
		s.etcd.Stop()
	}
	if s.lock != nil {
		s.lock.Release()
	}
	if s.tracer != nil {
		// The server has done so already if it ran.
		_ = s.tracer.Shutdown(context.Background())
	}
}

// writeAdminKubeconfig makes a client certificate in the group that may do everything, and writes
// it where kubectl reads it.
func (s *Server) writeAdminKubeconfig() error {
	o := s.options
	if !o.hasOwn() {
		s.admin = s.dialled
		return nil
	}
	certPEM, keyPEM, err := o.authority.Client(adminUser, user.SystemPrivilegedGroup)
	if err != nil {
		return err
	}
	ca, err := o.servingCA()
	if err != nil {
		return err
	}
	host := o.SecureServing.BindAddress.String()
	if o.SecureServing.BindAddress.IsUnspecified() {
		host = "127.0.0.1"
	}
	cluster := clientcmdapi.NewCluster()
	cluster.Server = "https://" + net.JoinHostPort(host, strconv.Itoa(o.SecureServing.BindPort))
	cluster.CertificateAuthorityData = ca
	auth := clientcmdapi.NewAuthInfo()
	auth.ClientCertificateData, auth.ClientKeyData = certPEM, keyPEM
	context := clientcmdapi.NewContext()
	context.Cluster, context.AuthInfo = "gatehouse", adminUser
	config := clientcmdapi.NewConfig()
	config.Clusters["gatehouse"], config.AuthInfos[adminUser], config.Contexts["gatehouse"] = cluster, auth, context
	config.CurrentContext = "gatehouse"

	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	if err := pki.WriteFile(o.AdminKubeconfig(), data); err != nil {
		return fmt.Errorf("data directory %s can't be written: %w", o.DataDir, err)
	}
	s.admin, err = clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	return err
}
