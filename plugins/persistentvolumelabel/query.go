// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// maxAnswer bounds what is read of an answer, in bytes. It is many times the page of any
	// request.
	maxAnswer = 8 << 20
	// maxMessage bounds what is repeated of a cloud's message, in characters.
	maxMessage = 400
	// maxPages bounds the pages of one answer.
	maxPages = 100
)

// retryBackoff is the wait before a request is repeated: 3 to 4.5 seconds in all, within the
// timeout.
var retryBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 4}

// temporary marks an error that may be gone on the next try.
type temporary struct{ error }

func (t temporary) Unwrap() error { return t.error }

// retry calls until the error isn't temporary, the context ends or the backoff has no steps left.
// It returns the last call's error.
func retry[T any](ctx context.Context, backoff wait.Backoff, call func() (T, error)) (T, error) {
	for {
		result, err := call()
		if err == nil || !errors.As(err, new(temporary)) || backoff.Steps == 0 {
			return result, err
		}
		select {
		case <-time.After(backoff.Step()):
		case <-ctx.Done():
			return result, err
		}
	}
}

// An answer holds the answer of an API.
type answer struct {
	status int
	body   []byte
}

// send sends a request once. It returns an error if there is no complete answer.
func send(client *http.Client, request *http.Request) (answer, error) {
	response, err := client.Do(request)
	if err != nil {
		if request.Context().Err() != nil || errors.As(err, new(*tls.CertificateVerificationError)) {
			return answer{}, err
		}
		return answer{}, temporary{err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if err != nil {
		return answer{}, temporary{err}
	}
	if len(body) > maxAnswer {
		return answer{}, fmt.Errorf("%s answers with more than %d bytes", request.URL.Redacted(), maxAnswer)
	}
	return answer{response.StatusCode, body}, nil
}

// isTemporary reports whether a status is temporary.
func isTemporary(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// printable returns a cloud's message in one line of bounded length.
func printable(message string) string {
	message = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, message)
	message = strings.Join(strings.Fields(message), " ")
	if runes := []rune(message); len(runes) > maxMessage {
		return string(runes[:maxMessage]) + "…"
	}
	return message
}
