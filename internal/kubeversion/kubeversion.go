// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeversion sets the version of Kubernetes' packages. Kubernetes' own build writes it into
// k8s.io/component-base and k8s.io/client-go when it links a program. This package takes it from the
// modules of the program. Without it the packages assume version 0.0: no metric is hidden, requests
// are warned about APIs that a later version deprecates, and kubernetes_build_info and the user agents
// in audit logs are wrong.
//
// It is enough to import this package. Some packages read the version when they are initialized. Go
// initializes this one before them: it imports nothing that isn't initialized before them anyway, and
// among the packages that are ready Go takes the one whose path sorts first.
package kubeversion

import (
	"runtime/debug"
	"strings"
	_ "unsafe" // for go:linkname

	_ "k8s.io/client-go/pkg/version"
	"k8s.io/component-base/version"
)

// A linker's -X sets these variables, and only linkname reaches them otherwise.

//go:linkname gitVersion k8s.io/component-base/version.gitVersion
var gitVersion string

//go:linkname gitMajor k8s.io/component-base/version.gitMajor
var gitMajor string

//go:linkname gitMinor k8s.io/component-base/version.gitMinor
var gitMinor string

//go:linkname gitCommit k8s.io/component-base/version.gitCommit
var gitCommit string

//go:linkname gitTreeState k8s.io/component-base/version.gitTreeState
var gitTreeState string

// User agents have these variables of client-go.

//go:linkname clientVersion k8s.io/client-go/pkg/version.gitVersion
var clientVersion string

//go:linkname clientCommit k8s.io/client-go/pkg/version.gitCommit
var clientCommit string

func init() {
	if !strings.HasPrefix(gitVersion, "v0.0.0-master") {
		return // the linker has set it
	}
	is := Kubernetes()
	if is == "" {
		// Clients parse it, and a semantic version has a patch level.
		is = "v" + version.DefaultKubeBinaryVersion + ".0"
	}
	gitMajor, gitMinor, _ = strings.Cut(version.DefaultKubeBinaryVersion, ".")
	gitVersion, gitCommit, gitTreeState = is+"+gatehouse", "", "archive"
	clientVersion, clientCommit = gitVersion, gitCommit
	if err := version.SetDynamicVersion(gitVersion); err != nil {
		panic(err) // it is the default, so it can't be refused
	}
}

// Kubernetes returns the version of the Kubernetes in the program, such as v1.37.2, or "" if it isn't
// known.
func Kubernetes() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var component string
	for _, module := range info.Deps {
		if module.Replace != nil {
			module.Version = module.Replace.Version
		}
		switch module.Path {
		case "k8s.io/kubernetes":
			return module.Version
		case "k8s.io/component-base": // v0.37.2, in programs without an API server
			component = module.Version
		}
	}
	if rest, ok := strings.CutPrefix(component, "v0."); ok {
		return "v1." + rest
	}
	return ""
}
