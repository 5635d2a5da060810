package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxResends is how often a request is sent again after a connection didn't process it.
const maxResends = 6

// roundTrip2 sends the request over HTTP/2. It returns errHTTP1 if the backend doesn't speak it.
// Requests that the backend certainly didn't process are sent again, as net/http does, after 0, 1,
// 2, 4, 8 and 16 seconds.
func (w *wire) roundTrip2(req *http.Request) (*http.Response, error) {
	address := req.URL.Host
	if req.URL.Port() == "" {
		address = net.JoinHostPort(req.URL.Hostname(), defaultPort)
	}
	for resend := 0; ; resend++ {
		c, err := w.reserve(req.Context(), address)
		if err != nil {
			return nil, err
		}
		resp, err := c.RoundTrip(req)
		if err == nil || resend == maxResends || !unprocessed(err) {
			return resp, err
		}
		if resend > 0 && !sleep(req.Context(), time.Second<<(resend-1)) {
			return nil, err
		}
		if req, err = repeat(req); err != nil {
			return nil, err
		}
	}
}

// repeat returns a copy of the request with its body from the beginning.
func repeat(req *http.Request) (*http.Request, error) {
	again := *req
	var err error
	again.Body, err = req.GetBody()
	return &again, err
}

// streamError has the fields of net/http's error of a stream, so that errors.As copies it.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "stream error" }

// unprocessed reports whether the backend did nothing with a request that ended with err.
//
// Source: http2canRetryError in net/http, whose errors have no names outside of it.
func unprocessed(err error) bool {
	switch err.Error() {
	case "http2: client conn not usable", "http2: Transport received Server's graceful shutdown GOAWAY":
		return true
	}
	var stream streamError
	if !errors.As(err, &stream) {
		return false
	}
	const protocolError, refusedStream = 1, 7 // RFC 9113, 7
	return stream.Code == refusedStream ||
		stream.Code == protocolError && stream.Cause != nil && stream.Cause.Error() == "received from peer"
}

// http2On returns a client on a connection that has agreed on HTTP/2.
func http2On(ctx context.Context, conn net.Conn, address string) (*http.ClientConn, error) {
	// The connection is no *tls.Conn, so net/http can't see what it has agreed on and must be told.
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	t := &http.Transport{
		DialTLSContext:     func(context.Context, string, string) (net.Conn, error) { return conn, nil },
		Protocols:          &only,
		HTTP2:              &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		IdleConnTimeout:    idleTimeout,
		DisableCompression: true,
	}
	return t.NewClientConn(ctx, "https", address)
}

// greetedConn is a connection that notices when the server's first frames have been processed. An
// http.ClientConn assumes 100 requests at a time until then, and has no way to wait for it.
type greetedConn struct {
	*tls.Conn
	greeted chan struct{} // closed then, or when there will be none
	err     error         // of the first read, valid when greeted

	reads int // used by the one goroutine that reads
	once  sync.Once
}

// Read implements net.Conn. A second read begins when all frames of the first are processed.
func (c *greetedConn) Read(p []byte) (int, error) {
	c.reads++
	if c.reads > 1 {
		c.once.Do(func() { close(c.greeted) })
		return c.Conn.Read(p)
	}
	n, err := c.Conn.Read(p)
	if err != nil {
		c.once.Do(func() { c.err = err; close(c.greeted) })
	}
	return n, err
}
