// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podpreset

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// merge returns a copy of spec with the presets' content, or the conflicts if there are any. It
// doesn't change spec.
func merge(spec *corev1.PodSpec, presets []preset) (*corev1.PodSpec, []string) {
	var conflicts []string
	merged := *spec
	merged.Volumes = mergeVolumes(spec.Volumes, presets, &conflicts)
	merged.InitContainers = mergeContainers(spec.InitContainers, presets, &conflicts)
	merged.Containers = mergeContainers(spec.Containers, presets, &conflicts)
	return &merged, conflicts
}

func mergeContainers(containers []corev1.Container, presets []preset, conflicts *[]string) []corev1.Container {
	merged := slices.Clone(containers)
	for i := range merged {
		c := &merged[i]
		c.Env = mergeEnv(c.Name, c.Env, presets, conflicts)
		c.EnvFrom = mergeEnvFrom(c.Name, c.EnvFrom, presets, conflicts)
		c.VolumeMounts = mergeMounts(c.Name, c.VolumeMounts, presets, conflicts)
	}
	return merged
}

func mergeVolumes(volumes []corev1.Volume, presets []preset, conflicts *[]string) []corev1.Volume {
	merged := slices.Clone(volumes)
	for _, p := range presets {
		for _, volume := range p.Spec.Volumes {
			i := slices.IndexFunc(merged, func(other corev1.Volume) bool { return other.Name == volume.Name })
			switch {
			case i < 0:
				merged = append(merged, *volume.DeepCopy())
			case !apiequality.Semantic.DeepEqual(merged[i], volume):
				*conflicts = append(*conflicts,
					conflict("volumes", p, "on "+volume.Name, volume, merged[i], "in the pod"))
			}
		}
	}
	return merged
}

func mergeEnv(container string, env []corev1.EnvVar, presets []preset, conflicts *[]string) []corev1.EnvVar {
	merged := slices.Clone(env)
	for _, p := range presets {
		for _, variable := range p.Spec.Env {
			// The last of several variables with the same name counts.
			i := lastIndex(merged, func(other corev1.EnvVar) bool { return other.Name == variable.Name })
			switch {
			case i < 0:
				merged = append(merged, *variable.DeepCopy())
			case !apiequality.Semantic.DeepEqual(merged[i], variable):
				*conflicts = append(*conflicts,
					conflict("env", p, "on "+variable.Name, variable, merged[i], "in container "+container))
			}
		}
	}
	return merged
}

// sourceKey identifies a source of variables. Two sources with the same key may differ only in
// whether they must exist.
type sourceKey struct{ prefix, configMap, secret string }

func keyOf(source corev1.EnvFromSource) sourceKey {
	key := sourceKey{prefix: source.Prefix}
	if source.ConfigMapRef != nil {
		key.configMap = source.ConfigMapRef.Name
	}
	if source.SecretRef != nil {
		key.secret = source.SecretRef.Name
	}
	return key
}

func mergeEnvFrom(container string, sources []corev1.EnvFromSource, presets []preset,
	conflicts *[]string) []corev1.EnvFromSource {
	merged := slices.Clone(sources)
	for _, p := range presets {
		for _, source := range p.Spec.EnvFrom {
			i := lastIndex(merged, func(other corev1.EnvFromSource) bool { return keyOf(other) == keyOf(source) })
			switch {
			case i < 0:
				merged = append(merged, *source.DeepCopy())
			case !apiequality.Semantic.DeepEqual(merged[i], source):
				*conflicts = append(*conflicts,
					conflict("envFrom", p, "", source, merged[i], "in container "+container))
			}
		}
	}
	return merged
}

func mergeMounts(container string, mounts []corev1.VolumeMount, presets []preset,
	conflicts *[]string) []corev1.VolumeMount {
	merged := slices.Clone(mounts)
	for _, p := range presets {
		before := len(merged) // a preset may mount a volume at several paths
		for _, mount := range p.Spec.VolumeMounts {
			same := func(other corev1.VolumeMount) bool { return apiequality.Semantic.DeepEqual(other, mount) }
			if slices.ContainsFunc(merged, same) {
				continue
			}
			at := slices.IndexFunc(merged,
				func(other corev1.VolumeMount) bool { return other.MountPath == mount.MountPath })
			of := slices.IndexFunc(merged[:before],
				func(other corev1.VolumeMount) bool { return other.Name == mount.Name })
			switch {
			case of >= 0:
				*conflicts = append(*conflicts,
					conflict("volume mounts", p, "on "+mount.Name, mount, merged[of], "in container "+container))
			case at >= 0:
				*conflicts = append(*conflicts, conflict("volume mounts", p, "on mount path "+mount.MountPath, mount,
					merged[at], "in container "+container))
			default:
				merged = append(merged, *mount.DeepCopy())
			}
		}
	}
	return merged
}

func lastIndex[T any](all []T, is func(T) bool) int {
	for i, one := range slices.Backward(all) {
		if is(one) {
			return i
		}
	}
	return -1
}

// conflict returns a message that a field of the pod already has another content than the preset's.
// The message begins with Kubernetes' words.
func conflict(field string, p preset, on string, wanted, found any, where string) string {
	if on != "" {
		on = " " + on
	}
	return fmt.Sprintf("merging %s for %s has a conflict%s: %s does not match %s %s", field, p.Name, on, asJSON(wanted),
		asJSON(found), where)
}

func asJSON(value any) string {
	content, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(content)
}
