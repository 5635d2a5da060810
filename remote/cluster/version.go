// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/compatibility"
)

// effectiveVersion is the version of the cluster.
type effectiveVersion struct {
	compatibility.EffectiveVersion
	info *apimachineryversion.Info
}

// Info returns the version that the cluster reported.
func (v effectiveVersion) Info() *apimachineryversion.Info {
	info := *v.info
	return &info
}

// readVersion asks for the version.
func readVersion(ctx context.Context, client rest.Interface) (compatibility.EffectiveVersion, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	body, err := client.Get().AbsPath("/version").SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var info apimachineryversion.Info
	if err := json.Unmarshal(body, &info); err != nil {
		return nil, fmt.Errorf("/version: %w", err)
	}
	return newVersion(&info)
}

// newVersion returns the version that a cluster reports. Cloud providers add suffixes that semantic
// versions don't have.
func newVersion(info *apimachineryversion.Info) (compatibility.EffectiveVersion, error) {
	binary, err := version.ParseGeneric(info.GitVersion)
	if err != nil {
		if binary, err = majorMinor(info.Major, info.Minor); err != nil {
			return nil, fmt.Errorf("/version: gitVersion %q, major %q, minor %q: is no version of Kubernetes",
				info.GitVersion, info.Major, info.Minor)
		}
	}
	effective := compatibility.NewEffectiveVersion(binary, false, version.MajorMinor(0, 0), version.MajorMinor(0, 0))
	if emulated, err := majorMinor(info.EmulationMajor, info.EmulationMinor); err == nil {
		effective.SetEmulationVersion(emulated)
	}
	return effectiveVersion{effective, info}, nil
}

func majorMinor(major, minor string) (*version.Version, error) {
	return version.ParseGeneric(major + "." + strings.TrimRight(minor, "+"))
}
