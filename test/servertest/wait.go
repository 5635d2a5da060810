package servertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// What a server does in the background is asked for this often, and for this long, which is far
// more than it takes.
const (
	pollInterval = 5 * time.Millisecond
	deadline     = 30 * time.Second
)

// Eventually asks until it is so.
func Eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	Retry(t, what, func() error {
		if !so() {
			return errors.New("it is not so")
		}
		return nil
	})
}

// Retry tries until there is no error. The last one is what the test fails with.
func Retry(t testing.TB, what string, try func() error) {
	t.Helper()
	var last error
	// Not t.Context: it may be a cleanup that waits.
	err := wait.PollUntilContextTimeout(context.Background(), pollInterval, deadline, true,
		func(context.Context) (bool, error) {
			last = try()
			return last == nil, nil
		})
	if err != nil {
		t.Fatalf("waiting %v for %s: %v", deadline, what, last)
	}
}
