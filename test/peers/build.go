// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peers builds Gatehouse, Kubernetes' programs and etcd, and starts them as processes of
// their own, so that tests and benchmarks can send Gatehouse and kube-apiserver the same requests,
// or run Kubernetes around Gatehouse.
//
// Kubernetes' programs and etcd have dependencies that the main module doesn't have. Build therefore
// runs in a module whose go.mod names the programs as tools: bench or test/differential.
package peers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The names of the programs, which are also their files' names.
const (
	Gatehouse        = "gatehouse"
	GatehouseWebhook = "gatehouse-webhook"
	KubeAPIServer    = "kube-apiserver"
	Etcd             = "etcd"

	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubeadm           = "kubeadm"
	Kwok              = "kwok" // plays kubelets
)

// Servers are the programs that tests and benchmarks compare.
var Servers = []string{Gatehouse, GatehouseWebhook, KubeAPIServer, Etcd}

// Packages has the package of each program.
var Packages = map[string]string{
	Gatehouse:        "gatehouse.dev/cmd/gatehouse",
	GatehouseWebhook: "gatehouse.dev/cmd/gatehouse-webhook",
	KubeAPIServer:    "k8s.io/kubernetes/cmd/kube-apiserver",
	Etcd:             "go.etcd.io/etcd/server/v3",

	ControllerManager: "k8s.io/kubernetes/cmd/kube-controller-manager",
	Scheduler:         "k8s.io/kubernetes/cmd/kube-scheduler",
	Kubeadm:           "k8s.io/kubernetes/cmd/kubeadm",
	Kwok:              "sigs.k8s.io/kwok/cmd/kwok",
}

// Build builds programs into dir.
func Build(ctx context.Context, dir string, programs ...string) error {
	for _, program := range programs {
		pkg := Packages[program]
		args := []string{"build", "-o", filepath.Join(dir, program)}
		if strings.HasPrefix(pkg, "k8s.io/kubernetes/") {
			flags, err := VersionFlags(ctx)
			if err != nil {
				return err
			}
			args = append(args, "-ldflags="+flags)
		}
		cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("building %s, in a module that should name it as a tool: %w", pkg, err)
		}
	}
	return nil
}

// VersionFlags returns the linker's flags that give Kubernetes' programs their version, as Kubernetes'
// own build does. Without them kube-apiserver warns of APIs that are deprecated only later, and hides
// no metric.
func VersionFlags(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").Output()
	if err != nil {
		return "", fmt.Errorf("reading the version of k8s.io/kubernetes: %w", err)
	}
	version := strings.TrimSpace(string(out))
	major, minor, ok := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	if !ok {
		return "", fmt.Errorf("k8s.io/kubernetes has the version %q, want one like v1.37.2", version)
	}
	var flags []string
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for name, value := range map[string]string{"gitVersion": version, "gitMajor": major, "gitMinor": minor,
			"gitTreeState": "clean"} {
			flags = append(flags, fmt.Sprintf("-X %s.%s=%s", pkg, name, value))
		}
	}
	slices.Sort(flags) // the same flags, so that the go command finds its last build
	return strings.Join(flags, " "), nil
}
