// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podtolerationrestriction

import (
	"bytes"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/internal/configfile"
	"gatehouse.dev/plugin/pluginconfig"
)

// The configuration has Kubernetes' format or, for settings that it has no field for, our own.
const (
	upstreamVersion = "podtolerationrestriction.admission.k8s.io/v1alpha1"
	upstreamKind    = "Configuration"
	ownVersion      = "gatehouse.dev/v1alpha1"
	ownKind         = name + "Configuration"
)

// lists holds the cluster's lists, for namespaces without their own. Kubernetes' format has only
// these.
type lists struct {
	// Default are the tolerations that the pods of a namespace without its own get.
	//
	//schema:items {"properties": {"operator": {"enum": ["Exists", "Equal", "Lt", "Gt", ""]}}}
	//schema:items {"anyOf": [{"required": ["key"], "properties": {"key": {"minLength": 1}}}, {"required": ["operator"], "properties": {"operator": {"const": "Exists"}}}]}
	//schema:items {"if": {"required": ["tolerationSeconds"]}, "then": {"required": ["effect"], "properties": {"effect": {"const": "NoExecute"}}}}
	Default []corev1.Toleration `json:"default"`
	// Whitelist are the tolerations that the pods of a namespace without its own may have. If it is empty,
	// they may have all.
	//
	//schema:items {"properties": {"operator": {"enum": ["Exists", "Equal", "Lt", "Gt", ""]}}}
	//schema:items {"anyOf": [{"required": ["key"], "properties": {"key": {"minLength": 1}}}, {"required": ["operator"], "properties": {"operator": {"const": "Exists"}}}]}
	//schema:items {"if": {"required": ["tolerationSeconds"]}, "then": {"required": ["effect"], "properties": {"effect": {"const": "NoExecute"}}}}
	Whitelist []corev1.Toleration `json:"whitelist"`
}

type configuration struct {
	lists
	// Conflicts says what happens to a pod whose tolerations contradict the default ones. It defaults to
	// Reject.
	//
	//schema:default "Reject"
	Conflicts conflictPolicy `json:"conflicts"`
}

// conflictPolicy says what happens to a pod whose tolerations contradict the default ones.
type conflictPolicy string

const (
	rejectConflicts conflictPolicy = "Reject"
	mergeConflicts  conflictPolicy = "Merge"
)

func load(config io.Reader) (configuration, error) {
	c := configuration{Conflicts: rejectConflicts}
	if config == nil {
		return c, nil
	}
	content, err := io.ReadAll(config)
	if err != nil {
		return c, fmt.Errorf("reading the configuration of %s: %w", name, err)
	}
	if isOwn(content) {
		_, err = pluginconfig.Object(name, bytes.NewReader(content), ownVersion, ownKind, &c)
	} else {
		_, err = pluginconfig.Object(name, bytes.NewReader(content), upstreamVersion, upstreamKind, &c.lists)
	}
	if err != nil {
		return configuration{}, err
	}
	errs := append(validate(c.Default, field.NewPath("default")), validate(c.Whitelist, field.NewPath("whitelist"))...)
	switch c.Conflicts {
	case rejectConflicts, mergeConflicts:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("conflicts"), c.Conflicts,
			[]conflictPolicy{mergeConflicts, rejectConflicts}))
	}
	if len(errs) > 0 {
		return configuration{}, fmt.Errorf("the configuration of %s: %w", name, errs.ToAggregate())
	}
	return c, nil
}

// isOwn reports whether a configuration is of our own kind. It returns false if the configuration
// can't be read.
func isOwn(content []byte) bool {
	document, err := configfile.Document(bytes.NewReader(content))
	if err != nil {
		return false
	}
	var meta configfile.Meta
	return configfile.Lenient(document, &meta) == nil && meta.Kind == ownKind
}
