// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	podsecurity "k8s.io/pod-security-admission/api"

	"gatehouse.dev/internal/nearest"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/plugin"
)

// startCandidate starts the candidate's judge with the state alone.
func startCandidate(ctx context.Context, options *TrialOptions) (*Judge, error) {
	level := options.PodSecurity[""]
	if level == "" {
		return startJudge(ctx, options.Options, options.Quotas)
	}
	if options.Config.Admission.ConfigFile != "" {
		return nil, fmt.Errorf("%s: %s can't have another level besides: set it in that file",
			options.Config.Admission.ConfigFile, PodSecurityPlugin(options.Config.Plugins))
	}
	file, err := os.CreateTemp("", "gatehouse-pod-security-*.yaml") // whose mode is 0600
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	_, err = fmt.Fprintf(file, podSecurityConfiguration, PodSecurityPlugin(options.Config.Plugins), level)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	config := *options.Config
	config.Admission.ConfigFile, options.Config = file.Name(), &config
	return startJudge(ctx, options.Options, options.Quotas)
}

// podSecurityConfiguration is the configuration of PodSecurity with a level for namespaces without a
// label.
const podSecurityConfiguration = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: %s
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: %s, enforce-version: latest}
`

// PodSecurityPlugin returns the name of the plugin that enforces Pod Security Standards; empty if there is
// none.
func PodSecurityPlugin(list []plugin.Descriptor) string {
	names := enforcing(list, func(e plugin.Enforced) bool {
		return e.Labels != "" && strings.HasPrefix(podsecurity.EnforceLevelLabel, e.Labels)
	})
	return strings.Join(names, "")
}

// labelNamespaces gives namespaces of the candidate a label with their level. It adds a note about those that a level for
// all namespaces leaves out, because they have a label, or takes the labels away if the options say so.
func (t *Trial) labelNamespaces(ctx context.Context, o *TrialOptions) error {
	namespaces, err := t.candidate.reviewer.objectsOf(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err != nil {
		return err
	}
	var names, labelled []string
	for _, namespace := range namespaces {
		names = append(names, namespace.GetName())
		if _, ok := namespace.GetLabels()[podsecurity.EnforceLevelLabel]; !ok || o.PodSecurity[""] == "" {
			continue
		}
		labelled = append(labelled, namespace.GetName())
		if o.PodSecurityOverride {
			if err := t.relabel(ctx, namespace, ""); err != nil {
				return err
			}
		}
	}
	if len(labelled) > 0 && !o.PodSecurityOverride {
		t.notes = append(t.notes, fmt.Sprintf("namespaces that have a label for a Pod Security level, for which %s isn't tried: %d "+
			"of %d, such as %s; --pod-security-override tries it for all", o.PodSecurity[""], len(labelled), len(names), labelled[0]))
	}
	for _, name := range slices.Sorted(maps.Keys(o.PodSecurity)) {
		if name == "" {
			continue
		}
		i := slices.Index(names, name)
		if i < 0 {
			if o.Live != nil {
				return unknownNamespaceError(name, o.PodSecurity[name], names)
			}
			t.assumed = append(t.assumed, name)
			namespaces, i = append(namespaces, newNamespace(name)), len(namespaces)
			if err := t.Load(ctx, []input.Document{{Object: newNamespace(name)}}); err != nil {
				return err
			}
		}
		if err := t.relabel(ctx, namespaces[i], o.PodSecurity[name]); err != nil {
			return err
		}
	}
	return nil
}

// relabel gives a namespace of the candidate the label for a Pod Security level, or takes it away if the level is empty.
func (t *Trial) relabel(ctx context.Context, namespace *unstructured.Unstructured, level string) error {
	labels := maps.Clone(namespace.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	if labels[podsecurity.EnforceLevelLabel] = level; level == "" {
		delete(labels, podsecurity.EnforceLevelLabel)
		delete(labels, podsecurity.EnforceVersionLabel)
	}
	object := newNamespace(namespace.GetName())
	object.SetLabels(labels)
	object.SetAnnotations(namespace.GetAnnotations())
	if err := t.candidate.reviewer.Load(ctx, []input.Document{{Object: object}}); err != nil {
		return fmt.Errorf("labelling namespace %s with its Pod Security level: %w", namespace.GetName(), err)
	}
	return nil
}

// unknownNamespaceError returns the error of a level for a namespace that doesn't exist.
func unknownNamespaceError(name, level string, names []string) error {
	return fmt.Errorf("--pod-security: %s=%s: there is no namespace %s%s", name, level, name, nearest.Meant(name, names))
}

// checkAssumed returns an error if a level is for a namespace that neither the state has nor anything that was judged is
// in.
func (t *Trial) checkAssumed(met map[string]bool) error {
	for _, name := range t.assumed {
		if _, ok := met[name]; !ok {
			return unknownNamespaceError(name, t.options.PodSecurity[name], slices.Sorted(maps.Keys(met)))
		}
	}
	return nil
}
