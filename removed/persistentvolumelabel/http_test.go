// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// repeatAtOnce makes a test's requests be repeated without much delay.
func repeatAtOnce(t *testing.T) {
	before := retryBackoff
	t.Cleanup(func() { retryBackoff = before })
	retryBackoff.Duration = time.Millisecond
}

func TestRepeating(t *testing.T) {
	before := retryBackoff
	defer func() { retryBackoff = before }()
	retryBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Steps: 3}
	const again, final = http.StatusServiceUnavailable, http.StatusTeapot
	for name, test := range map[string]struct {
		answers []int // then all is well
		timeout time.Duration
		want    int
		calls   int
		after   time.Duration
	}{
		"nothing wrong":     {nil, time.Hour, http.StatusOK, 1, 0},
		"what doesn't pass": {[]int{final}, time.Hour, final, 1, 0},
		"what passes":       {[]int{again, again}, time.Hour, http.StatusOK, 3, 3 * time.Second},
		"until it is final": {[]int{again, final}, time.Hour, final, 2, time.Second},
		"no more patience":  {[]int{again, again, again, again, again}, time.Hour, again, 4, 7 * time.Second},
		"no more time":      {[]int{again, again, again, again, again}, 2 * time.Second, again, 2, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.timeout)
				defer cancel()
				began, calls := time.Now(), 0
				transport := repeating{answering(func(r *http.Request) *http.Response {
					if body, err := io.ReadAll(r.Body); string(body) != "all of it" {
						t.Errorf("sends %q, %v", body, err)
					}
					calls++
					status := http.StatusOK
					if calls <= len(test.answers) {
						status = test.answers[calls-1]
					}
					return &http.Response{StatusCode: status, Body: http.NoBody}
				})}
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, "/", strings.NewReader("all of it"))
				if err != nil {
					t.Fatal(err)
				}
				response, err := transport.RoundTrip(request)
				if err != nil || response.StatusCode != test.want || calls != test.calls ||
					time.Since(began) != test.after {
					t.Errorf("%v, %v after %d calls and %v", response, err, calls, time.Since(began))
				}
			})
		})
	}
}

// answering is a transport that nothing goes wrong in.
type answering func(*http.Request) *http.Response

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// The default backoff waits as long as the manual says.
func TestRetryBackoff(t *testing.T) {
	backoff := retryBackoff
	var steps int
	var all time.Duration
	for backoff.Steps > 0 {
		all += backoff.Step()
		steps++
	}
	if steps != 4 || all < 3*time.Second || all > 4500*time.Millisecond {
		t.Errorf("%d retries in %v", steps, all)
	}
}

func TestPrintable(t *testing.T) {
	for given, want := range map[string]string{
		"":                                   "",
		"as it is":                           "as it is",
		" two\nlines,\tand \x1b[31mred":      "two lines, and [31mred",
		"\xff":                               "\uFFFD",
		strings.Repeat("é", 400):             strings.Repeat("é", 400),
		strings.Repeat("é", 401):             strings.Repeat("é", 400) + "…",
		strings.Repeat("\n", 1000) + "after": "after",
	} {
		if got := printable(given); got != want {
			t.Errorf("printable(%q) = %q, want %q", given, got, want)
		}
	}
}
