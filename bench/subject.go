package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/apiserver/pki"
	"gatehouse.dev/chain/config"
	"gatehouse.dev/plugins"
)

// measured is the chain that is measured: the plugins that are on by default, and these.
var measured = config.Options{Enable: []string{"AlwaysAdmit", "NamespaceAutoProvision", "NamespaceExists"}}

// pluginsOn are the names of the plugins that run, in order.
func pluginsOn() ([]string, error) {
	selected, err := measured.Select(plugins.List)
	var names []string
	for _, d := range selected {
		names = append(names, d.Name)
	}
	return names, err
}

// The programs, and the packages they are built from.
const (
	gatehouse        = "gatehouse"
	gatehouseWebhook = "gatehouse-webhook"
	kubeAPIServer    = "kube-apiserver"
	etcd             = "etcd"
	goTest           = "gotest"
)

var packages = map[string]string{
	gatehouse:        "gatehouse.dev/cmd/gatehouse",
	gatehouseWebhook: "gatehouse.dev/cmd/gatehouse-webhook",
	kubeAPIServer:    "k8s.io/kubernetes/cmd/kube-apiserver",
	etcd:             "go.etcd.io/etcd/server/v3",
	goTest:           "gatehouse.dev/bench/gotest",
}

// build puts the programs into dir.
func build(ctx context.Context, dir string) error {
	for name, pkg := range packages {
		progress("building %s", name)
		args := []string{"build", "-o", filepath.Join(dir, name)}
		if name == kubeAPIServer {
			flags, err := kubernetesVersion(ctx)
			if err != nil {
				return err
			}
			args = append(args, "-ldflags="+flags)
		}
		cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("building %s (to be run in the directory bench): %w", pkg, err)
		}
	}
	return nil
}

// kubernetesVersion returns the linker's flags that tell kube-apiserver its version, as Kubernetes'
// own build does. Without them it warns of APIs that are deprecated only later, and hides no
// metric.
func kubernetesVersion(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return "", fmt.Errorf("asking for the version of k8s.io/kubernetes: %w", err)
	}
	version := strings.TrimSpace(string(out))
	major, minor, ok := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	if !ok {
		return "", fmt.Errorf("k8s.io/kubernetes has the version %q", version)
	}
	var flags []string
	for _, of := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for name, value := range map[string]string{"gitVersion": version, "gitMajor": major, "gitMinor": minor,
			"gitTreeState": "clean"} {
			flags = append(flags, fmt.Sprintf("-X %s.%s=%s", of, name, value))
		}
	}
	slices.Sort(flags) // so that the build is found again
	return strings.Join(flags, " "), nil
}

// A subject is one of the servers that are compared.
type subject struct {
	name string
	// run starts the server on a data directory and returns when it is ready.
	run func(ctx context.Context, s *instance) error
}

// The subjects' indices. What the others are compared with is bare.
const (
	full = iota
	bare
	peer
)

var subjects = []subject{
	full: {"Gatehouse", func(ctx context.Context, s *instance) error {
		return s.runGatehouse(ctx, "--enable-admission-plugins="+strings.Join(measured.Enable, ","))
	}},
	bare: {"… without the chain", func(ctx context.Context, s *instance) error {
		return s.runGatehouse(ctx, "--admission-control=")
	}},
	peer: {"kube-apiserver and etcd", func(ctx context.Context, s *instance) error {
		return s.runPeer(ctx)
	}},
}

// An instance is a running server: one process, or kube-apiserver's and etcd's.
type instance struct {
	bin, dir  string
	processes []*process
	start     time.Duration // from the first process's start to /readyz
	config    *rest.Config
}

