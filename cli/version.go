// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gatehouse.dev/apiserver"
	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/internal/document"
	"gatehouse.dev/internal/kubeversion"
)

// build is what `gatehouse version -o json` prints.
type build struct {
	Gatehouse  string `json:"gatehouse"`
	Kubernetes string `json:"kubernetes"`
	// Commit is the commit that the program was built from, as far as the go command knew, with its
	// time. Modified reports whether the build had uncommitted changes.
	Commit   string   `json:"commit,omitempty"`
	Time     string   `json:"time,omitempty"`
	Modified bool     `json:"modified,omitempty"`
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	Modules  []module `json:"modules"`
}

type module struct {
	Path    string `json:"path"`
	Version string `json:"version"`
}

func newVersion() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of gatehouse and of the Kubernetes inside",
		Long:  "Print the versions of gatehouse and of the Kubernetes inside.",
		Example: `  gatehouse version

  # With the commit and the modules that it was built from, for a script
  gatehouse version -o json`,
		Args: commandline.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch output {
			case "":
				_, err := fmt.Fprint(c.OutOrStdout(), versions())
				return err
			case "json":
				return document.Write(c.OutOrStdout(), output, thisBuild())
			}
			return commandline.Usage(fmt.Errorf("--output: %q is not json", output))
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "Output format: json; two lines if empty.")
	return c
}

// versions returns the versions of gatehouse and of the Kubernetes inside, a line each.
func versions() string {
	return fmt.Sprintf("gatehouse  %s\nkubernetes %s\n", commandline.Version(), kubeversion.Kubernetes())
}

func thisBuild() build {
	b := build{Gatehouse: commandline.Version(), Kubernetes: kubeversion.Kubernetes(), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Modules: []module{}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.time":
			b.Time = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	for _, used := range info.Deps {
		if used.Replace != nil {
			used = used.Replace
		}
		b.Modules = append(b.Modules, module{used.Path, used.Version})
	}
	return b
}

// versionFlag is kube-apiserver's --version: "false", "true", "raw", or the version to report.
type versionFlag struct {
	api   *apiserver.Options
	value string
}

// addVersionFlag adds the flag to a server's flags.
func addVersionFlag(fs *pflag.FlagSet, api *apiserver.Options) *versionFlag {
	v := &versionFlag{api: api, value: "false"}
	fs.Var(v, "version", "--version, --version=raw prints version information and quits; --version=vX.Y.Z... sets the "+
		"reported version")
	fs.Lookup("version").NoOptDefVal = "true"
	return v
}

// print prints the version of the Kubernetes inside if it is asked for.
func (v *versionFlag) print(out io.Writer) bool {
	info := apiserver.VersionInfo(v.api.ReportedVersion)
	switch v.value {
	case "raw":
		fmt.Fprintf(out, "%#v\n", info)
	case "true":
		fmt.Fprintf(out, "Kubernetes %s\n", info)
	default:
		return false
	}
	return true
}

// IsBoolFlag reports to pflag that the flag needs no value.
func (v *versionFlag) IsBoolFlag() bool { return true }

// String implements pflag.Value.
func (v *versionFlag) String() string { return v.value }

// Type implements pflag.Value.
func (v *versionFlag) Type() string { return "version" }

// Set implements pflag.Value.
func (v *versionFlag) Set(s string) error {
	if strings.HasPrefix(s, "v") {
		if err := apiserver.CheckReportedVersion(s); err != nil {
			return err
		}
		v.value, v.api.ReportedVersion = s, s
		return nil
	}
	if s != "raw" {
		value, err := strconv.ParseBool(s)
		if err != nil {
			return err
		}
		s = strconv.FormatBool(value)
	}
	v.value = s
	return nil
}
