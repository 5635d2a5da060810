// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package charts gives tests three charts that people use: those inside the Go modules of
// Gatekeeper, Kyverno and cert-manager, and Helm to render them, and the definitions of Prometheus
// Operator, which our own chart goes by. Nothing of them is in this repository: they come from the
// module cache, or from where Go finds modules.
package charts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A chart is a directory of a module.
type chart struct {
	name, dir, module, version, sum string
}

var all = []chart{
	{"gatekeeper", "charts/gatekeeper", "github.com/open-policy-agent/gatekeeper/v3", "v3.23.1",
		"h1:njHTm0SJ6ZEhhEgmQTpJKTGQbc99fSs4hGiEp1OIKck="},
	{"kyverno", "charts/kyverno", "github.com/kyverno/kyverno", "v1.19.1",
		"h1:/MkgFii3/VlQfKR1JpC9tVwNNVNQTt2S4U6qCsafsTU="},
	{"cert-manager", "deploy/charts/cert-manager", "github.com/cert-manager/cert-manager", "v1.21.2",
		"h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68="},
}

// Put copies the charts into directories of dir that are named as they are: gatekeeper, kyverno,
// cert-manager.
func Put(ctx context.Context, dir string) error {
	for _, c := range all {
		if err := c.put(ctx, filepath.Join(dir, c.name)); err != nil {
			return err
		}
	}
	return nil
}

// PutServiceMonitors copies the CustomResourceDefinitions of Prometheus Operator, which those of
// ServiceMonitors and PrometheusRules are among, into a directory.
func PutServiceMonitors(ctx context.Context, dir string) error {
	c := chart{"", "example/prometheus-operator-crd", "github.com/prometheus-operator/prometheus-operator", "v0.85.0",
		"h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="}
	return c.put(ctx, dir)
}

// PutReports copies the CustomResourceDefinitions of reports, in both formats that policy engines
// write, into a directory.
func PutReports(ctx context.Context, dir string) error {
	open := chart{"", "config/crd", "github.com/openreports/reports-api", "v0.2.1",
		"h1:g9KS3yle9Y1elmww4TK9EkD1rl6inIaiIJPX6e+u680="}
	kyverno := all[slices.IndexFunc(all, func(c chart) bool { return c.name == "kyverno" })]
	kyverno.dir = "config/crds/policyreport"
	return errors.Join(open.put(ctx, filepath.Join(dir, "openreports")), kyverno.put(ctx, filepath.Join(dir, "wgpolicyk8s")))
}

// put copies what is in the module into a directory.
func (c *chart) put(ctx context.Context, dir string) error {
	out, err := run(ctx, "go", "mod", "download", "-json", c.module+"@"+c.version)
	if err != nil {
		return err
	}
	var downloaded struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return fmt.Errorf("go mod download of %s: %w", c.module, err)
	}
	if downloaded.Sum != c.sum {
		return fmt.Errorf("%s@%s has the sum %s, want %s", c.module, c.version, downloaded.Sum, c.sum)
	}
	return os.CopyFS(dir, os.DirFS(filepath.Join(downloaded.Dir, c.dir)))
}

// BuildHelm builds the program helm into dir; its package says what it can.
func BuildHelm(ctx context.Context, dir string) error {
	here, err := run(ctx, "go", "list", "-f", "{{.Dir}}", "gatehouse.dev/test/charts")
	if err != nil {
		return err
	}
	_, err = run(ctx, "go", "build", "-C", filepath.Join(strings.TrimSpace(string(here)), "helm"), "-o",
		filepath.Join(dir, "helm"), ".")
	return err
}

func run(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}
