// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/compatibility"
	_ "k8s.io/component-base/metrics/prometheus/version" // kubernetes_build_info
	"k8s.io/component-base/version"
)

// effectiveVersion says at /version what --version=v… says.
type effectiveVersion struct {
	compatibility.EffectiveVersion
	reported string // --version=v…
}

// Info implements compatibility.EffectiveVersion.
func (v effectiveVersion) Info() *apimachineryversion.Info {
	info := v.EffectiveVersion.Info()
	if info != nil && v.reported != "" {
		info.GitVersion = v.reported
	}
	return info
}

// VersionInfo returns what a server with that ReportedVersion says at /version.
func VersionInfo(reported string) apimachineryversion.Info {
	info := version.Get()
	if reported != "" {
		info.GitVersion = reported
	}
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
