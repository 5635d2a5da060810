// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Command helm is as much of Helm as the tests need, by Helm's own packages:
//
//	helm template NAME CHART [--namespace NAMESPACE] [-f FILE]... [--set KEY=VALUE]... [--include-crds]
//	    [--no-hooks] [--notes]
//	helm lint CHART [--namespace NAMESPACE] [-f FILE]... [--set KEY=VALUE]...
//
// template validates the values by the chart's schema; with --notes it prints what an installation
// says, and nothing else. lint fails for warnings, too.
//
// Unlike Helm it takes a chart whose dependencies haven't been fetched, as those in the modules of
// projects that package their charts elsewhere, and leaves out what isn't there. It is a module of
// its own: nothing of Gatehouse needs what Helm needs.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"helm.sh/helm/v4/pkg/strvals"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "Error: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	fs := pflag.NewFlagSet("helm", pflag.ContinueOnError)
	namespace := fs.String("namespace", "default", "the release's namespace")
	files := fs.StringArrayP("values", "f", nil, "files with values")
	set := fs.StringArray("set", nil, "values")
	crds := fs.Bool("include-crds", false, "print the chart's crds, too")
	noHooks := fs.Bool("no-hooks", false, "print no hooks")
	notes := fs.Bool("notes", false, "print the notes only")
	if err := fs.Parse(args); err != nil {
		return err
	}
	values := common.Values{}
	for _, file := range *files {
		more, err := common.ReadValuesFile(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		values = loader.MergeMaps(values, more)
	}
	for _, s := range *set {
		if err := strvals.ParseInto(s, values); err != nil {
			return fmt.Errorf("--set %s: %w", s, err)
		}
	}
	switch {
	case fs.NArg() == 3 && fs.Arg(0) == "template":
		return template(out, fs.Arg(1), *namespace, fs.Arg(2), values, *crds, *noHooks, *notes)
	case fs.NArg() == 2 && fs.Arg(0) == "lint":
		return lintChart(fs.Arg(1), *namespace, values)
	}
	return errors.New("usage: helm template NAME CHART, or helm lint CHART")
}

func lintChart(dir, namespace string, values map[string]any) error {
	var errs []error
	for _, message := range lint.RunAll(dir, values, namespace).Messages {
		if message.Severity > support.InfoSev {
			errs = append(errs, message)
		}
	}
	return errors.Join(errs...)
}

func template(out io.Writer, name, namespace, dir string, values map[string]any, crds, noHooks, notes bool) error {
	chart, err := loader.Load(dir)
	if err != nil {
		return err
	}
	if err := chartutil.ProcessDependencies(chart, values); err != nil {
		return err
	}
	release := common.ReleaseOptions{Name: name, Namespace: namespace, Revision: 1, IsInstall: true}
	rendering, err := util.ToRenderValues(chart, values, release, common.DefaultCapabilities)
	if err != nil {
		return err
	}
	files, err := engine.Render(chart, rendering)
	if err != nil {
		return err
	}
	for name, content := range files {
		if !strings.HasSuffix(name, "NOTES.txt") {
			continue
		}
		delete(files, name)
		if notes {
			fmt.Fprint(out, content)
		}
	}
	if notes {
		return nil
	}
	if crds {
		for _, crd := range chart.CRDObjects() {
			fmt.Fprintf(out, "---\n# Source: %s\n%s\n", crd.Filename, crd.File.Data)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return err
	}
	for _, m := range manifests {
		fmt.Fprintf(out, "---\n# Source: %s\n%s\n", m.Name, m.Content)
	}
	for _, hook := range hooks {
		if !noHooks && !slices.Contains(hook.Events, "test") {
			fmt.Fprintf(out, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
		}
	}
	return nil
}
