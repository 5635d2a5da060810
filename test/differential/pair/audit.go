// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package pair

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"strings"
)

// AuditLogFile is the audit log's name in the server's directory.
const AuditLogFile = "audit.log"

// auditPolicy logs the patches of webhooks, too.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Request}]
`

// ReadAudit returns the annotations in an audit log by the requests' ids, from an offset in the file,
// and the offset of what isn't there yet. If an id was sent several times, its annotations are the
// last ones.
func ReadAudit(file string, offset int64) (map[string]string, int64, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, offset, err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, offset, err
	}
	all, read := map[string]string{}, int64(0)
	for lines := json.NewDecoder(bufio.NewReader(f)); ; read = lines.InputOffset() {
		var event struct {
			AuditID     string         `json:"auditID"`
			Annotations map[string]any `json:"annotations"`
		}
		if err := lines.Decode(&event); err != nil {
			return all, offset + read, nil // its end, or a line that is just being written
		}
		for name := range event.Annotations {
			// The first is of requests that took long, the second Gatehouse's own.
			if strings.HasPrefix(name, "apiserver.latency.k8s.io/") ||
				strings.HasPrefix(name, "admission.gatehouse.dev/") {
				delete(event.Annotations, name)
			}
		}
		normalized, err := json.MarshalIndent(Normalize(event.Annotations), "", " ")
		if err != nil {
			return nil, offset, err
		}
		all[event.AuditID] = string(normalized)
	}
}
