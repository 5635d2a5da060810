package backend

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"gatehouse.dev/internal/webhooktest"
)

// frames are what http2.ClientConn writes: the headers of a request with a body or without, a piece
// of a body, and what is neither.
func frames(t *testing.T) (headers, lone, body, ping []byte) {
	t.Helper()
	write := func(f func(*http2.Framer) error) []byte {
		var buffer bytes.Buffer
		if err := f(http2.NewFramer(&buffer, nil)); err != nil {
			t.Fatal(err)
		}
		return buffer.Bytes()
	}
	request := http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("any"), EndHeaders: true}
	headers = write(func(f *http2.Framer) error { return f.WriteHeaders(request) })
	request.EndStream = true
	lone = write(func(f *http2.Framer) error { return f.WriteHeaders(request) })
	body = write(func(f *http2.Framer) error { return f.WriteData(1, true, []byte("{}")) })
	ping = write(func(f *http2.Framer) error { return f.WritePing(false, [8]byte{}) })
	return headers, lone, body, ping
}

func TestHeadersAreSentWithWhatFollows(t *testing.T) {
	headers, lone, body, ping := frames(t)
	// said is what a record consists of.
	said := func(record []byte) string {
		var all []string
		for len(record) > 0 {
			before := len(record)
			for what, frame := range map[string][]byte{"headers": headers, "lone": lone, "body": body, "ping": ping} {
				if rest, ok := bytes.CutPrefix(record, frame); ok {
					all, record = append(all, what), rest
					break
				}
			}
			if len(record) == before {
				return "something else"
			}
		}
		return strings.Join(all, " ")
	}
	for what, test := range map[string]struct {
		writes []any // frames, and pauses
		want   string
	}{
		"headers and body":             {[]any{headers, body}, "0s: headers body"},
		"two requests":                 {[]any{headers, body, headers, body}, "0s: headers body, 0s: headers body"},
		"another frame between":        {[]any{headers, ping, body}, "0s: headers ping, 0s: body"},
		"no body":                      {[]any{lone}, "0s: lone"},
		"nothing to wait for":          {[]any{ping, body}, "0s: ping, 0s: body"},
		"a body that comes later":      {[]any{headers, 5 * time.Millisecond, body}, "1ms: headers, 5ms: body"},
		"another request in the pause": {[]any{headers, headers, body}, "0s: headers headers, 0s: body"},
		"a body just before it is late": {[]any{headers, joinDelay - 1, body, 5 * time.Millisecond, headers,
			5 * time.Millisecond}, "999.999µs: headers body, 6.999999ms: headers"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				authority := webhooktest.NewAuthority(t)
				start, ended := time.Now(), make(chan struct{})
				var got []string
				go func() {
					defer close(ended)
					conn := tls.Server(far,
						&tls.Config{Certificates: []tls.Certificate{authority.Serving(time.Now().Add(time.Hour),
							"localhost")}})
					for buffer := make([]byte, 1<<14); ; {
						n, err := conn.Read(buffer) // a record at most
						if err != nil {
							return
						}
						got = append(got, fmt.Sprintf("%v: %s", time.Since(start), said(buffer[:n])))
					}
				}()
				c := &joined{Conn: tls.Client(near, &tls.Config{InsecureSkipVerify: true})}
				for _, step := range test.writes {
					switch step := step.(type) {
					case time.Duration:
						time.Sleep(step)
					case []byte:
						if n, err := c.Write(step); n != len(step) || err != nil {
							t.Errorf("wrote %d of %d: %v", n, len(step), err)
						}
					}
				}
				time.Sleep(time.Second)
				near.Close()
				<-ended
				if got := strings.Join(got, ", "); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		})
	}
}
