package pluginconfig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"gatehouse.dev/internal/configfile"
)

// Object reads the configuration of a plugin that has one: an object of this apiVersion and kind,
// as YAML or JSON, into the struct that into points to, whose fields carry json tags and are left
// as they are where the configuration doesn't say them. given is false where there is no
// configuration, or a blank one. It is strict: a field that is unknown, repeated or of another type
// is an error, which names the plugin and the field, and so is a second document. The fields
// apiVersion and kind are not into's business.
func Object(plugin string, config io.Reader, apiVersion, kind string, into any) (given bool, err error) {
	return Versions(plugin, config, []string{apiVersion}, kind, into)
}

// Versions is Object for a configuration that several apiVersions have, none of which differs from
// the others in its fields. The first is the one to write.
func Versions(plugin string, config io.Reader, apiVersions []string, kind string, into any) (given bool, err error) {
	return read(plugin, config, func(document []byte) error { return decodeObject(document, apiVersions, kind, into) })
}

// Fields reads, as Object does, a configuration whose format is older than the convention that says
// its apiVersion and kind.
func Fields(plugin string, config io.Reader, into any) (given bool, err error) {
	return read(plugin, config, func(document []byte) error { return configfile.Strict(document, into) })
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
	document, err := configfile.Document(bytes.NewReader(content))
	if err == nil {
		err = decode(document)
	}
	if err != nil {
		return false, fmt.Errorf("the configuration of %s: %w", plugin, err)
	}
	return true, nil
}

func decodeObject(document []byte, apiVersions []string, kind string, into any) error {
	// Its version and kind first: of another one, its fields would only confuse.
	var meta configfile.Meta
	if err := configfile.Lenient(document, &meta); err != nil {
		return err
	}
	if !slices.Contains(apiVersions, meta.APIVersion) || meta.Kind != kind {
		return fmt.Errorf("is kind %q in apiVersion %q, must be kind %s in apiVersion %s", meta.Kind, meta.APIVersion,
			kind, apiVersions[0])
	}
	var fields map[string]json.RawMessage
	if err := configfile.Lenient(document, &fields); err != nil {
		return err
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	document, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	return configfile.Strict(document, into)
}
