// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package chartrun

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gatehouse.dev/test/servertest"
)

// volume is a directory with what a volume of the pod has in it.
func (n *Node) volume(t testing.TB, pod *corev1.Pod, name string) string {
	t.Helper()
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if i < 0 {
		t.Fatalf("there is no volume %q", name)
	}
	files := map[string]string{}
	switch v := pod.Spec.Volumes[i]; {
	case v.ConfigMap != nil:
		n.fromConfigMap(t, pod, v.ConfigMap.Name, v.ConfigMap.Items, files)
	case v.Projected != nil:
		for _, source := range v.Projected.Sources {
			switch {
			case source.ServiceAccountToken != nil:
				files[source.ServiceAccountToken.Path] = n.token(t, pod, source.ServiceAccountToken)
			case source.ConfigMap != nil:
				n.fromConfigMap(t, pod, source.ConfigMap.Name, source.ConfigMap.Items, files)
			case source.DownwardAPI != nil:
				for _, item := range source.DownwardAPI.Items {
					if item.FieldRef == nil || item.FieldRef.FieldPath != "metadata.namespace" {
						t.Fatalf("a file of %v can't be made", item)
					}
					files[item.Path] = pod.Namespace
				}
			default:
				t.Fatalf("a volume of %v can't be made", source)
			}
		}
	default:
		t.Fatalf("a volume of %v can't be made", v.VolumeSource)
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		file := filepath.Join(dir, name)
		// A token is for the user of the pod alone.
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(file, int(*pod.Spec.SecurityContext.RunAsUser),
			int(*pod.Spec.SecurityContext.RunAsGroup)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (n *Node) fromConfigMap(t testing.TB, pod *corev1.Pod, name string, items []corev1.KeyToPath,
	files map[string]string) {
	t.Helper()
	var found *corev1.ConfigMap
	servertest.Retry(t, "ConfigMap "+name, func() (err error) { // that of the authority comes with its namespace
		found, err = n.client.CoreV1().ConfigMaps(pod.Namespace).Get(t.Context(), name, metav1.GetOptions{})
		return err
	})
	if items == nil {
		for key, value := range found.Data {
			files[key] = value
		}
	}
	for _, item := range items {
		files[item.Path] = found.Data[item.Key]
	}
}

// token is one of the pod's service account, bound to the pod.
func (n *Node) token(t testing.TB, pod *corev1.Pod, want *corev1.ServiceAccountTokenProjection) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: want.ExpirationSeconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name,
			UID: pod.UID},
	}}
	if want.Audience != "" {
		request.Spec.Audiences = []string{want.Audience}
	}
	made, err := n.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(t.Context(), pod.Spec.ServiceAccountName,
		request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Status.Token
}
