// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// condition is how a link is in one direction. The zero condition is that of a link that works.
type condition struct {
	// isCut is true if bytes wait until the link works again, as packets are sent again.
	isCut bool
	// refuses is true if connections end, and no new ones are made.
	refuses bool
	// delay is how much later each piece arrives.
	delay time.Duration
	// rate is how many bytes pass in a second; 0 is any number.
	rate int
}

// link is a direction between two nodes. "clients" are one node.
type link struct{ from, to string }

// network has the connections between clients, servers and members. All of them go through proxies.
type network struct {
	mu         sync.Mutex
	conditions map[link]condition
	changed    chan struct{} // closed at the next change
	// names are the names of etcd's members by the ID with which they introduce themselves.
	names map[string]string
}

func newNetwork() *network {
	return &network{conditions: map[link]condition{}, changed: make(chan struct{}), names: map[string]string{}}
}

// set sets the condition of links.
func (n *network) set(c condition, links ...link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range links {
		n.conditions[l] = c
	}
	close(n.changed)
	n.changed = make(chan struct{})
}

// heal makes all links work.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.conditions)
	close(n.changed)
	n.changed = make(chan struct{})
}

// name sets the name of the member with an ID.
func (n *network) name(id, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[id] = name
}

// condition returns the condition of a link, and a channel that is closed when it may have changed.
func (n *network) condition(l link) (condition, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.conditions[l], n.changed
}

// proxy forwards connections from a node to another one at an address. An empty name is that of the
// member that the connection's first request names. It returns where it listens.
func (n *network) proxy(t testing.TB, from, to, address string) string {
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
			go n.connect(connection, from, to, address)
		}
	}()
	return listener.Addr().String()
}

func (n *network) connect(client net.Conn, from, to, address string) {
	defer client.Close()
	var first []byte
	if from == "" {
		if first, from = n.introduction(client); from == "" {
			from = "nobody" // a probe, which links have no condition for
		}
	}
	forth, back := link{from, to}, link{to, from}
	if c, _ := n.condition(forth); c.refuses {
		return
	}
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	ended := make(chan struct{})
	end := sync.OnceFunc(func() { close(ended) })
	go func() {
		defer end()
		n.forward(server, io.MultiReader(bytes.NewReader(first), client), forth, ended)
	}()
	go func() {
		defer end()
		n.forward(client, server, back, ended)
	}()
	for {
		c, changed := n.condition(forth)
		if c.refuses {
			end()
		}
		select {
		case <-ended:
			return
		case <-changed:
		}
	}
}

// forward copies what comes from one side to the other, as the link allows it.
func (n *network) forward(to io.Writer, from io.Reader, l link, ended <-chan struct{}) {
	piece := make([]byte, 32<<10)
	for {
		size, err := from.Read(piece)
		for {
			c, changed := n.condition(l)
			if !c.isCut {
				wait := c.delay
				if c.rate > 0 {
					wait += time.Duration(size) * time.Second / time.Duration(c.rate)
				}
				time.Sleep(wait)
				break
			}
			select {
			case <-changed:
			case <-ended:
				return
			}
		}
		if size > 0 {
			if _, err := to.Write(piece[:size]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// introduction reads the header of a connection's first request, and returns it with the name of
// the member that sent it. The name is empty if the header has none.
func (n *network) introduction(c net.Conn) (header []byte, name string) {
	const field = "\r\nX-Server-From: "
	one := make([]byte, 1)
	for !bytes.HasSuffix(header, []byte("\r\n\r\n")) && len(header) < 64<<10 {
		if _, err := c.Read(one); err != nil {
			return header, ""
		}
		header = append(header, one[0])
	}
	_, id, _ := bytes.Cut(header, []byte(field))
	id, _, _ = bytes.Cut(id, []byte("\r\n"))
	n.mu.Lock()
	defer n.mu.Unlock()
	return header, n.names[string(id)]
}
