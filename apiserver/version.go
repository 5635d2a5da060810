package apiserver

import (
	"fmt"
	"runtime/debug"
	"strings"
	"sync"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
)

// effectiveVersion says at /version which Kubernetes this is. Kubernetes' own build writes that
// into its binaries when it links them; a program that has Kubernetes as a module finds it among
// its modules.
type effectiveVersion struct {
	compatibility.EffectiveVersion
}

// Info implements compatibility.EffectiveVersion.
func (v effectiveVersion) Info() *apimachineryversion.Info {
	info := v.EffectiveVersion.Info()
	if info == nil || !strings.HasPrefix(info.GitVersion, "v0.0.0-master") {
		return info
	}
	info.GitVersion = KubernetesVersion()
	if info.GitVersion == "" {
		// Clients parse it, and a semantic version has a patch level.
		info.GitVersion = fmt.Sprintf("v%d.%d.0", v.BinaryVersion().Major(), v.BinaryVersion().Minor())
	}
	info.GitVersion += "+gatehouse"
	info.GitCommit, info.GitTreeState = "", "archive"
	return info
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
