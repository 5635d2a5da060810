// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

// soon is enough for a few bytes on this machine, and eventually for a few on a busy one.
const soon, eventually = 50 * time.Millisecond, 30 * time.Second

// echo listens for connections, and sends back each line that comes.
func echo(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				_, _ = io.Copy(connection, connection)
			}()
		}
	}()
	return listener.Addr().String()
}

// say sends a line, and returns the line that comes back within a time, or the error.
func say(t *testing.T, c net.Conn, line string, limit time.Duration) (string, error) {
	t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", err
	}
	return hear(t, c, limit)
}

func hear(t *testing.T, c net.Conn, limit time.Duration) (string, error) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(c).ReadString('\n')
}

func TestNetwork(t *testing.T) {
	n := newNetwork()
	address := n.proxy(t, "a", "b", echo(t))
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if line, err := say(t, c, "works", eventually); line != "works\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	for _, cut := range []link{{"a", "b"}, {"b", "a"}} {
		n.set(condition{isCut: true}, cut)
		if line, err := say(t, c, "later", soon); err == nil {
			t.Errorf("cut from %s to %s, %q came back", cut.from, cut.to, line)
		}
		n.heal()
		if line, err := hear(t, c, eventually); line != "later\n" {
			t.Errorf("cut from %s to %s and healed, got %q, %v", cut.from, cut.to, line, err)
		}
	}
	n.set(condition{isCut: true}, link{"a", "c"})
	if line, err := say(t, c, "others", eventually); line != "others\n" {
		t.Errorf("while another link is cut, got %q, %v", line, err)
	}
	n.set(condition{delay: soon}, link{"a", "b"}, link{"b", "a"})
	began := time.Now()
	if line, err := say(t, c, "slowly", eventually); line != "slowly\n" || time.Since(began) < 2*soon {
		t.Errorf("delayed by %s each way, got %q, %v after %s", soon, line, err, time.Since(began))
	}
	n.set(condition{rate: 100}, link{"a", "b"})
	n.set(condition{}, link{"b", "a"})
	began = time.Now()
	if line, err := say(t, c, "ten bytes", eventually); line != "ten bytes\n" || time.Since(began) < 100*time.Millisecond {
		t.Errorf("at 100 bytes a second, got %q, %v after %s", line, err, time.Since(began))
	}
	n.set(condition{refuses: true}, link{"a", "b"})
	if line, err := hear(t, c, eventually); err != io.EOF {
		t.Errorf("refused, got %q, %v", line, err)
	}
	again, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if line, err := say(t, again, "again", eventually); err == nil {
		t.Errorf("refused, got %q", line)
	}
}

// A member introduces itself in its first request.
func TestIntroduction(t *testing.T) {
	n := newNetwork()
	n.name("beef", "etcd-1")
	address := n.proxy(t, "", "etcd-2", echo(t))
	const request = "GET /raft/stream HTTP/1.1\r\nHost: x\r\nX-Server-From: beef\r\n\r\n"
	n.set(condition{isCut: true}, link{"etcd-1", "etcd-2"})
	for _, test := range []struct {
		request string
		arrives bool
	}{{request, false}, {"GET /version HTTP/1.1\r\nHost: x\r\n\r\n", true}} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		limit := soon
		if test.arrives {
			limit = eventually
		}
		if line, err := say(t, c, test.request, limit); (err == nil) != test.arrives {
			t.Errorf("of %q came back %q, %v", test.request, line, err)
		}
	}
}
