// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package serviceaccount

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/plugin/podspec"
	"gatehouse.dev/plugins/internal/podrefs"
)

// enforceAnnotation turns a service account's lists of Secrets into a limit. Kubernetes deprecated
// it in 1.32, but still honours it.
const enforceAnnotation = "kubernetes.io/enforce-mountable-secrets"

// enforcesSecrets reports whether pods of the account may use only the Secrets that it lists. As
// upstream, a value that isn't a boolean counts as false.
func enforcesSecrets(account *corev1.ServiceAccount) bool {
	text, says := account.Annotations[enforceAnnotation]
	if !says {
		return false
	}
	enforced, _ := strconv.ParseBool(text)
	return enforced
}

// checkSecrets returns what is wrong with the Secrets that a new pod uses, if the account enforces
// its lists: secrets for volumes and containers, imagePullSecrets for images.
func checkSecrets(spec *corev1.PodSpec, account *corev1.ServiceAccount) error {
	for i := range spec.Volumes {
		for secret, field := range podrefs.InVolume(&spec.Volumes[i]) {
			if secret != "" && !lists(account, secret) {
				return fmt.Errorf("volume with %s=%q is not allowed because service account %s does not reference "+
					"that secret", field, secret, account.Name)
			}
		}
	}
	for position, c := range podspec.All(spec) {
		if err := checkContainer(position.List, c, account); err != nil {
			return err
		}
	}
	for i, ref := range spec.ImagePullSecrets {
		if !slices.Contains(account.ImagePullSecrets, ref) {
			return fmt.Errorf("imagePullSecrets[%d].name=%q is not allowed because service account %s does not "+
				"reference that imagePullSecret", i, ref.Name, account.Name)
		}
	}
	return nil
}

// checkEphemeralSecrets returns what is wrong with the Secrets that a pod's ephemeral containers
// use. Everything else was checked when the pod was created.
func checkEphemeralSecrets(spec *corev1.PodSpec, account *corev1.ServiceAccount) error {
	for position, c := range podspec.All(spec) {
		if position.List != podspec.EphemeralContainers {
			continue
		}
		if err := checkContainer(position.List, c, account); err != nil {
			return err
		}
	}
	return nil
}

// kinds holds the words by which messages name the lists of containers.
var kinds = map[string]string{
	podspec.InitContainers:      "init container",
	podspec.Containers:          "container",
	podspec.EphemeralContainers: "ephemeral container",
}

func checkContainer(list string, c *corev1.Container, account *corev1.ServiceAccount) error {
	for secret, where := range podrefs.InContainer(c) {
		if !lists(account, secret) {
			return fmt.Errorf("%s %s with %s referencing secret.secretName=%q is not allowed because service "+
				"account %s does not reference that secret",
				kinds[list], c.Name, where, secret, account.Name)
		}
	}
	return nil
}

func lists(account *corev1.ServiceAccount, secret string) bool {
	return slices.ContainsFunc(account.Secrets, func(ref corev1.ObjectReference) bool { return ref.Name == secret })
}

// checkMirror returns an error if a mirror pod refers to any API object. The first three have
// messages of their own upstream.
func checkMirror(spec *corev1.PodSpec) error {
	switch {
	case spec.ServiceAccountName != "":
		return errors.New("a mirror pod may not reference service accounts")
	case podrefs.UsesSecrets(spec):
		return errors.New("a mirror pod may not reference secrets")
	case projectsToken(spec):
		return errors.New("a mirror pod may not use ServiceAccountToken volume projections")
	}
	resource, err := podrefs.First(spec)
	if err != nil {
		return fmt.Errorf("error checking mirror pod for API references: %w", err)
	}
	if resource != "" {
		return fmt.Errorf("a mirror pod may not reference %s", resource)
	}
	return nil
}

func projectsToken(spec *corev1.PodSpec) bool {
	for i := range spec.Volumes {
		projected := spec.Volumes[i].Projected
		if projected != nil && slices.ContainsFunc(projected.Sources,
			func(s corev1.VolumeProjection) bool { return s.ServiceAccountToken != nil }) {
			return true
		}
	}
	return false
}
