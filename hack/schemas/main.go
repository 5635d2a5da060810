// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Command schemas writes the JSON Schemas of docs/schemas, one for each file format, so that editors
// complete and check files:
//
//	go run ./hack/schemas
//
// The schemas are made from the source of the Go types into which the files are decoded. A field's comment
// is its description, and the constants of a type are the values that it can have. A comment adds what the
// type doesn't say, as JSON, to the schema of a field:
//
//	// QPS is the number of tokens that a bucket gets each second.
//	//
//	//schema:required
//	//schema:minimum 1
//	QPS int32 `json:"qps"`
//
// The comment of a plugin's Descriptor names the type of its configuration, the kind if it has one, and the
// apiVersions of the kind. A plugin with several kinds has several such lines:
//
//	//schema:configuration configuration PodSecurityConfiguration pod-security.admission.config.k8s.io/v1
//
// Most of the types are not exported, so that libraries which make schemas by reflection can't read them.
// The tests compare the verdicts of the schemas with those of the program.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// folder is the directory of the schemas, in the repository.
const folder = "docs/schemas"

func main() {
	if err := write(); err != nil {
		fmt.Fprintf(os.Stderr, "schemas: %v\n", err)
		os.Exit(1)
	}
}

// write writes all schemas.
func write() error {
	top, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	root := strings.TrimSpace(string(top))
	all, err := generate(root)
	if err != nil {
		return err
	}
	for name, s := range all {
		data, err := encode(s)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, folder, name+".json"), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// encode returns the content of a schema's file.
func encode(s schema) ([]byte, error) {
	data, err := json.MarshalIndent(s, "", "  ")
	return append(data, '\n'), err
}
