// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"gatehouse.dev/internal/review/impact"
)

// The page of a report has its counts, groups and results, and the decision on each result.
func TestReport(t *testing.T) {
	file, err := os.Open("../internal/review/impact/testdata/replay.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	d, err := NewReport(file, 0, map[string]string{"PodSecurity": "Change the fields."})
	if err != nil {
		t.Fatal(err)
	}
	run(t, d)
	client := &http.Client{Transport: newSession(d)}
	get := func(path string) (int, []byte) {
		response, err := client.Get(d.base() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, body
	}
	if code, body := get(""); code != http.StatusOK || !strings.Contains(string(body), `src="report.js"`) {
		t.Errorf("the page is %d: %s", code, body)
	}
	var overview reportOverview
	if code, body := get("report"); code != http.StatusOK || json.Unmarshal(body, &overview) != nil {
		t.Fatalf("the report is %d: %s", code, body)
	}
	if overview.Kind != impact.Replay || !strings.HasPrefix(overview.Headline, "of 1,209 writes ") ||
		len(overview.Groups) != 5 || len(overview.Rows) != 9 || len(overview.Notes) != 3 {
		t.Errorf("the report is %+v", overview)
	}
	if row := overview.Rows[0]; row.Outcome != "refused" || row.Object != "Deployment web-23" ||
		!strings.Contains(row.Message, "at most 3 replicas") || row.Policies[0] != overview.Groups[0].Policy {
		t.Errorf("the first row is %+v", row)
	}
	var first explained
	if code, body := get("result/0"); code != http.StatusOK || json.Unmarshal(body, &first) != nil ||
		len(first.Decision.Steps) != 1 || len(first.Remedies) != 1 {
		t.Errorf("the first result is %d: %s", code, body)
	}
	for _, index := range []string{"9", "-1", "x"} {
		if code, _ := get("result/" + index); code != http.StatusNotFound {
			t.Errorf("result %s is %d", index, code)
		}
	}
	for _, path := range []string{"events", "configured", "decision/shop/web"} {
		if code, _ := get(path); code != http.StatusNotFound {
			t.Errorf("%s is %d", path, code)
		}
	}
}

// Results for which a page has no room are counted.
func TestManyResults(t *testing.T) {
	var report strings.Builder
	report.WriteString(`{"apiVersion": "gatehouse.dev/v1alpha1", "kind": "Audit", "summary": {}, "results": [`)
	for i := range maxResults + 2 {
		if i > 0 {
			report.WriteString(",")
		}
		fmt.Fprintf(&report, `{"request": {"operation": "CREATE"}, "object": {"kind": "Pod", "name": "p-%d"}, "verdict": `+
			`"Refused", "differs": true}`, i)
	}
	d, err := NewReport(strings.NewReader(report.String()+"]}"), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.listener.Close()
	if o := d.report.overview; o.Omitted != 2 || len(o.Rows) != maxResults || o.Groups[0].Count != maxResults+2 {
		t.Errorf("%d rows, %d omitted, %d in the first group", len(o.Rows), o.Omitted, o.Groups[0].Count)
	}
	if _, err := NewReport(strings.NewReader("{}"), 0, nil); err == nil {
		t.Error("something that is no report is shown")
	}
}
