// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"gatehouse.dev/hack/conformance/node"
	"gatehouse.dev/test/peers"
	"gatehouse.dev/test/program"
)

// module is the module that Kubernetes' programs are built in. The tests need more modules than its
// go.mod names, so they are built with a copy of it.
const module = "test/differential"

// kubernetes are the packages of programs that are built beside the tests.
var kubernetes = []string{
	"k8s.io/kubernetes/cmd/kube-controller-manager",
	"k8s.io/kubernetes/cmd/kube-scheduler",
	"k8s.io/kubernetes/test/images/agnhost",
	"k8s.io/sample-apiserver",
	"github.com/onsi/ginkgo/v2/ginkgo",
}

const (
	tests     = "k8s.io/kubernetes/test/e2e"
	testsFile = "e2e.test"
)

// build builds all programs into a directory.
func build(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	modfile, err := copyModule(ctx, dir)
	if err != nil {
		return err
	}
	versionFlags, err := peers.VersionFlags(ctx)
	if err != nil {
		return err
	}
	version := "-ldflags=" + versionFlags
	for _, args := range [][]string{
		{"build", "-o", dir + "/", peers.Packages[peers.Gatehouse]},
		{"build", "-o", filepath.Join(dir, peers.Etcd), peers.Packages[peers.Etcd]},
		append([]string{"build", "-modfile=" + modfile, version, "-o", dir + "/"}, kubernetes...),
		{"test", "-c", "-vet=off", "-modfile=" + modfile, version, "-o", filepath.Join(dir, testsFile), tests},
	} {
		if err := goCommand(ctx, args...); err != nil {
			return err
		}
	}
	if err := copyAgnhostFiles(ctx, dir); err != nil {
		return err
	}
	kubectl, err := program.Kubectl(ctx)
	if err != nil {
		return err
	}
	link := filepath.Join(dir, "kubectl")
	if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.Symlink(kubectl, link)
}

// copyAgnhostFiles copies the files that agnhost's image has besides the program.
func copyAgnhostFiles(ctx context.Context, dir string) error {
	root, err := ofKubernetes(ctx, "{{.Dir}}")
	if err != nil {
		return err
	}
	for _, name := range node.AgnhostFiles {
		content, err := os.ReadFile(filepath.Join(root, "test/images/agnhost/porter", name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// copyModule writes a copy of the module's go.mod that has what the tests import, and returns its path.
func copyModule(ctx context.Context, dir string) (string, error) {
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return "", err
		}
	}
	version, err := kubernetesVersion(ctx)
	if err != nil {
		return "", err
	}
	modfile := filepath.Join(dir, "go.mod")
	return modfile, goCommand(ctx, "get", "-modfile="+modfile, "-t", tests+"@"+version,
		"k8s.io/kubernetes/test/images/agnhost@"+version, "k8s.io/kubernetes/cmd/kube-controller-manager@"+version,
		"k8s.io/kubernetes/cmd/kube-scheduler@"+version,
		"k8s.io/sample-apiserver@v0"+strings.TrimPrefix(version, "v1"))
}

// goCommand runs the go command in the module.
func goCommand(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = module, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// kubernetesVersion returns the version of Kubernetes in go.mod.
func kubernetesVersion(ctx context.Context) (string, error) { return ofKubernetes(ctx, "{{.Version}}") }

// ofKubernetes returns what the go command knows of Kubernetes' module.
func ofKubernetes(ctx context.Context, format string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", format, "k8s.io/kubernetes").Output()
	if err != nil {
		return "", fmt.Errorf("asking the go command for k8s.io/kubernetes: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
