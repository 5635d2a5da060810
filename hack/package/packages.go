// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// rpmArchitectures has RPM's names of architectures.
var rpmArchitectures = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// writePackages writes the packages for Debian and for RPM, as deploy/package/nfpm.yaml describes them,
// of the files of both programs.
func writePackages(tools map[string]string, p program, arch string, files []entry, out string) error {
	stage, err := os.MkdirTemp("", "gatehouse-package-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	unit, err := os.ReadFile("deploy/systemd/gatehouse.service")
	if err != nil {
		return err
	}
	files = append(files, entry{name: "gatehouse.service", content: packagedUnit(unit)})
	for _, file := range files {
		name := filepath.Join(stage, filepath.FromSlash(file.name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, file.content, file.mode()); err != nil {
			return err
		}
	}
	if err := os.CopyFS(stage, os.DirFS("deploy/package")); err != nil {
		return err
	}
	for _, kind := range []struct{ packager, file string }{
		{"deb", fmt.Sprintf("gatehouse_%s_%s.deb", p.version, arch)},
		{"rpm", fmt.Sprintf("gatehouse-%s.%s.rpm", p.version, rpmArchitectures[arch])},
	} {
		pack := exec.Command(tools["nfpm"], "package", "--packager="+kind.packager, "--target="+filepath.Join(out, kind.file))
		pack.Dir = stage
		pack.Env = append(os.Environ(), "VERSION="+p.version, "ARCH="+arch, fmt.Sprint("SOURCE_DATE_EPOCH=", p.time.Unix()))
		if _, err := output(pack); err != nil {
			return err
		}
	}
	return nil
}

// packagedUnit returns the systemd unit with the program where a package has it, and without the comment
// that says how to install it without a package.
func packagedUnit(unit []byte) []byte {
	unit = unit[max(0, bytes.Index(unit, []byte("[Unit]"))):]
	return []byte(strings.ReplaceAll(string(unit), "/usr/local/bin/", "/usr/bin/"))
}
