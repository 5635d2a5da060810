package backend

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/tracing"
)

const (
	// MaxAnswer is how large an answer may be, in bytes: what the API server takes as a request.
	MaxAnswer = 3 << 20

	// maxTimeout is the longest timeout that a webhook can have.
	maxTimeout = 30 * time.Second

	// maxRetries is how often a call is repeated for a backend that asks for that.
	maxRetries = 10
)

// Client calls one webhook. It is safe for concurrent use.
type Client struct {
	url       *url.URL // as users know it
	resolve   func() (string, error)
	request   *http.Request // what all requests have in common
	transport http.RoundTripper
	traced    http.RoundTripper // transport, for requests that are part of a trace
	wire      *wire             // below transport; nil for the API server itself
}

func newClient(host, urlPath string) *Client {
	// As rest.RESTClient joins it: cleaned, without a trailing slash.
	u := &url.URL{Scheme: "https", Host: host, Path: path.Join("/", urlPath)}
	return &Client{
		url: u,
		request: &http.Request{
			Method:     http.MethodPost,
			URL:        u,
			Host:       host,
			Proto:      "HTTP/1.1",
			ProtoMajor: 1,
			ProtoMinor: 1,
			// Shared by all requests: a RoundTripper changes a copy.
			Header: http.Header{
				"Accept":       {"application/json, */*"},
				"Content-Type": {"application/json"},
				"User-Agent":   {"kube-apiserver-admission"},
			},
		},
	}
}

// callSelf has the API server's own client carry the requests.
func (c *Client) callSelf(api *rest.RESTClient) {
	at := api.Post().URL()
	c.transport = api.Client.Transport
	c.traced = c.transport // it is, where this server traces
	u := *c.url
	u.Scheme, u.Host = at.Scheme, at.Host
	c.request.URL = &u
}

// Post sends body, a review in JSON in any number of parts, and returns the answer's body, which is
// at most MaxAnswer bytes. The context's deadline and the timeout (0: none) bound all of it; what
// remains until the earlier one is told to the webhook as ?timeout=<n>s, rounded up to a second.
//
// A backend that answers 429 or 5xx with a Retry-After is asked again, as Kubernetes does, up to 10
// times; unless there is no time left for that. Any other answer than 2xx is an
// *apierrors.StatusError, and so is a failed metav1.Status with such a code; when there is no
// answer the error is a *url.Error, or one that says what was wrong with it.
func (c *Client) Post(ctx context.Context, body [][]byte, timeout time.Duration) ([]byte, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	query := timeoutQuery(ctx)
	for retry := 0; ; retry++ {
		resp, err := c.send(ctx, body, query)
		if err != nil {
			return nil, c.failed(query, err)
		}
		answer, err := read(resp)
		if wait, ok := retryAfter(resp); ok && retry < maxRetries && sleep(ctx, wait) {
			continue
		}
		if err == errTooLarge && !succeeded(resp) {
			err = nil // an error's first words are enough
		}
		if err == nil {
			err = check(resp, answer)
		}
		if err != nil {
			return nil, err
		}
		return answer, nil
	}
}

func (c *Client) send(ctx context.Context, body [][]byte, query string) (*http.Response, error) {
	req := c.request.WithContext(ctx)
	u := *req.URL
	u.RawQuery = query
	if c.resolve != nil {
		address, err := c.resolve()
		if err != nil {
			return nil, err
		}
		u.Host = address // Host stays what it was
	}
	req.URL = &u
	req.ContentLength = 0
	for _, part := range body {
		req.ContentLength += int64(len(part))
	}
	req.GetBody = func() (io.ReadCloser, error) {
		rest := net.Buffers(slices.Clone(body)) // reading moves its parts on
		return io.NopCloser(&rest), nil
	}
	req.Body, _ = req.GetBody()
	if trace.SpanContextFromContext(ctx).IsValid() {
		return c.traced.RoundTrip(req)
	}
	return c.transport.RoundTrip(req)
}

// traced makes requests spans of the trace that they are part of, and passes its context on in
// their headers; also that of a client's trace where this server records none.
//
// Source: k8s.io/apiserver/pkg/util/webhook/authentication.go#NewDefaultAuthenticationInfoResolverWrapper fbd9cccb
func traced(transport http.RoundTripper) http.RoundTripper {
	return tracing.WrapperFor(nil)(transport) // the provider is that of the request's span
}

// failed says of an error what http.Client would have said.
func (c *Client) failed(query string, err error) error {
	var notTLS tls.RecordHeaderError
	if errors.As(err, &notTLS) && string(notTLS.RecordHeader[:]) == "HTTP/" {
		err = http.ErrSchemeMismatch
	}
	u := *c.url
	u.RawQuery = query
	return &url.Error{Op: "Post", URL: u.String(), Err: err}
}

// timeoutQuery tells how long the caller waits.
func timeoutQuery(ctx context.Context) string {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ""
	}
	left := time.Until(deadline)
	if left <= 0 {
		return ""
	}
	seconds := int((left + time.Second - 1) / time.Second)
	if seconds < len(queries) {
		return queries[seconds]
	}
	return query(seconds)
}

// queries are those for all timeouts that webhooks can have, by seconds.
var queries = func() (all [maxTimeout/time.Second + 1]string) {
	for seconds := range all {
		all[seconds] = query(seconds)
	}
	return all
}()

func query(seconds int) string {
	return "timeout=" + (time.Duration(seconds) * time.Second).String()
}

var errTooLarge = fmt.Errorf("the response body is too large: limit is %d", MaxAnswer)

// read reads the body to its end, and no more of it than is allowed.
func read(resp *http.Response) ([]byte, error) {
	defer resp.Body.Close()
	size := int64(bytes.MinRead)
	if resp.ContentLength > 0 && resp.ContentLength <= MaxAnswer {
		size += resp.ContentLength
	}
	buffer := bytes.NewBuffer(make([]byte, 0, size))
	// A byte more, to tell an answer that is too long from one that just fits; the buffer needs
	// MinRead of room to see the end.
	n, err := buffer.ReadFrom(io.LimitReader(resp.Body, MaxAnswer+1))
	if err != nil {
		return nil, readError(err)
	}
	if n > MaxAnswer {
		return buffer.Bytes(), errTooLarge
	}
	return buffer.Bytes(), nil
}

// sleep waits, and tells whether it did. It doesn't begin what the context wouldn't let it end.
func sleep(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
