package serviceaccount

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/storage/names"
)

const (
	// volumePrefix is what the names of token volumes begin with.
	volumePrefix = "kube-api-access-"
	// tokenPath is where client libraries look for the token: rest.InClusterConfig of client-go,
	// for one.
	tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenSeconds is how long a token lasts before clients that don't read the new one are to be
	// noticed. By this very number the API server recognizes the tokens of these volumes, and lets
	// them last longer: WarnOnlyBoundTokenExpirationSeconds of
	// k8s.io/kubernetes/pkg/serviceaccount.
	tokenSeconds = 60*60 + 7
	// rootCA is the ConfigMap in every namespace by which pods trust the API server, and the key
	// and file of the certificate in it.
	rootCA, rootCAFile = "kube-root-ca.crt", "ca.crt"
)

// wantsToken tells whether a pod gets a token: the pod decides or, if it doesn't, its account.
func wantsToken(pod *corev1.Pod, account *corev1.ServiceAccount) bool {
	switch {
	case pod.Spec.AutomountServiceAccountToken != nil:
		return *pod.Spec.AutomountServiceAccountToken
	case account.AutomountServiceAccountToken != nil:
		return *account.AutomountServiceAccountToken
	}
	return true
}

// mountToken mounts the token volume in all containers that have nothing at its path, and adds the
// volume if any has it from here. A volume that is there already, from an earlier run or from who
// copied a pod, serves.
func mountToken(spec *corev1.PodSpec) {
	volume, present := "", false
	for i := range spec.Volumes {
		if strings.HasPrefix(spec.Volumes[i].Name, volumePrefix) {
			volume, present = spec.Volumes[i].Name, true
			break
		}
	}
	mounted := false
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			if slices.ContainsFunc(c.VolumeMounts,
				func(m corev1.VolumeMount) bool { return m.MountPath == tokenPath }) {
				continue
			}
			if volume == "" {
				volume = names.SimpleNameGenerator.GenerateName(volumePrefix)
			}
			c.VolumeMounts = append(c.VolumeMounts,
				corev1.VolumeMount{Name: volume, ReadOnly: true, MountPath: tokenPath})
			mounted = true
		}
	}
	if mounted && !present {
		spec.Volumes = append(spec.Volumes,
			corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{Projected: tokenSource()}})
	}
}

// tokenSource is what the token volume is projected from.
func tokenSource() *corev1.ProjectedVolumeSource {
	return &corev1.ProjectedVolumeSource{
		DefaultMode: new(corev1.ProjectedVolumeSourceDefaultMode),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token",
				ExpirationSeconds: new(int64(tokenSeconds))}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: rootCA},
				Items:                []corev1.KeyToPath{{Key: rootCAFile, Path: rootCAFile}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path:     "namespace",
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}
}
