// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/webhook/backend"
)

// frame returns an HTTP/2 frame (RFC 9113, 4.1).
func frame(kind, flags byte, stream uint32, payload ...byte) []byte {
	header := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	header = binary.BigEndian.AppendUint32(append(header, flags), stream)
	return append(header, payload...)
}

// readFrame reads a frame and drops its payload.
func readFrame(conn net.Conn) (kind, flags byte, stream uint32, err error) {
	header := make([]byte, 9)
	if _, err := io.ReadFull(conn, header); err != nil {
		return 0, 0, 0, err
	}
	_, err = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(header)>>8))
	return header[3], header[4], binary.BigEndian.Uint32(header[5:]), err
}

// readPreface reads what a client sends before its first frame.
func readPreface(t *testing.T, conn net.Conn) bool {
	_, err := io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

// answer is status 200 with an empty object.
func answer(stream uint32) []byte {
	return append(frame(1, 4, stream, 0x88), frame(0, 1, stream, '{', '}')...)
}

// listen listens with TLS and HTTP/2, and returns a client of the listener.
func listen(t *testing.T) (net.Listener, *backend.Pool, *backend.Client) {
	t.Helper()
	authority := webhooktest.NewAuthority(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{authority.Serving(time.Now().Add(time.Hour), "127.0.0.1")},
		NextProtos:   []string{"h2"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	url := "https://" + listener.Addr().String()
	pool := newPool(t, backend.Config{})
	return listener, pool, newClient(t, pool, admissionregistrationv1.WebhookClientConfig{URL: &url,
		CABundle: authority.PEM()})
}

// A request waits until the server has said how many requests it takes at a time.
func TestSettingsAreAwaited(t *testing.T) {
	listener, _, client := listen(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := listener.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		if !readPreface(t, conn) {
			return
		}
		// A client that doesn't wait sends its request now.
		_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		for {
			kind, _, _, err := readFrame(conn)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil || kind == 1 {
				t.Errorf("before the server's settings: frame of type %d, %v", kind, err)
				return
			}
		}
		_ = conn.SetReadDeadline(time.Time{})
		_, _ = conn.Write(frame(4, 0, 0)) // settings
		for {
			kind, flags, stream, err := readFrame(conn)
			if err != nil {
				t.Error(err)
				return
			}
			if kind == 0 && flags&1 != 0 {
				_, _ = conn.Write(answer(stream))
				return
			}
		}
	}()
	_, err := client.Post(t.Context(), review, 10*time.Second)
	<-ended
	if err != nil {
		t.Error(err)
	}
}

// Requests that a backend says it didn't process are sent again, on the same connection or another.
// The errors that say so have no names outside of net/http; this notices if their texts change.
func TestUnprocessedRequestsAreSentAgain(t *testing.T) {
	leakFree(t)
	for name, test := range map[string]struct {
		refusal     func(stream uint32) []byte
		closes      bool
		connections int
	}{
		"refused stream": {func(stream uint32) []byte { return frame(3, 0, stream, 0, 0, 0, 7) }, false, 1},
		"goodbye":        {func(uint32) []byte { return frame(7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) }, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			listener, pool, client := listen(t)
			requests, connections, ended := 0, 0, make(chan struct{})
			serve := func(conn net.Conn) {
				defer conn.Close()
				connections++
				_, _ = conn.Write(frame(4, 0, 0)) // settings
				if !readPreface(t, conn) {
					return
				}
				for {
					kind, flags, stream, err := readFrame(conn)
					if err != nil {
						return
					}
					// Data that ends the stream ends the request.
					if kind != 0 || flags&1 == 0 {
						continue
					}
					if requests++; requests == 1 {
						_, _ = conn.Write(test.refusal(stream))
						if test.closes {
							return
						}
						continue
					}
					_, _ = conn.Write(answer(stream))
				}
			}
			go func() {
				defer close(ended)
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					serve(conn)
				}
			}()
			post(t, client)
			pool.Retain(nil)
			_ = listener.Close()
			<-ended
			if requests != 2 || connections != test.connections {
				t.Errorf("%d requests on %d connections, want 2 on %d", requests, connections, test.connections)
			}
		})
	}
}
