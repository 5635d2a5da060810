// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// request is one HTTP request as it goes over the wire.
type request struct {
	method, path string
	contentType  string
	accept       string
	body         []byte
	// user and groups are impersonated by the administrator.
	user   string
	groups []string
	// anonymous sends no credentials but token, which may be empty.
	anonymous bool
	token     string
}

// answer is what came back.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// status is the answer as a metav1.Status, empty where it is something else.
func (a answer) status() metav1.Status {
	var s metav1.Status
	if err := json.Unmarshal(a.body, &s); err != nil || s.Kind != "Status" {
		return metav1.Status{}
	}
	return s
}

func (a answer) String() string {
	body := a.body
	if len(body) > 2000 {
		body = append(body[:2000:2000], "…"...)
	}
	return fmt.Sprintf("%d %s", a.code, body)
}

func (s *api) open(ctx context.Context, r request) (*http.Response, error) {
	httpRequest, err := http.NewRequestWithContext(ctx, r.method, s.Config.Host+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	set := func(name, value string) {
		if value != "" {
			httpRequest.Header.Add(name, value)
		}
	}
	set("Content-Type", r.contentType)
	set("Accept", r.accept)
	set("User-Agent", "table") // which names the field manager, too
	set("Impersonate-User", r.user)
	for _, group := range r.groups {
		set("Impersonate-Group", group)
	}
	if !r.anonymous {
		return s.admin.Do(httpRequest)
	}
	if r.token != "" {
		set("Authorization", "Bearer "+r.token)
	}
	return s.stranger.Do(httpRequest)
}

// do sends a request and reads the whole answer.
func (s *api) do(ctx context.Context, r request) (answer, error) {
	response, err := s.open(ctx, r)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, body}, err
}

// send is do for a test that must have an answer.
func (s *api) send(t testing.TB, r request) answer {
	t.Helper()
	a, err := s.do(t.Context(), r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	return a
}

// wantRefused checks status code, reason and message of a refusal.
func (a answer) wantRefused(t testing.TB, code int, reason metav1.StatusReason, message string) {
	t.Helper()
	status := a.status()
	if a.code != code || int(status.Code) != code || status.Reason != reason || status.Message != message {
		t.Errorf("the answer is\n  %s\nwant\n  %d %s %s", a, code, reason, message)
	}
}

// wantReady checks that the server still is.
func (s *api) wantReady(t testing.TB) {
	t.Helper()
	if a := s.send(t, request{method: "GET", path: "/readyz"}); a.code != http.StatusOK || string(a.body) != "ok" {
		t.Errorf("/readyz says %s", a)
	}
}

// namespace makes a namespace for one test.
func (s *api) namespace(t testing.TB, name string) string {
	t.Helper()
	s.send(t, request{method: "POST", path: "/api/v1/namespaces", contentType: "application/json",
		body: fmt.Appendf(nil, `{"metadata":{"name":%q}}`, name)}).wantCode(t, http.StatusCreated)
	return name
}

func (a answer) wantCode(t testing.TB, code int) {
	t.Helper()
	if a.code != code {
		t.Fatalf("the answer is %s, want %d", a, code)
	}
}
