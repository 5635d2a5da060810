package pluginconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Object reads the configuration of a plugin that has one: an object of this apiVersion and kind, as YAML or JSON, into the struct that
// into points to, whose fields carry json tags and are left as they are where the configuration doesn't say them. given is false where
// there is no configuration, or a blank one. It is strict: a field that is unknown, repeated or of another type is an error, which
// names the plugin and the field. The fields apiVersion and kind are not into's business.
func Object(plugin string, config io.Reader, apiVersion, kind string, into any) (given bool, err error) {
	return read(plugin, config, func(document []byte) error { return decodeObject(document, apiVersion, kind, into) })
}

// Fields reads, as Object does, a configuration whose format is older than the convention that says its apiVersion and kind.
func Fields(plugin string, config io.Reader, into any) (given bool, err error) {
	return read(plugin, config, func(document []byte) error { return decodeFields(document, into) })
}

// read gives the configuration to decode, in JSON, unless there is none.
func read(plugin string, config io.Reader, decode func(document []byte) error) (given bool, err error) {
	if config == nil {
		return false, nil
	}
	content, err := io.ReadAll(config)
	if err != nil {
		return false, fmt.Errorf("reading the configuration of %s: %w", plugin, err)
	}
	if len(bytes.TrimSpace(content)) == 0 {
		return false, nil
	}
	document, err := yaml.YAMLToJSONStrict(content)
	if err == nil {
		err = decode(document)
	}
	if err != nil {
		return false, fmt.Errorf("the configuration of %s: %w", plugin, err)
	}
	return true, nil
}

func decodeObject(document []byte, apiVersion, kind string, into any) error {
	// Its version and kind first: of another one, its fields would only confuse.
	var meta struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &meta); err != nil {
		return explain(err)
	}
	if meta.APIVersion != apiVersion || meta.Kind != kind {
		return fmt.Errorf("is kind %q in apiVersion %q, must be kind %s in apiVersion %s", meta.Kind, meta.APIVersion, kind, apiVersion)
	}
	var fields map[string]json.RawMessage
	if err := kjson.UnmarshalCaseSensitivePreserveInts(document, &fields); err != nil {
		return explain(err)
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	document, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return decodeFields(document, into)
}

func decodeFields(document []byte, into any) error {
	strict, err := kjson.UnmarshalStrict(document, into)
	if err != nil {
		return explain(err)
	}
	return utilerrors.NewAggregate(strict)
}

// explain says of what type something must be in the words of who wrote it.
func explain(err error) error {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return err
	}
	if mismatch.Field == "" {
		return fmt.Errorf("is of type %s, must be an object", mismatch.Value)
	}
	must := "an object"
	switch mismatch.Type.Kind() {
	case reflect.String:
		must = "a string"
	case reflect.Bool:
		must = "true or false"
	case reflect.Slice, reflect.Array:
		must = "a list"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		must = "a whole number"
	case reflect.Float32, reflect.Float64:
		must = "a number"
	}
	return fmt.Errorf("%s: is of type %s, must be %s", mismatch.Field, mismatch.Value, must)
}
