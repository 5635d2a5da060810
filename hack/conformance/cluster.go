// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"gatehouse.dev/apiserver/pki"
	"gatehouse.dev/hack/conformance/node"
	"gatehouse.dev/test/peers"
)

// nodes are the names of the Node objects.
var nodes = []string{"node-1", "node-2"}

// otherControllers are the controllers of kube-controller-manager that specs need and that Gatehouse
// doesn't have.
var otherControllers = []string{
	names.CertificateSigningRequestApprovingController,
	names.CertificateSigningRequestCleanerController,
	names.CertificateSigningRequestSigningController,
	names.EndpointsController,
	names.EndpointSliceMirroringController,
	names.EphemeralVolumeController,
	names.PersistentVolumeAttachDetachController,
	names.PersistentVolumeBinderController,
	names.PersistentVolumeExpanderController,
	names.ResourceClaimController,
	names.ServiceCIDRController,
	names.StorageVersionGarbageCollectorController,
	names.TaintEvictionController,
}

// A mode is what is on while specs run: what is on by default, or everything.
type mode struct {
	name         string   // of the directory with logs
	offByDefault bool     // runs the specs that need what is off by default
	processes    int      // how many specs run at the same time; most of the time they wait
	gates        []string // flags of each program
	apis         []string // flags of the API server
}

var modes = []mode{
	{name: "default", processes: 10},
	// One by one: those of WorkloadAwarePreemption give a resource to a node that they choose at random.
	{name: "everything", offByDefault: true, processes: 1, gates: []string{"--feature-gates=AllAlpha=true,AllBeta=true"},
		apis: []string{"--runtime-config=api/all=true"}},
}

// offByDefault matches the specs that need what is off by default.
var offByDefault = regexp.MustCompile(`\[Feature:(OffByDefault|StorageVersionAPI)\]`)

// runSpecs runs specs against a new server, and sets their results. Logs go to dir.
func runSpecs(ctx context.Context, programs, dir, version string, m mode, specs []*spec) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	flags, err := serverFlags(filepath.Join(dir, "front-proxy"))
	if err != nil {
		return err
	}
	flags = slices.Concat(flags, m.gates, m.apis)
	server, err := peers.Start(ctx, programs, dir, func(ctx context.Context, s *peers.Server) error {
		return s.RunGatehouse(ctx, flags...)
	})
	if err != nil {
		return err
	}
	defer server.Stop()
	kubeconfig, err := server.Kubeconfig()
	if err != nil {
		return err
	}
	stopNodes, err := startNodes(ctx, server, version)
	if err != nil {
		return err
	}
	defer stopNodes()
	signer := filepath.Join(dir, "data", "pki")
	if _, err := server.Exec("kube-controller-manager", append([]string{"--kubeconfig=" + kubeconfig,
		"--leader-elect=false", "--secure-port=0", "--controllers=" + strings.Join(otherControllers, ","),
		"--cluster-signing-cert-file=" + filepath.Join(signer, "ca.crt"),
		"--cluster-signing-key-file=" + filepath.Join(signer, "ca.key")}, m.gates...)...); err != nil {
		return err
	}
	if _, err := server.Exec("kube-scheduler", append([]string{"--kubeconfig=" + kubeconfig, "--leader-elect=false",
		"--secure-port=0"}, m.gates...)...); err != nil {
		return err
	}
	report := filepath.Join(dir, "report.json")
	args := []string{fmt.Sprintf("--procs=%d", m.processes), "--no-color", "--timeout=4h", "--poll-progress-after=3m", "--output-dir=" + dir,
		"--json-report=" + filepath.Base(report)}
	for _, s := range specs {
		args = append(args, "--focus="+regexp.QuoteMeta(s.text)+"$")
	}
	args = append(args, filepath.Join(programs, testsFile), "--", "--kubeconfig="+kubeconfig, "--provider=skeleton",
		"--kubectl-path="+filepath.Join(programs, "kubectl"), "--dump-logs-on-failure=false")
	if err := runGinkgo(ctx, programs, dir, args); err != nil {
		return err
	}
	return readResults(report, specs)
}

// serverFlags returns the flags of gatehouse serve. Besides those of a file they name the certificates by
// which an aggregated API knows its API server, as kubeadm's flags do. It makes them in dir.
func serverFlags(dir string) ([]string, error) {
	flags, err := os.ReadFile(flagsFile)
	if err != nil {
		return nil, err
	}
	const user = "front-proxy-client"
	authority, err := pki.LoadAuthority(dir)
	if err != nil {
		return nil, err
	}
	cert, key, err := authority.Client(user)
	if err != nil {
		return nil, err
	}
	certFile, keyFile := filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")
	if err := errors.Join(pki.WriteFile(certFile, cert), pki.WriteFile(keyFile, key)); err != nil {
		return nil, err
	}
	return append(strings.Fields(string(flags)), "--proxy-client-cert-file="+certFile, "--proxy-client-key-file="+keyFile,
		"--requestheader-client-ca-file="+filepath.Join(dir, "ca.crt"), "--requestheader-allowed-names="+user,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-"), nil
}

// startNodes registers the nodes and runs their pods until it is told to stop.
func startNodes(ctx context.Context, server *peers.Server, version string) (stop func(), err error) {
	log, err := os.Create(filepath.Join(server.Dir, "node.log"))
	if err != nil {
		return nil, err
	}
	address := strings.TrimPrefix(server.Config.Host, "https://")
	n, err := node.New(server.Config, address, server.Programs, filepath.Join(server.Dir, "pods"),
		func(format string, args ...any) { fmt.Fprintf(log, format+"\n", args...) })
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	if err := n.Prepare(ctx, version, nodes...); err != nil {
		cancel()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		n.Run(ctx)
		close(done)
	}()
	return func() {
		cancel()
		<-done
		log.Close()
	}, nil
}

// runGinkgo runs the specs. Specs that fail are no error.
func runGinkgo(ctx context.Context, programs, dir string, args []string) error {
	log, err := os.Create(filepath.Join(dir, "ginkgo.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(programs, "ginkgo"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	err = cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok && ctx.Err() == nil {
		return nil
	}
	return err
}