// start runs a subject on dir, where it may have run before.
func start(ctx context.Context, s subject, bin, dir string) (*instance, error) {
	i := &instance{bin: bin, dir: dir}
	if err := s.run(ctx, i); err != nil {
		i.stop()
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	return i, nil
}

// stop ends the processes, the last one started first.
func (s *instance) stop() {
	for len(s.processes) > 0 {
		last := len(s.processes) - 1
		s.processes[last].stop()
		s.processes = s.processes[:last]
	}
}

// memory is that of all processes together.
func (s *instance) memory() (sum memory, err error) {
	for _, p := range s.processes {
		m, readErr := p.memory()
		sum.rss, sum.anon, err = sum.rss+m.rss, sum.anon+m.anon, errors.Join(err, readErr)
	}
	return sum, err
}

// cpu is that of all processes together.
func (s *instance) cpu() (sum time.Duration, err error) {
	for _, p := range s.processes {
		spent, readErr := p.cpu()
		sum, err = sum+spent, errors.Join(err, readErr)
	}
	return sum, err
}

func (s *instance) exec(program string, args ...string) (*process, error) {
	p, err := startProcess(s.dir, filepath.Join(s.bin, program), args...)
	if err == nil {
		s.processes = append(s.processes, p)
	}
	return p, err
}

func (s *instance) runGatehouse(ctx context.Context, flags ...string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	begin := time.Now()
	p, err := s.exec(gatehouse, append([]string{"serve", "--data-dir=" + data, "--secure-port=" + port}, flags...)...)
	if err != nil {
		return err
	}
	if err := p.awaitOK(ctx, "https://127.0.0.1:"+port+"/readyz"); err != nil {
		return err
	}
	s.start = time.Since(begin)
	s.config, err = clientcmd.BuildConfigFromFlags("", filepath.Join(data, "admin.kubeconfig"))
	return err
}

// runPeer starts etcd, and kube-apiserver once it can store: it would wait longer than needed where
// etcd doesn't answer at once. Its certificates are made beforehand, so that their making is not in
// the figures.
func (s *instance) runPeer(ctx context.Context, flags ...string) error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	client, member := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	host := "127.0.0.1:" + ports[2]
	certs := filepath.Join(s.dir, "pki")
	if err := s.makeCertificates(certs, "https://"+host); err != nil {
		return err
	}
	on, err := pluginsOn()
	if err != nil {
		return err
	}

	begin := time.Now()
	storage, err := s.exec(etcd, "--data-dir="+filepath.Join(s.dir, "data"), "--log-level=error",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+member, "--initial-advertise-peer-urls="+member, "--initial-cluster=default="+member)
	if err != nil {
		return err
	}
	if err := storage.awaitOK(ctx, client+"/health"); err != nil {
		return err
	}
	server, err := s.exec(kubeAPIServer, append(flags, "--etcd-servers="+client,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port="+ports[2],
		"--endpoint-reconciler-type=none",
		"--tls-cert-file="+filepath.Join(certs, "server.crt"),
		"--tls-private-key-file="+filepath.Join(certs, "server.key"),
		"--client-ca-file="+filepath.Join(certs, "ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file="+filepath.Join(certs, "sa.key"),
		"--service-account-signing-key-file="+filepath.Join(certs, "sa.key"),
		"--authorization-mode=Node,RBAC", "--allow-privileged", "--service-cluster-ip-range=10.96.0.0/12",
		"--admission-control="+strings.Join(on, ","))...)
	if err != nil {
		return err
	}
	if err := server.awaitOK(ctx, "https://"+host+"/readyz"); err != nil {
		return err
	}
	s.start = time.Since(begin)
	return nil
}

// makeCertificates gives kube-apiserver what Gatehouse makes for itself: an authority, keys, and an
// administrator.
func (s *instance) makeCertificates(dir, url string) error {
	authority, err := pki.LoadAuthority(dir)
	if err != nil {
		return err
	}
	cert, key, err := authority.Serving(kubeAPIServer, []string{"127.0.0.1", "10.96.0.1"}) // the latter for pods
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
	s.config = &rest.Config{Host: url,
		TLSClientConfig: rest.TLSClientConfig{CAData: authority.CertPEM(), CertData: cert, KeyData: key}}
	return nil
}
