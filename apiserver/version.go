package apiserver

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/version"
)

// effectiveVersion says at /version which Kubernetes this is. Kubernetes' own build writes that
// into its binaries when it links them; a program that has Kubernetes as a module finds it among
// its modules.
type effectiveVersion struct {
	compatibility.EffectiveVersion
	reported string // --version=v…
}

// Info implements compatibility.EffectiveVersion.
func (v effectiveVersion) Info() *apimachineryversion.Info {
	info := v.EffectiveVersion.Info()
	if info != nil {
		identify(info, v.reported)
	}
	return info
}

// identify puts what the program knows of its Kubernetes into what the build left open.
func identify(info *apimachineryversion.Info, reported string) {
	if reported != "" {
		info.GitVersion = reported
		return
	}
	if !strings.HasPrefix(info.GitVersion, "v0.0.0-master") {
		return
	}
	info.GitVersion = KubernetesVersion()
	if info.GitVersion == "" {
		// Clients parse it, and a semantic version has a patch level.
		info.GitVersion = "v" + version.DefaultKubeBinaryVersion + ".0"
	}
	info.GitVersion += "+gatehouse"
	info.GitCommit, info.GitTreeState = "", "archive"
}

// VersionInfo is what a server with that ReportedVersion says of itself at /version.
func VersionInfo(reported string) apimachineryversion.Info {
	info := version.Get()
	identify(&info, reported)
	return info
}

// CheckReportedVersion refuses an Options.ReportedVersion of another version than this one.
func CheckReportedVersion(reported string) error {
	own := VersionInfo("").GitVersion
	given, err := utilversion.ParseSemantic(reported)
	if err != nil {
		return err
	}
	is := utilversion.MustParseSemantic(own)
	if given.Major() != is.Major() || given.Minor() != is.Minor() || given.Patch() != is.Patch() {
		return fmt.Errorf("version %q must match major/minor/patch of default version %q", reported, own)
	}
	return nil
}

// KubernetesVersion is the version of k8s.io/kubernetes in the program, as v1.36.3, or nothing
// where the program doesn't tell.
var KubernetesVersion = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" {
			if module.Replace != nil {
				module = module.Replace
			}
			return module.Version
		}
	}
	return ""
})
