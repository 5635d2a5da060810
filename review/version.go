// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/kubernetes/scheme"
	basecompatibility "k8s.io/component-base/compatibility"
)

// KubernetesVersions returns the minor versions of Kubernetes that a review can judge as, such as
// 1.36, oldest first. The last one is the version in the program. It emulates the others.
func KubernetesVersions() []string {
	effective := compatibility.DefaultBuildEffectiveVersion()
	own := effective.BinaryVersion()
	var versions []string
	for minor := int(own.Minor()); minor >= 0; minor-- {
		v := version.MajorMinor(own.Major(), uint(minor))
		effective.SetEmulationVersion(v)
		if len(effective.Validate()) > 0 {
			break
		}
		versions = append(versions, v.String())
	}
	slices.Reverse(versions)
	return versions
}

// CheckKubernetesVersion returns a minor version, which may have a v before it, as one of
// KubernetesVersions.
func CheckKubernetesVersion(text string) (string, error) {
	versions := KubernetesVersions()
	v := strings.TrimPrefix(text, "v")
	if !slices.Contains(versions, v) {
		return "", fmt.Errorf("%q is none of %s, the versions that this program can judge as: use a release of "+
			"gatehouse for that version", text, strings.Join(versions, ", "))
	}
	return v, nil
}

// ApplyVersion sets the flag --emulated-version to the version that --kubernetes-version names, if it
// is set. Call it before ApplyLike: a version in that file doesn't count then.
func (f *Flags) ApplyVersion(flags *pflag.FlagSet) error {
	if f.kubernetesVersion == "" {
		return nil
	}
	if flags.Changed(emulatedVersion) {
		return errors.New("--kubernetes-version and --emulated-version: only one can be given")
	}
	v, err := CheckKubernetesVersion(f.kubernetesVersion)
	if err != nil {
		return fmt.Errorf("--kubernetes-version: %w", err)
	}
	return flags.Set(emulatedVersion, v)
}

// emulatedVersion is the flag that chooses the version of all servers of a process.
const emulatedVersion = "emulated-version"

// judgedVersion returns the minor version that the servers of the process are like, and the version
// in the program, with its patch.
func judgedVersion() (judged, own *version.Version) {
	effective := compatibility.DefaultComponentGlobalsRegistry.EffectiveVersionFor(
		basecompatibility.DefaultKubeComponent)
	return effective.EmulationVersion(), effective.BinaryVersion()
}

// JudgedVersion returns the minor version that the servers of the process are like.
func JudgedVersion() string {
	judged, _ := judgedVersion()
	return fmt.Sprintf("%d.%d", judged.Major(), judged.Minor())
}

// isEmulating reports whether the servers of the process are like another minor version than the one
// in the program.
func isEmulating() bool {
	judged, own := judgedVersion()
	return judged.Minor() != own.Minor() || judged.Major() != own.Major()
}

// EmulationNote says what the emulation of another version doesn't show. It returns "" if the program
// judges as its own version.
func EmulationNote() string {
	if !isEmulating() {
		return ""
	}
	judged, own := judgedVersion()
	return fmt.Sprintf("judged as Kubernetes %s, which %d.%d emulates: APIs, feature gates and plugins are those of %[1]s; "+
		"what no gate guards, such as fixes and messages, is that of %[2]d.%[3]d", judged, own.Major(), own.Minor())
}

// notYetDeprecated returns the warning that the kind is deprecated, if it isn't yet in the emulated
// version, or "". Kubernetes goes by the program's version here.
func notYetDeprecated(kind schema.GroupVersionKind) string {
	if !isEmulating() {
		return ""
	}
	judged, _ := judgedVersion()
	object, err := scheme.Scheme.New(kind)
	if err != nil || deprecation.IsDeprecated(object, int(judged.Major()), int(judged.Minor())) {
		return ""
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	return deprecation.WarningMessage(object)
}

// whyNotServed returns the end of a message that a kind of Kubernetes isn't served, or "" if the kind
// isn't one of Kubernetes.
func whyNotServed(kind schema.GroupVersionKind) string {
	object, err := scheme.Scheme.New(kind)
	if err != nil {
		return ""
	}
	judged, _ := judgedVersion()
	if since := introduced(object); since != nil && judged.LessThan(since) {
		return fmt.Sprintf(": it comes with Kubernetes %s, and this judges as %s does", since, judged)
	}
	if removed := deprecation.RemovedRelease(object); removed != "" {
		if until, err := version.Parse(removed); err == nil && judged.AtLeast(until) {
			return fmt.Sprintf(": Kubernetes %s removed it", removed)
		}
	}
	return fmt.Sprintf(": Kubernetes %s doesn't serve it by default (see --runtime-config=%s=true)", judged,
		kind.GroupVersion())
}

// introduced returns the version of Kubernetes that a kind came with, or nil if that isn't known.
func introduced(object runtime.Object) *version.Version {
	known, ok := object.(interface {
		APILifecycleIntroduced() (major, minor int)
	})
	if !ok {
		return nil
	}
	major, minor := known.APILifecycleIntroduced()
	return version.MajorMinor(uint(major), uint(minor))
}
