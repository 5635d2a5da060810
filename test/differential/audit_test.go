package differential

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"gatehouse.dev/test/peers"
)

// auditLogFile is the audit log's name in the server's directory.
const auditLogFile = "audit.log"

// auditPolicy logs the patches of webhooks, too.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Request}]
`

// awaitAuditAnnotations waits until the audit log has the request with the id last. It returns the
// log's annotations by the requests' ids. If an id was sent several times, its annotations are the
// last ones.
func (s testServer) awaitAuditAnnotations(ctx context.Context, t *testing.T, last string) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		annotations := readAudit(t, s.auditLog)
		if _, ok := annotations[last]; ok {
			return annotations
		}
		select {
		case <-time.After(peers.PollInterval):
		case <-ctx.Done():
			t.Fatalf("the audit log never has %s", last)
		}
	}
}

func readAudit(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string]string{}
	for lines := json.NewDecoder(bufio.NewReader(f)); ; {
		var event struct {
			AuditID     string         `json:"auditID"`
			Annotations map[string]any `json:"annotations"`
		}
		if err := lines.Decode(&event); err != nil {
			return all // its end, or a line that is just being written
		}
		for name := range event.Annotations {
			// The first is of requests that took long, the second Gatehouse's own.
			if strings.HasPrefix(name, "apiserver.latency.k8s.io/") ||
				strings.HasPrefix(name, "admission.gatehouse.dev/") {
				delete(event.Annotations, name)
			}
		}
		normalized, err := json.MarshalIndent(normalize(event.Annotations), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		all[event.AuditID] = string(normalized)
	}
}
