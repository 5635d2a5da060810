// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// percent returns the collector's, as it is.
func percent() int {
	read := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(read)
	return int(read[0].Value.Uint64())
}

// While any server starts, little is collected; then it is as it was.
func TestLittle(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(77))
	one, two := Little(), Little()
	one()
	one() // counts once
	if got := percent(); got != startPercent {
		t.Errorf("while one starts it is %d", got)
	}
	two()
	if got := percent(); got != 77 {
		t.Errorf("afterwards it is %d, want 77", got)
	}
	t.Setenv("GOGC", "50")
	over := Little()
	defer over()
	if got := percent(); got != 77 {
		t.Errorf("with GOGC it is %d", got)
	}
}
