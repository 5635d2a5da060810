// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

func TestRetry(t *testing.T) {
	again, final := temporary{errors.New("again")}, errors.New("final")
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Steps: 3}
	for name, test := range map[string]struct {
		says    []error // then nothing is wrong
		timeout time.Duration
		want    error
		calls   int
		after   time.Duration
	}{
		"nothing wrong":     {nil, time.Hour, nil, 1, 0},
		"what doesn't pass": {[]error{final}, time.Hour, final, 1, 0},
		"what passes":       {[]error{again, again}, time.Hour, nil, 3, 3 * time.Second},
		"until it is final": {[]error{again, final}, time.Hour, final, 2, time.Second},
		"no more patience":  {[]error{again, again, again, again, again}, time.Hour, again, 4, 7 * time.Second},
		"no more time":      {[]error{again, again, again, again, again}, 2 * time.Second, again, 2, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.timeout)
				defer cancel()
				began, calls := time.Now(), 0
				_, err := retry(ctx, backoff, func() (any, error) {
					calls++
					if calls <= len(test.says) {
						return nil, test.says[calls-1]
					}
					return nil, nil
				})
				if err != test.want || calls != test.calls || time.Since(began) != test.after {
					t.Errorf("%v after %d calls and %v", err, calls, time.Since(began))
				}
			})
		})
	}
}

// What the default backoff comes to is what the manual says.
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
