// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"io"
	"net/http"
	"strconv"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/decision/why"
	"gatehouse.dev/internal/review/impact"
)

// maxResults is the number of results of a report that a page shows. Its groups count all.
const maxResults = 5_000

// report is what a page shows of the report of an audit or a replay.
type report struct {
	overview reportOverview
	results  []*impact.Result
	remedies map[string]string
}

// reportOverview is everything but the decisions.
type reportOverview struct {
	Kind     string         `json:"kind"`
	Headline string         `json:"headline"`
	Notes    []string       `json:"notes"`
	Groups   []impact.Group `json:"groups"`
	Rows     []reportRow    `json:"rows"`
	// Omitted is the number of further results.
	Omitted int `json:"omitted"`
}

// reportRow is a result without its decision.
type reportRow struct {
	Outcome   string   `json:"outcome"`
	Operation string   `json:"op"`
	Object    string   `json:"obj"`
	Namespace string   `json:"ns"`
	User      string   `json:"user,omitempty"`
	Owner     string   `json:"owner,omitempty"`
	Policies  []string `json:"policies,omitempty"`
	Message   string   `json:"msg,omitempty"`
}

// NewReport returns a dashboard that shows a report of gatehouse audit or gatehouse replay, in JSON. It
// listens as New says.
func NewReport(file io.Reader, port int, remedies map[string]string) (*Dashboard, error) {
	loaded, err := impact.Load(file, impact.Options{Remedies: remedies})
	if err != nil {
		return nil, err
	}
	defer loaded.Close()
	shown := &report{remedies: remedies, overview: reportOverview{Kind: loaded.Kind(), Headline: loaded.Headline(),
		Notes: loaded.Notes(), Groups: loaded.Groups(), Rows: []reportRow{}}}
	for result, err := range loaded.Results() {
		if err != nil {
			return nil, err
		}
		if len(shown.results) == maxResults {
			shown.overview.Omitted++
			continue
		}
		shown.results = append(shown.results, result)
		shown.overview.Rows = append(shown.overview.Rows, newReportRow(result))
	}
	listener, err := listen(port)
	if err != nil {
		return nil, err
	}
	return &Dashboard{listener: listener, door: newDoor(listener.Addr().String()), report: shown}, nil
}

func newReportRow(r *impact.Result) reportRow {
	row := reportRow{Outcome: r.Outcome(), Operation: r.Request.Operation, Object: r.Object.Kind + " " + r.Object.Name,
		Namespace: r.Object.Namespace, User: r.Request.User.Username, Message: shorten(r.Message, maxRowMessage)}
	if r.Owner != nil {
		row.Owner = r.Owner.Kind + " " + r.Owner.Name
	}
	if r.Differs {
		row.Policies, row.Message = r.PolicyNames(), shorten(r.Reason(), maxRowMessage)
	}
	return row
}

// handle adds what the page of a report asks for.
func (s *report) handle(mux *http.ServeMux) {
	mux.HandleFunc("GET /report", func(w http.ResponseWriter, _ *http.Request) { respond(w, s.overview) })
	mux.HandleFunc("GET /result/{index}", s.serveResult)
}

// serveResult answers with the decision on one result.
func (s *report) serveResult(w http.ResponseWriter, r *http.Request) {
	index, err := strconv.Atoi(r.PathValue("index"))
	if err != nil || index < 0 || index >= len(s.results) {
		refuse(w, http.StatusNotFound, "the report has no such result")
		return
	}
	result := s.results[index]
	whole := v1alpha1.Decision{Request: result.Request, Verdict: result.Verdict, Message: result.Message}
	if judged := result.Judgement(); judged != nil {
		whole = *judged
	}
	respond(w, explained{&whole, why.Explain(&whole, s.remedies).Remedies})
}
