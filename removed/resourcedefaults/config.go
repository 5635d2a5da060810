// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package resourcedefaults

import (
	"encoding/json"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/plugin/pluginconfig"
)

const (
	configVersion = "gatehouse.dev/v1alpha1"
	configKind    = "ResourceDefaultsConfiguration"

	defaultMemory = "512Mi"
	defaultCPU    = "1"
)

// configuration holds the configuration of the plugin. Quantities are kept as they were written, so
// that an error can name the field of a wrong one.
type configuration struct {
	// Memory is the default for containers that don't state memory; 512Mi if it isn't set.
	//
	//schema:type ["string", "number"]
	//schema:pattern "^\\+?[0-9.]*[1-9][0-9.]*([eE][-+]?[0-9]+|[numkKMGTPE]?i?)$"
	//schema:exclusiveMinimum 0
	//schema:default "512Mi"
	Memory json.RawMessage `json:"memory,omitempty"`
	// CPU is the default for containers that don't state cpu; 1 if it isn't set.
	//
	//schema:type ["string", "number"]
	//schema:pattern "^\\+?[0-9.]*[1-9][0-9.]*([eE][-+]?[0-9]+|[numkKMGTPE]?i?)$"
	//schema:exclusiveMinimum 0
	//schema:default 1
	CPU json.RawMessage `json:"cpu,omitempty"`
}

// load reads the configuration, as YAML or JSON. Without one, or with an empty one, the quantities
// are the defaults.
func load(config io.Reader) ([]resourceDefault, error) {
	var c configuration
	if _, err := pluginconfig.Object(name, config, configVersion, configKind, &c); err != nil {
		return nil, err
	}
	memory, memoryErr := quantity(field.NewPath("memory"), c.Memory, defaultMemory)
	cpu, cpuErr := quantity(field.NewPath("cpu"), c.CPU, defaultCPU)
	if err := utilerrors.NewAggregate([]error{memoryErr, cpuErr}); err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w", name, err)
	}
	return []resourceDefault{{corev1.ResourceMemory, memory}, {corev1.ResourceCPU, cpu}}, nil
}

// quantity returns the quantity that was written, or byDefault if none was.
func quantity(path *field.Path, written json.RawMessage, byDefault string) (resource.Quantity, error) {
	if written == nil || string(written) == "null" {
		return resource.MustParse(byDefault), nil
	}
	var text any = string(written)
	var unquoted string
	if json.Unmarshal(written, &unquoted) == nil {
		text = unquoted
	}
	var parsed resource.Quantity
	if err := parsed.UnmarshalJSON(written); err != nil {
		return parsed, field.Invalid(path, text, err.Error())
	}
	if parsed.Sign() <= 0 {
		return parsed, field.Invalid(path, text, "must be greater than zero")
	}
	return parsed, nil
}
