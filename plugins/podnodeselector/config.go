// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package podnodeselector

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"gatehouse.dev/plugin/pluginconfig"
)

// clusterDefault is the only key of the configuration that isn't a namespace. No namespace can have
// this name.
const clusterDefault = "clusterDefaultNodeSelector"

// fileFormat holds the configuration as it is written.
type fileFormat struct {
	// Selectors has the whitelist of each namespace, by its name: the labels that the node selectors of its
	// pods may have, written as env=test,zone=b.
	//
	// The values are any, so that an error can name the one that isn't a string.
	//
	//schema:properties {"clusterDefaultNodeSelector": {"type": "string", "pattern": "^([^=,]+=[^=,]*(,[^=,]+=[^=,]*)*)?$", "description": "The node selector of namespaces without one, written as env=test,zone=b."}}
	//schema:propertyNames {"pattern": "^(clusterDefaultNodeSelector|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$", "maxLength": 63}
	//schema:additionalProperties {"type": "string", "pattern": "^([^=,]+=[^=,]*(,[^=,]+=[^=,]*)*)?$"}
	Selectors map[string]any `json:"podNodeSelectorPluginConfig"`
}

// selectors holds the configuration.
type selectors struct {
	// clusterDefault is the node selector of namespaces that have none.
	clusterDefault labels.Set
	// whitelists holds, by namespace, the labels that the node selectors of its pods may have.
	whitelists map[string]labels.Set
}

// load reads the configuration, whose format has neither kind nor version. A missing configuration
// is the same as an empty one.
func load(config io.Reader) (*selectors, error) {
	var content fileFormat
	if _, err := pluginconfig.Fields(name, config, &content); err != nil {
		return nil, err
	}
	loaded := &selectors{whitelists: map[string]labels.Set{}}
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(content.Selectors)) {
		path := field.NewPath("podNodeSelectorPluginConfig").Key(key)
		if wrong := apivalidation.ValidateNamespaceName(key, false); key != clusterDefault && len(wrong) > 0 {
			errs = append(errs, field.Invalid(path, key,
				fmt.Sprintf("must be %s or the name of a namespace: %s", clusterDefault, strings.Join(wrong, "; "))))
			continue
		}
		text, ok := content.Selectors[key].(string)
		if !ok && content.Selectors[key] != nil {
			errs = append(errs, field.TypeInvalid(path, content.Selectors[key], "must be a string"))
			continue
		}
		selector, err := parse(text, path)
		switch {
		case err != nil:
			errs = append(errs, err)
		case key == clusterDefault:
			loaded.clusterDefault = selector
		default:
			loaded.whitelists[key] = selector
		}
	}
	if err := errs.ToAggregate(); err != nil {
		return nil, fmt.Errorf("the configuration of %s: %w", name, err)
	}
	return loaded, nil
}
