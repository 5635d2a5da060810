// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package servertest

import (
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// Forwarder is an address from which connections go on to others, as behind a Service. What lies
// between can be cut.
type Forwarder struct {
	// Address is where it listens, host:port.
	Address string
	// Refused is how many connections went nowhere.
	Refused atomic.Int64

	mu   sync.Mutex
	to   []string
	next int
	open map[net.Conn]bool
}

// Forward forwards to the addresses until the test is over.
func Forward(t testing.TB, to ...string) *Forwarder {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &Forwarder{Address: listener.Addr().String(), to: to, open: map[net.Conn]bool{}}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go f.forward(connection)
		}
	}()
	return f
}

// To has new connections go to the addresses in turn, past those where nobody listens. With none
// they are refused.
func (f *Forwarder) To(addresses ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.to = slices.Clone(addresses)
}

// Cut has connections go nowhere, those that are open and new ones, until To.
func (f *Forwarder) Cut() {
	f.To()
	f.mu.Lock()
	defer f.mu.Unlock()
	for connection := range f.open {
		connection.Close()
	}
}

func (f *Forwarder) forward(from net.Conn) {
	f.mu.Lock()
	f.next++
	to, next := f.to, f.next
	f.mu.Unlock()
	for i := range to {
		other, err := net.Dial("tcp", to[(next+i)%len(to)])
		if err != nil {
			continue
		}
		f.join(from, other)
		return
	}
	f.Refused.Add(1)
	from.Close()
}

// join has two connections forward to each other until one of them hangs up.
func (f *Forwarder) join(from, to net.Conn) {
	f.mu.Lock()
	f.open[from] = true
	if len(f.to) == 0 { // cut meanwhile
		from.Close()
	}
	f.mu.Unlock()
	defer func() {
		from.Close()
		to.Close()
		f.mu.Lock()
		delete(f.open, from)
		f.mu.Unlock()
	}()
	go func() {
		_, _ = io.Copy(to, from)
		to.Close()
	}()
	_, _ = io.Copy(from, to)
}
