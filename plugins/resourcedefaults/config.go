package resourcedefaults

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	configVersion = "gatehouse.dev/v1alpha1"
	configKind    = "ResourceDefaultsConfiguration"

	defaultMemory = "512Mi"
	defaultCPU    = "1"
)

// configuration is the configuration of the plugin. Quantities are kept as they were written, so that
// what is wrong with one can be said with its field.
type configuration struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Memory is what a container gets that says nothing of memory, 512Mi where this isn't set.
	Memory json.RawMessage `json:"memory,omitempty"`
	// CPU is what a container gets that says nothing of cpu, 1 where this isn't set.
	CPU json.RawMessage `json:"cpu,omitempty"`
}

// load reads the configuration, as YAML or JSON; none, or an empty one, is the seed's defaults.
func load(config io.Reader) ([]resourceDefault, error) {
	var c configuration
	if config != nil {
		content, err := io.ReadAll(config)
		if err != nil {
			return nil, fmt.Errorf("reading the configuration of %s: %w", name, err)
		}
		if len(bytes.TrimSpace(content)) > 0 {
			if c, err = decode(content); err != nil {
				return nil, fmt.Errorf("the configuration of %s: %w", name, err)
			}
		}
	}
	memory, memoryErr := quantity(field.NewPath("memory"), c.Memory, defaultMemory)
	cpu, cpuErr := quantity(field.NewPath("cpu"), c.CPU, defaultCPU)
	if err := utilerrors.NewAggregate([]error{memoryErr, cpuErr}); err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w", name, err)
	}
	return []resourceDefault{{corev1.ResourceMemory, memory}, {corev1.ResourceCPU, cpu}}, nil
}

func decode(content []byte) (c configuration, err error) {
	document, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return c, err
	}
	// Its version and kind first: of another one, its fields would only confuse.
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &c); err != nil {
		return c, explain(err)
	}
	if c.APIVersion != configVersion || c.Kind != configKind {
		return c, fmt.Errorf("is kind %q in apiVersion %q, must be kind %s in apiVersion %s", c.Kind, c.APIVersion, configKind, configVersion)
	}
	c = configuration{}
	strict, err := kjson.UnmarshalStrict(document, &c)
	if err != nil {
		return c, explain(err)
	}
	return c, utilerrors.NewAggregate(strict)
}

// explain says of what type something must be in the words of who wrote it.
func explain(err error) error {
	var mismatch *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &mismatch):
		return err
	case mismatch.Field == "":
		return fmt.Errorf("is of type %s, must be an object", mismatch.Value)
	default:
		return fmt.Errorf("%s: is of type %s, must be a string", mismatch.Field, mismatch.Value)
	}
}

// quantity is the quantity that was written, or byDefault where none was.
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
