// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gatehouse.dev/apiserver/pki"
)

// A Server is a running API server: one process of Gatehouse, or kube-apiserver and its etcd.
type Server struct {
	Programs  string // the directory that Build built into
	Dir       string // the data, logs and certificates
	Processes []*Process
	StartTime time.Duration // from the first process's start to /readyz
	Etcd      string        // the URL of kube-apiserver's etcd
	Config    *rest.Config  // an administrator's
}

// Start returns a server that run has started, on a directory that may have been a server's before.
// If run fails, what it started is stopped.
func Start(ctx context.Context, programs, dir string, run func(context.Context, *Server) error) (*Server, error) {
	s := &Server{Programs: programs, Dir: dir}
	if err := run(ctx, s); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Stop ends the processes, the last one first.
func (s *Server) Stop() {
	for len(s.Processes) > 0 {
		last := len(s.Processes) - 1
		s.Processes[last].Stop()
		s.Processes = s.Processes[:last]
	}
}

// Exec starts a program as one of the server's processes.
func (s *Server) Exec(program string, args ...string) (*Process, error) {
	p, err := StartProcess(s.Dir, filepath.Join(s.Programs, program), args...)
	if err == nil {
		s.Processes = append(s.Processes, p)
	}
	return p, err
}

// RunGatehouse starts gatehouse serve, and returns when it is ready.
func (s *Server) RunGatehouse(ctx context.Context, flags ...string) error {
	port, err := FreePort()
	if err != nil {
		return err
	}
	data := filepath.Join(s.Dir, "data")
	begin := time.Now()
	p, err := s.Exec(Gatehouse, append([]string{"serve", "--data-dir=" + data, "--secure-port=" + port}, flags...)...)
	if err != nil {
		return err
	}
	if err := p.AwaitOK(ctx, "https://127.0.0.1:"+port+"/readyz"); err != nil {
		return err
	}
	s.StartTime = time.Since(begin)
	s.Config, err = clientcmd.BuildConfigFromFlags("", filepath.Join(data, "admin.kubeconfig"))
	return err
}

// RunKubeAPIServer starts etcd and kube-apiserver with these admission plugins alone, and returns when
// they are ready. kube-apiserver starts when etcd is ready: otherwise it would wait longer than it
// needs to. The certificates are made before, so that StartTime doesn't include that.
func (s *Server) RunKubeAPIServer(ctx context.Context, plugins []string, flags ...string) error {
	ports, err := FreePorts(3)
	if err != nil {
		return err
	}
	client, member := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	if err := s.makeCertificates("https://127.0.0.1:" + ports[2]); err != nil {
		return err
	}
	begin := time.Now()
	storage, err := s.Exec(Etcd, "--data-dir="+filepath.Join(s.Dir, "data"), "--log-level=error",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+member, "--initial-advertise-peer-urls="+member, "--initial-cluster=default="+member)
	if err != nil {
		return err
	}
	if err := storage.AwaitOK(ctx, client+"/health"); err != nil {
		return err
	}
	s.Etcd = client
	if err := s.execKubeAPIServer(ctx, ports[2], plugins, flags); err != nil {
		return err
	}
	s.StartTime = time.Since(begin)
	return nil
}

// RunKubeAPIServerOn starts another kube-apiserver on the etcd of one that runs.
func (s *Server) RunKubeAPIServerOn(ctx context.Context, etcd string, plugins []string, flags ...string) error {
	port, err := FreePort()
	if err != nil {
		return err
	}
	if err := s.makeCertificates("https://127.0.0.1:" + port); err != nil {
		return err
	}
	s.Etcd = etcd
	return s.execKubeAPIServer(ctx, port, plugins, flags)
}

// execKubeAPIServer starts kube-apiserver on the server's etcd, and returns when it is ready.
func (s *Server) execKubeAPIServer(ctx context.Context, port string, plugins, flags []string) error {
	certs := s.certificates()
	server, err := s.Exec(KubeAPIServer, append(flags, "--etcd-servers="+s.Etcd,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port="+port,
		"--endpoint-reconciler-type=none",
		"--tls-cert-file="+filepath.Join(certs, "server.crt"),
		"--tls-private-key-file="+filepath.Join(certs, "server.key"),
		"--client-ca-file="+filepath.Join(certs, "ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+filepath.Join(certs, "sa.key"),
		"--service-account-signing-key-file="+filepath.Join(certs, "sa.key"),
		"--authorization-mode=Node,RBAC", "--allow-privileged", "--service-cluster-ip-range=10.96.0.0/12",
		"--admission-control="+strings.Join(plugins, ","))...)
	if err != nil {
		return err
	}
	return server.AwaitOK(ctx, s.Config.Host+"/readyz")
}

// certificates returns the directory with kube-apiserver's keys and certificates.
func (s *Server) certificates() string { return filepath.Join(s.Dir, "pki") }

// makeCertificates makes for kube-apiserver what Gatehouse makes for itself: an authority, keys, and
// an administrator's certificate.
func (s *Server) makeCertificates(url string) error {
	dir := s.certificates()
	authority, err := pki.LoadAuthority(dir)
	if err != nil {
		return err
	}
	cert, key, err := authority.Serving(KubeAPIServer, []string{"127.0.0.1", "10.96.0.1"}) // the latter for pods
	if err != nil {
		return err
	}
	if err := errors.Join(pki.WriteFile(filepath.Join(dir, "server.crt"), cert),
		pki.WriteFile(filepath.Join(dir, "server.key"), key)); err != nil {
		return err
	}
	if _, err := pki.TokenKey(dir); err != nil {
		return err
	}
	cert, key, err = authority.Client("kubernetes-admin", "system:masters")
	if err != nil {
		return err
	}
	s.Config = &rest.Config{Host: url,
		TLSClientConfig: rest.TLSClientConfig{CAData: authority.CertPEM(), CertData: cert, KeyData: key}}
	return nil
}

// Kubeconfig writes a kubeconfig of the server's administrator, and returns its path.
func (s *Server) Kubeconfig() (string, error) {
	return s.WriteKubeconfig("kubeconfig", &clientcmdapi.AuthInfo{ClientCertificateData: s.Config.CertData,
		ClientKeyData: s.Config.KeyData})
}

// WriteKubeconfig writes a kubeconfig of any user of the server's to a file in its directory, and
// returns its path.
func (s *Server) WriteKubeconfig(name string, user *clientcmdapi.AuthInfo) (string, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: s.Config.Host, CertificateAuthorityData: s.Config.CAData}
	config.AuthInfos["u"] = user
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "c"
	file := filepath.Join(s.Dir, name)
	return file, clientcmd.WriteToFile(*config, file)
}
