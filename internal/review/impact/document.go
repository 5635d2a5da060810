// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"bytes"
	"encoding/json"
	"io"

	"sigs.k8s.io/yaml"
)

// A Document is a report in JSON or YAML, without its results, which follow as its last field.
type Document struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Summary    Summary `json:"summary"`
	// Errors are the reasons why the report is no all-clear, whatever its results are.
	Errors []Problem `json:"errors,omitempty"`
	Notes  []string  `json:"notes"`
}

func (r *Report) document() *Document {
	return &Document{APIVersion, r.kind, r.summary, r.problems, append([]string{}, r.notes...)}
}

// json writes the report as a document in JSON. It holds one result at a time.
func (r *Report) json(w io.Writer) error {
	var head bytes.Buffer
	encoder := json.NewEncoder(&head)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r.document()); err != nil {
		return err
	}
	if _, err := w.Write(bytes.TrimSuffix(head.Bytes(), []byte("\n}\n"))); err != nil {
		return err
	}
	before, end := ",\n  \"results\": [\n    ", ",\n  \"results\": []\n}\n"
	var indented bytes.Buffer
	for line, err := range r.results.lines() {
		if err != nil {
			return err
		}
		indented.Reset()
		indented.WriteString(before)
		if err := json.Indent(&indented, line, "    ", "  "); err != nil {
			return err
		}
		if _, err := w.Write(indented.Bytes()); err != nil {
			return err
		}
		before, end = ",\n    ", "\n  ]\n}\n"
	}
	_, err := io.WriteString(w, end)
	return err
}

// yaml writes the report as a document in YAML. It holds one result at a time.
func (r *Report) yaml(w io.Writer) error {
	head, err := yaml.Marshal(r.document())
	if err != nil {
		return err
	}
	before := string(head) + "results:\n"
	for line, err := range r.results.lines() {
		if err != nil {
			return err
		}
		element, err := yaml.JSONToYAML(append(append([]byte("["), line...), ']'))
		if err != nil {
			return err
		}
		if _, err := io.WriteString(w, before+string(element)); err != nil {
			return err
		}
		before = ""
	}
	if before != "" {
		before = string(head) + "results: []\n"
	}
	_, err = io.WriteString(w, before)
	return err
}
