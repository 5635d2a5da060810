// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
)

func TestVersionsAreUpstreams(t *testing.T) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	var want []string
	for kind := range scheme.AllKnownTypes() {
		if kind.Kind == configKind && kind.Version != runtime.APIVersionInternal {
			want = append(want, kind.GroupVersion().String())
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(configVersions)); !slices.Equal(got, want) {
		t.Errorf("versions of %s are %q, upstream's are %q", configKind, got, want)
	}
}
