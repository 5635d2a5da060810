// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"testing"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
)

// The version is read of what clusters of many vendors say.
func TestVersion(t *testing.T) {
	for _, test := range []struct {
		info apimachineryversion.Info
		want string
	}{
		{apimachineryversion.Info{GitVersion: "v1.37.2", Major: "1", Minor: "37"}, "1.37.2 1.37"},
		{apimachineryversion.Info{GitVersion: "v1.29.4-eks-036c24b", Major: "1", Minor: "29+"}, "1.29.4 1.29"},
		{apimachineryversion.Info{GitVersion: "v1.30.1-gke.1329000", Major: "1", Minor: "30"}, "1.30.1 1.30"},
		{apimachineryversion.Info{GitVersion: "v1.31.2+k3s1", Major: "1", Minor: "31"}, "1.31.2 1.31"},
		{apimachineryversion.Info{GitVersion: "v1.37.2", EmulationMajor: "1", EmulationMinor: "34"}, "1.37.2 1.34"},
		{apimachineryversion.Info{GitVersion: "mine", Major: "1", Minor: "28+"}, "1.28 1.28"},
		{apimachineryversion.Info{GitVersion: "mine"},
			`/version: gitVersion "mine", major "", minor "": is no version of Kubernetes`},
	} {
		got := ""
		if v, err := newVersion(&test.info); err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprint(v.BinaryVersion(), " ", v.EmulationVersion())
			if v.Info().GitVersion != test.info.GitVersion {
				t.Errorf("%v: Info is %v", test.info, v.Info())
			}
		}
		if got != test.want {
			t.Errorf("%+v: got %s, want %s", test.info, got, test.want)
		}
	}
}
