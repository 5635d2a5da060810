// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"cmp"
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

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/component-base/tracing"
	"k8s.io/utils/ptr"
)

const (
	// MaxAnswer is how large an answer may be, in bytes. The API server has the same limit for
	// requests.
	MaxAnswer = 3 << 20

	// maxRetries is how often a call is repeated for a backend that asks for that.
	maxRetries = 10
)

// header is the header of all requests. They share it: a RoundTripper changes a copy.
var header = http.Header{
	"Accept":       {"application/json, */*"},
	"Content-Type": {"application/json"},
	"User-Agent":   {"kube-apiserver-admission"},
}

// traced returns a transport that makes requests spans of the trace that they are part of, and passes
// its context on in their headers. It also does so for a client's trace if this server records none.
//
// Source: k8s.io/apiserver/pkg/util/webhook/authentication.go#NewDefaultAuthenticationInfoResolverWrapper db5b8545
// Source: k8s.io/component-base/tracing/utils.go#WrapperFor 312a449c
func traced(transport http.RoundTripper) http.RoundTripper {
	return otelhttp.NewTransport(transport, otelhttp.WithPropagators(tracing.Propagators()),
		otelhttp.WithFilter(hasTrace))
}

// hasTrace reports whether a request has a trace, or other context, that its header would have.
func hasTrace(req *http.Request) bool {
	ctx := req.Context()
	return trace.SpanContextFromContext(ctx).IsValid() || baggage.FromContext(ctx).Len() > 0
}

// Client calls one webhook. It is safe for concurrent use.
type Client struct {
	url       *url.URL // as users know it
	transport http.RoundTripper
	conns     *connPool // below transport; nil if it uses none
	// resolve returns a host and port to connect to, if it can other than those that have been tried;
	// nil: those of url.
	resolve func(tried []string) (string, error)

	// anonymous reports whether it has no credentials, and verifies the backend's certificate.
	anonymous bool
	// token returns the token that WithToken has set; nil for none.
	token func(context.Context) (string, error)
}

func newClient(scheme, host, urlPath string) *Client {
	// As rest.RESTClient joins it: cleaned, without a trailing slash.
	return &Client{url: &url.URL{Scheme: scheme, Host: host, Path: path.Join("/", urlPath)}}
}

// Local returns a client for a process on this machine that stands in for the backend that cc
// names, at an http or https URL. If the URL has no path, the backend's is used. The process is the
// user's own: its certificate isn't verified.
func Local(at string, cc admissionregistrationv1.WebhookClientConfig) (*Client, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("webhook URL %q: desired format: http://host[/path] or https://host[/path]",
			u.Redacted())
	}
	path := u.Path
	if path == "" || path == "/" {
		if cc.Service != nil {
			path = ptr.Deref(cc.Service.Path, "")
		} else if own, err := url.Parse(ptr.Deref(cc.URL, "")); err == nil {
			path = own.Path
		}
	}
	c := newClient(u.Scheme, u.Host, path)
	c.transport = traced(&http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		IdleConnTimeout: idleTimeout,
	})
	return c, nil
}

// WithToken returns a client that shows the backend a bearer token, which token returns before each call.
// If there is no token, the call fails. A client that has other credentials, or doesn't verify the
// backend's certificate, never shows a token.
func (c *Client) WithToken(token func(context.Context) (string, error)) *Client {
	if !c.anonymous {
		return c
	}
	showing := *c
	showing.token = token
	return &showing
}

// headerFor returns the header of a call.
func (c *Client) headerFor(ctx context.Context) (http.Header, error) {
	if c.token == nil {
		return header, nil
	}
	token, err := c.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("not called, as there is no token to show it: %w", err)
	}
	shown := header.Clone()
	shown.Set("Authorization", "Bearer "+token)
	return shown, nil
}

// Post sends body, a review in JSON in any number of parts, and returns the answer's body, which is
// at most MaxAnswer bytes. The context's deadline and the timeout (0: none) bound all of it. The
// webhook is told the time that remains until the earlier one, as ?timeout=<n>s, rounded up to a
// second.
//
// A backend that answers 429 or 5xx with a Retry-After is asked again, as Kubernetes does, up to 10
// times, if there is time for that. Any other answer than 2xx is an *apierrors.StatusError, and so is
// a failed metav1.Status with such a code. If there is no answer, the error is a *url.Error, or one
// that says what was wrong with the answer.
func (c *Client) Post(ctx context.Context, body [][]byte, timeout time.Duration) ([]byte, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	header, err := c.headerFor(ctx)
	query := timeoutQuery(ctx)
	if err != nil {
		return nil, c.urlError(query, err)
	}
	for retry := 0; ; retry++ {
		resp, answer, err := c.exchange(ctx, header, body, query)
		if resp == nil {
			return nil, c.urlError(query, err)
		}
		if wait, ok := retryAfter(resp); ok && retry < maxRetries && sleep(ctx, wait) {
			continue
		}
		if err != nil {
			return nil, readError(err)
		}
		if err := check(resp, answer); err != nil {
			return nil, err
		}
		return answer, nil
	}
}

