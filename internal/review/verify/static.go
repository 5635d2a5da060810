// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/internal/configfile"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugin/pluginconfig"
)

// staticManifests returns the webhooks and policies that plugins read from files, in the directories
// that their configurations name as staticManifestsDir. The server has accepted them before.
func staticManifests(plugins []plugin.Descriptor, admission *config.Options) ([]input.Document, error) {
	selected, config, err := admission.Load(plugins)
	if err != nil {
		return nil, err
	}
	var all []input.Document
	for _, plugin := range selected {
		reader := config.For(plugin.Name)
		if reader == nil {
			continue
		}
		document, err := configfile.Document(reader)
		if err != nil {
			return nil, fmt.Errorf("the configuration of %s: %w", plugin.Name, err)
		}
		var content struct {
			StaticManifestsDir string `json:"staticManifestsDir"`
		}
		// A plugin whose configuration isn't of that form has none.
		if configfile.Lenient(document, &content) != nil || content.StaticManifestsDir == "" {
			continue
		}
		dir := relativeToHere(pluginconfig.Path(reader, content.StaticManifestsDir))
		documents, errs := input.Read([]string{dir}, nil)
		if len(errs) > 0 {
			return nil, errors.Join(errs...)
		}
		for _, d := range documents {
			if filepath.Dir(d.Source.File) == dir { // the plugin doesn't read directories below it
				all = append(all, d)
			}
		}
	}
	return all, nil
}

// relativeToHere returns a path as the state's files are named: relative to the working directory if
// it is below that.
func relativeToHere(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	relative, err := filepath.Rel(here, path)
	if err != nil || relative == ".." || strings.HasPrefix(relative, ".."+string(filepath.Separator)) {
		return path
	}
	return relative
}
