// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"github.com/google/uuid"
)

// writeSBOM writes what the program is made of, as its own list says: all modules with their versions
// and checksums, and Go. The serial number is computed from the program, and the time is that of the
// commit, so that the same program has the same SBOM.
func writeSBOM(tools map[string]string, p program, binary []byte, file string) error {
	sum := sha256.Sum256(binary)
	serial := uuid.NewSHA1(uuid.NameSpaceURL, append([]byte("https://gatehouse.dev/"), sum[:]...))
	made, err := output(exec.Command(tools["cyclonedx-gomod"], "bin", "-json", "-std", "-notimestamp", "-serial="+serial.String(),
		"-version=v"+p.version, p.file))
	if err != nil {
		return err
	}
	var sbom map[string]any
	if err := json.Unmarshal(made, &sbom); err != nil {
		return fmt.Errorf("reading what cyclonedx-gomod wrote of %s: %w", p.file, err)
	}
	metadata, _ := sbom["metadata"].(map[string]any)
	used, _ := metadata["tools"].([]any)
	if len(used) == 0 {
		return fmt.Errorf("what cyclonedx-gomod wrote of %s doesn't name the tool", p.file)
	}
	// The checksums of cyclonedx-gomod itself depend on the machine that compiled it.
	for _, tool := range used {
		if tool, ok := tool.(map[string]any); ok {
			delete(tool, "hashes")
		}
	}
	metadata["timestamp"] = p.time.UTC().Format(time.RFC3339)
	content, err := json.MarshalIndent(sbom, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(file, append(content, '\n'))
}
