// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatehouse.dev/review"
)

// An audit that is interrupted returns a report that says that it is partial, and the cause.
func TestAuditIsInterrupted(t *testing.T) {
	candidate, errs := review.Read([]string{"-"}, strings.NewReader(needsTeam))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	trial, err := review.StartTrial(t.Context(), review.TrialOptions{Options: review.Options{Config: policyServer()},
		Before: policyServer(), Candidate: candidate})
	if err != nil {
		t.Fatal(err)
	}
	defer trial.Close()
	// Far more objects than are judged before the first progress is told.
	const objects = 1_000_000
	path := filepath.Join(t.TempDir(), "objects.yaml")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	object := "{kind: ConfigMap, apiVersion: v1, metadata: {name: prices, namespace: shop}}\n---\n"
	if _, err := fmt.Fprint(file, strings.Repeat(object, objects)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	report, err := trial.Audit(ctx, review.AuditOptions{Files: &review.AuditFiles{Paths: []string{path}},
		Progress: func(int) { cancel() }})
	if !errors.Is(err, context.Canceled) || report == nil {
		t.Fatalf("%v, %v", report, err)
	}
	defer report.Close()
	if s := report.Summary(); !s.Interrupted || s.Judged == objects || s.Refused == 0 || s.Refused != s.Judged ||
		report.ExitCode() != review.ExitFailed {
		t.Errorf("it ends with %d: %+v", report.ExitCode(), s)
	}
	var text strings.Builder
	if err := report.Write(&text, ""); err != nil || !strings.Contains(text.String(), "interrupted") {
		t.Errorf("%v\n%s", err, &text)
	}
}
