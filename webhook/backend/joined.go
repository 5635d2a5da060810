package backend

import (
	"crypto/tls"
	"sync"
	"time"
)

// joinDelay is how long the beginning of a request is held for the rest of it. What comes after it
// mostly comes at once; it doesn't where the server takes no body before it has seen the headers.
const joinDelay = time.Millisecond

// joined is a connection that sends the headers of a request together with the beginning of its
// body. http2.ClientConn writes them one after the other, and each write is a record of TLS, a
// packet, and something to wake up for at the other end: a fifth of what a short request takes.
//
// All is sent in the order in which it is written. What looks like headers only decides what may
// wait for what follows.
type joined struct {
	*tls.Conn

	mu    sync.Mutex
	held  []byte
	timer *time.Timer // sends what is held; nil until something was
	err   error       // of the timer
}

// Write implements net.Conn.
func (c *joined) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if len(c.held) == 0 {
		if !headersOnly(data) {
			return c.Conn.Write(data)
		}
		c.held = append(c.held, data...)
		if c.timer == nil {
			c.timer = time.AfterFunc(joinDelay, c.late)
		} else {
			c.timer.Reset(joinDelay)
		}
		return len(data), nil
	}
	c.timer.Stop()
	before := len(c.held)
	c.held = append(c.held, data...)
	n, err := c.send()
	return max(0, n-before), err
}

// late sends what is held when nothing has followed.
func (c *joined) late() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.held) > 0 {
		_, c.err = c.send()
	}
}

func (c *joined) send() (int, error) {
	n, err := c.Conn.Write(c.held)
	c.held = c.held[:0]
	return n, err
}

// headersOnly tells whether data is a frame with all headers of a request that has a body (RFC
// 9113, 4.1 and 6.2).
func headersOnly(data []byte) bool {
	const frameHeader, typeHeaders, endStream, endHeaders = 9, 1, 1, 4
	return len(data) > frameHeader && len(data) == frameHeader+int(data[0])<<16+int(data[1])<<8+int(data[2]) &&
		data[3] == typeHeaders && data[4]&endStream == 0 && data[4]&endHeaders != 0
}
