// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// A loopback carries a server's requests to itself without a connection, encryption or listener. A
// starting server has some thirty informers, and each would dial before the first has a connection
// that they could share. As over a connection, only the end of the client's context reaches the
// handler.
type loopback struct {
	handler http.Handler
	serving chan struct{} // closed once there is a handler
}

func newLoopback() *loopback { return &loopback{serving: make(chan struct{})} }

// serve begins to answer. Earlier requests have waited for it.
func (l *loopback) serve(handler http.Handler) {
	l.handler = handler
	close(l.serving)
}

// RoundTrip implements http.RoundTripper.
func (l *loopback) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-l.serving:
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := context.AfterFunc(r.Context(), cancel)
	served := r.Clone(ctx)
	served.RequestURI, served.RemoteAddr = served.URL.RequestURI(), "127.0.0.1:0"
	served.Proto, served.ProtoMajor, served.ProtoMinor = "HTTP/2.0", 2, 0
	if served.Body == nil {
		served.Body = http.NoBody
	}
	a := &loopbackAnswer{request: r, ctx: ctx, cancel: cancel, header: http.Header{}, answered: make(chan struct{})}
	go func() {
		defer ended()
		defer a.end()
		l.handler.ServeHTTP(a, served)
	}()
	select {
	case <-a.answered:
		return a.response, nil
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

// A loopbackAnswer is a handler's answer. It is passed on whole when the handler returns, or as it
// comes after the first flush, as for watches.
type loopbackAnswer struct {
	request  *http.Request
	ctx      context.Context // the handler's, which ends when the client goes
	cancel   context.CancelFunc
	header   http.Header
	code     int
	whole    bytes.Buffer
	stream   *io.PipeWriter // nil before the first flush
	kept     func() bool    // keeps the stream though ctx ends
	response *http.Response
	answered chan struct{} // closed once there is a response
}

// Header implements http.ResponseWriter.
func (a *loopbackAnswer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *loopbackAnswer) WriteHeader(code int) {
	if a.code == 0 {
		a.code = code
	}
}

// Write implements http.ResponseWriter.
func (a *loopbackAnswer) Write(data []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.stream != nil {
		return a.stream.Write(data)
	}
	return a.whole.Write(data)
}

// Flush implements http.Flusher.
func (a *loopbackAnswer) Flush() {
	if a.stream != nil {
		return
	}
	a.WriteHeader(http.StatusOK)
	reader, writer := io.Pipe()
	a.stream = writer
	// After the reader is gone, a write would wait forever.
	a.kept = context.AfterFunc(a.ctx, func() { reader.CloseWithError(context.Canceled) })
	a.answer(loopbackBody{reader, a.cancel}, -1)
	if a.whole.Len() > 0 { // even a write of nothing would wait for the reader
		_, _ = a.stream.Write(a.whole.Bytes()) // fails if the reader has gone
	}
}

// CloseNotify implements http.CloseNotifier, by which the server's filters know a connection that
// can be flushed. It tells nothing: the request's context does.
func (a *loopbackAnswer) CloseNotify() <-chan bool { return nil }

func (a *loopbackAnswer) answer(body io.ReadCloser, length int64) {
	a.response = &http.Response{Status: fmt.Sprint(a.code, " ", http.StatusText(a.code)), StatusCode: a.code,
		Proto: "HTTP/2.0", ProtoMajor: 2, Header: a.header.Clone(), Body: body, ContentLength: length,
		Request: a.request}
	close(a.answered)
}

// end answers, unless that has begun. A handler that gives up panics with http.ErrAbortHandler,
// which a connection would end with.
func (a *loopbackAnswer) end() {
	aborted := recover()
	if aborted != nil && aborted != http.ErrAbortHandler {
		panic(aborted)
	}
	defer a.cancel()
	if a.kept != nil {
		a.kept() // what has been written is read to its end
	}
	switch {
	case a.stream != nil && aborted != nil:
		a.stream.CloseWithError(io.ErrUnexpectedEOF)
	case a.stream != nil:
		a.stream.Close()
	case aborted != nil:
		a.code = http.StatusInternalServerError
		a.answer(http.NoBody, 0)
	default:
		a.WriteHeader(http.StatusOK)
		a.answer(io.NopCloser(&a.whole), int64(a.whole.Len()))
	}
}

// A loopbackBody ends its request when it is closed.
type loopbackBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (b loopbackBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// A silentListener accepts no connections.
type silentListener struct {
	closed chan struct{}
	once   sync.Once
}

func newSilentListener() *silentListener { return &silentListener{closed: make(chan struct{})} }

// Accept implements net.Listener.
func (s *silentListener) Accept() (net.Conn, error) {
	<-s.closed
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (s *silentListener) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr implements net.Listener: the address that a server of its own has by default.
func (s *silentListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 6443} }
