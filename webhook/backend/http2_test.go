package backend_test

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
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
		"protocol error": {func(stream uint32) []byte { return frame(3, 0, stream, 0, 0, 0, 1) }, true, 2},
		"goodbye":        {func(uint32) []byte { return frame(7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0) }, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			authority := webhooktest.NewAuthority(t)
			listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
				Certificates: []tls.Certificate{authority.Serving(time.Now().Add(time.Hour), "127.0.0.1")},
				NextProtos:   []string{"h2"},
			})
			if err != nil {
				t.Fatal(err)
			}
			requests, connections, ended := 0, 0, make(chan struct{})
			serve := func(conn net.Conn) {
				defer conn.Close()
				connections++
				_, _ = conn.Write(frame(4, 0, 0)) // settings
				if _, err := io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
					t.Error(err)
					return
				}
				for header := make([]byte, 9); ; {
					if _, err := io.ReadFull(conn, header); err != nil {
						return
					}
					length := int64(binary.BigEndian.Uint32(header) >> 8)
					if _, err := io.CopyN(io.Discard, conn, length); err != nil {
						return
					}
					// Data that ends the stream ends the request.
					stream := binary.BigEndian.Uint32(header[5:])
					if header[3] != 0 || header[4]&1 == 0 {
						continue
					}
					if requests++; requests == 1 {
						_, _ = conn.Write(test.refusal(stream))
						if test.closes {
							return
						}
						continue
					}
					_, _ = conn.Write(append(frame(1, 4, stream, 0x88), frame(0, 1, stream, '{', '}')...)) // status 200
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
			url := "https://" + listener.Addr().String()
			pool := newPool(t, backend.Config{})
			post(t, newClient(t, pool, admissionregistrationv1.WebhookClientConfig{URL: &url,
				CABundle: authority.PEM()}))
			pool.Retain(nil)
			_ = listener.Close()
			<-ended
			if requests != 2 || connections != test.connections {
				t.Errorf("%d requests on %d connections, want 2 on %d", requests, connections, test.connections)
			}
		})
	}
}
