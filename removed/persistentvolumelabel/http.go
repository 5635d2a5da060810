// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package persistentvolumelabel

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

const (
	maxAnswer  = 8 << 20 // bytes that are read of an answer
	maxMessage = 400     // characters that are repeated of a cloud's message
	maxPages   = 100     // of one answer
	maxSecret  = 1 << 20 // bytes of a file of secrets
)

// retryBackoff is the wait before a request is repeated: 3 to 4.5 seconds in all.
var retryBackoff = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 4}

// tooMany matches the codes with which clouds refuse too many requests, also with status 400 or 403.
var tooMany = regexp.MustCompile(`RequestLimitExceeded|RequestThrottled|Throttling|[rR]ateLimitExceeded`)

// repeating is a transport that sends a request again, after a while that doubles, if its failure may pass.
type repeating struct{ http.RoundTripper }

// newClient returns a client that trusts the authorities in the file, or those that the machine trusts if
// no file is named.
func newClient(authorityFile string, proxy func(*http.Request) (*url.URL, error)) (*http.Client, error) {
	transport, err := rest.TransportFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAFile: authorityFile},
		Proxy: proxy})
	// None of these APIs redirects, and no other host may get signatures and tokens.
	return &http.Client{Transport: repeating{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, err
}

// RoundTrip returns the last answer, which is read already.
func (t repeating) RoundTrip(r *http.Request) (*http.Response, error) {
	for backoff := retryBackoff; ; {
		attempt := r.Clone(r.Context())
		if r.GetBody != nil {
			attempt.Body, _ = r.GetBody() // it can't fail: the body is a string
		}
		response, err := t.RoundTripper.RoundTrip(attempt)
		again := err != nil && !errors.As(err, new(*tls.CertificateVerificationError))
		if err == nil {
			body, readErr := readAnswer(response.Body)
			again = readErr != nil || response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= 500 ||
				response.StatusCode >= 400 && tooMany.Match(body)
			response.Body, err = io.NopCloser(bytes.NewReader(body)), readErr
		}
		if again && backoff.Steps > 0 {
			select {
			case <-time.After(backoff.Step()):
				continue
			case <-r.Context().Done():
			}
		}
		if err != nil {
			return nil, err
		}
		return response, nil
	}
}

// send sends a request and returns the status and the body of the answer.
func send(client *http.Client, r *http.Request) (int, []byte, error) {
	response, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	body, err := readAnswer(response.Body)
	return response.StatusCode, body, err
}

func readAnswer(body io.ReadCloser) ([]byte, error) {
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, maxAnswer))
}

// printable returns a cloud's message in one line of bounded length.
func printable(message string) string {
	message = strings.ToValidUTF8(message, "\uFFFD")
	message = strings.Join(strings.FieldsFunc(message, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) }), " ")
	if runes := []rune(message); len(runes) > maxMessage {
		return string(runes[:maxMessage]) + "…"
	}
	return message
}

// readSecret returns the content of a file that only its owner may read or change.
func readSecret(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s has mode %04o: it holds secrets, so nobody but its owner may have access (chmod 600)",
			path, info.Mode().Perm())
	case info.Size() > maxSecret:
		return nil, fmt.Errorf("%s has more than %d bytes", path, maxSecret)
	}
	return os.ReadFile(path)
}
