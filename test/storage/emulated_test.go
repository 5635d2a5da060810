// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package storage_test

import (
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"gatehouse.dev/test/servertest"
)

// Volume attributes classes are kept where the version that the server is like does so, or the
// feature gate of that version says so; else they go at once. Claims and volumes are kept anyway.
func TestProtectionInOlderVersions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		flags []string
		kept  bool
	}{
		"1.35": {[]string{"--emulated-version=1.35"}, true},
		"1.35 without the gate": {[]string{"--emulated-version=1.35", "--feature-gates=VolumeAttributesClass=false"},
			false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := servertest.NewProcess(t, test.flags...)
			p.Start(t)
			c := p.Connect(t)
			claim := must(c.Client.CoreV1().PersistentVolumeClaims(c.Namespace(t, nil)).Create(t.Context(),
				newClaim("c"), metav1.CreateOptions{}))(t)
			volume := must(c.Client.CoreV1().PersistentVolumes().Create(t.Context(), newVolume("v"),
				metav1.CreateOptions{}))(t)
			if len(claim.Finalizers) != 1 || len(volume.Finalizers) != 1 {
				t.Errorf("finalizers of a claim %q, of a volume %q", claim.Finalizers, volume.Finalizers)
			}
			classes := c.Dynamic.Resource(schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1",
				Resource: "volumeattributesclasses"})
			class := must(classes.Create(t.Context(), servertest.Parsed(t, `{apiVersion: storage.k8s.io/v1, kind: VolumeAttributesClass, metadata: {name: fast}, driverName: example.com/disk, parameters: `+
				`{a: b}}`),
				metav1.CreateOptions{}))(t)
			var want []string
			if test.kept {
				want = []string{"kubernetes.io/vac-protection"}
			}
			if !slices.Equal(class.GetFinalizers(), want) {
				t.Errorf("finalizers %q, want %q", class.GetFinalizers(), want)
			}
			must(struct{}{}, classes.Delete(t.Context(), "fast", metav1.DeleteOptions{}))(t)
			switch {
			case test.kept: // nobody uses it: the controller lets it go
				servertest.Eventually(t, "the class to be gone", func() bool {
					_, err := classes.Get(t.Context(), "fast", metav1.GetOptions{})
					return apierrors.IsNotFound(err)
				})
			default:
				if _, err := classes.Get(t.Context(), "fast", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
					t.Errorf("after its deletion: %v", err)
				}
			}
		})
	}
}
