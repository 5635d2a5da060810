// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// results are what is known from all runs.
type results struct {
	Version string            // of Kubernetes
	Specs   map[string]result // the last result of each spec, by text
}

type result struct {
	State, Message string
	Time           time.Duration
}

// loadResults reads the results of earlier runs. There may be none, or none with this version.
func loadResults(file, version string) (*results, error) {
	none := &results{Version: version, Specs: map[string]result{}}
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return nil, err
	}
	var r results
	if err := json.Unmarshal(content, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if r.Version != version {
		return none, nil
	}
	return &r, nil
}

// add adds the results of specs that have just run, and writes all to the file.
func (r *results) add(file string, specs []*spec) error {
	for _, s := range specs {
		if s.state != stateMissing {
			r.Specs[s.text] = result{s.state, s.message, s.time}
		}
	}
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// apply sets the results of the specs that have run.
func (r *results) apply(specs []*spec) {
	for _, s := range specs {
		if known, ok := r.Specs[s.text]; ok {
			s.state, s.message, s.time = known.State, known.Message, known.Time
		}
	}
}