// exchange sends a request to an endpoint, and reads the answer's body. If no connection can be made it
// takes another endpoint. A request that may have been sent is not sent to another one. If there is an
// error but the response isn't nil, it is one of reading the body.
func (c *Client) exchange(ctx context.Context, header http.Header, body [][]byte, query string) (*http.Response,
	[]byte, error) {
	var (
		tried   []string
		slow    string // the first endpoint that took longer than the call's patience
		failure error
	)
	for {
		address, err := c.endpoint(tried)
		if slices.Contains(tried, address) || err != nil && len(tried) > 0 {
			break // there is no other
		}
		if err != nil {
			return nil, nil, err
		}
		tried = append(tried, address)
		if c.conns != nil {
			if err := c.conns.notCalled(address); err != nil {
				failure = cmp.Or(failure, err)
				continue
			}
		}
		resp, answer, err := c.receive(c.impatiently(ctx), address, header, body, query)
		unconnected, ok := errors.AsType[*unconnectedError](err)
		if !ok || ctx.Err() != nil {
			return resp, answer, err
		}
		failure = unconnected.error
		if failure == errImpatient {
			slow = cmp.Or(slow, address)
		}
	}
	if slow != "" {
		resp, answer, err := c.receive(ctx, slow, header, body, query)
		if unconnected, ok := errors.AsType[*unconnectedError](err); ok {
			err = unconnected.error
		}
		return resp, answer, err
	}
	if _, ok := failure.(*NotCalledError); ok {
		c.conns.countNotMade(tried[0])
	}
	return nil, nil, failure
}

// impatiently returns a context for a request to one of several endpoints.
func (c *Client) impatiently(ctx context.Context) context.Context {
	if c.resolve == nil || c.conns == nil {
		return ctx
	}
	patience := maxPatience
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, time.Until(deadline)/2)
	}
	return context.WithValue(ctx, patienceKey{}, patience)
}

// endpoint returns the host and port of an endpoint that hasn't been tried, if there is one.
func (c *Client) endpoint(tried []string) (string, error) {
	if c.resolve == nil {
		return hostPort(c.url), nil
	}
	return c.resolve(tried)
}

// receive sends a request to address and reads the answer's body.
func (c *Client) receive(ctx context.Context, address string, header http.Header, body [][]byte, query string) (
	*http.Response, []byte, error) {
	resp, err := c.send(ctx, address, header, body, query)
	if err != nil {
		return nil, nil, err
	}
	// A byte more, to tell an answer that is too long from one that just fits.
	answer, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	_ = resp.Body.Close()
	return resp, answer, err
}

func (c *Client) send(ctx context.Context, address string, header http.Header, body [][]byte, query string) (
	*http.Response, error) {
	u := *c.url
	u.RawQuery = query
	if c.resolve != nil {
		u.Host = address
	}
	req := &http.Request{Method: http.MethodPost, URL: &u, Host: c.url.Host, Header: header}
	for _, part := range body {
		req.ContentLength += int64(len(part))
	}
	req.GetBody = func() (io.ReadCloser, error) {
		rest := net.Buffers(slices.Clone(body)) // reading moves its parts on
		return io.NopCloser(&rest), nil
	}
	req.Body, _ = req.GetBody()
	return c.transport.RoundTrip(req.WithContext(ctx))
}

// urlError returns the error that http.Client would return for a request that failed with err.
func (c *Client) urlError(query string, err error) error {
	var notTLS tls.RecordHeaderError
	if errors.As(err, &notTLS) && string(notTLS.RecordHeader[:]) == "HTTP/" {
		err = http.ErrSchemeMismatch
	}
	u := *c.url
	u.RawQuery = query
	return &url.Error{Op: "Post", URL: u.String(), Err: err}
}

// timeoutQuery returns the query that tells how long the caller waits.
func timeoutQuery(ctx context.Context) string {
	deadline, ok := ctx.Deadline()
	left := time.Until(deadline)
	if !ok || left <= 0 {
		return ""
	}
	return "timeout=" + (left + time.Second - 1).Truncate(time.Second).String()
}

// sleep waits, and reports whether it did. It doesn't begin if the context ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
