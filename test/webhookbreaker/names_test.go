// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookbreaker_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/test/servertest"
)

// hookName is the one name that the tests' DNS knows, unless it is lost.
const hookName = "hook.example.test"

// nameLost says that hookName isn't known.
var nameLost atomic.Bool

// serveNames has this process ask a DNS server of its own, as long as it runs.
func serveNames() error {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	go func() {
		buffer := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answer, err := answerName(buffer[:n]); err == nil {
				_, _ = server.WriteTo(answer, from)
			}
		}
	}()
	return nil
}

func answerName(query []byte) ([]byte, error) {
	var message dnsmessage.Message
	if err := message.Unpack(query); err != nil {
		return nil, err
	}
	message.Response, message.Additionals = true, nil
	question := message.Questions[0]
	if question.Name.String() != hookName+"." || nameLost.Load() {
		message.RCode = dnsmessage.RCodeNameError
	} else if question.Type == dnsmessage.TypeA {
		message.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Type: question.Type, Class: question.Class},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
	}
	return message.Pack()
}

// A backend whose name is lost isn't called until the name is back.
func TestBreakerOfLostName(t *testing.T) {
	ns := namespace(t)
	b := webhooktest.New(t, webhooktest.Allow(), webhooktest.Names(hookName))
	_, port, err := net.SplitHostPort(b.Address())
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort(hookName, port)
	url := "https://" + address + "/"
	installAt(t, ns, b, admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: b.Authority.PEM()},
		admissionregistrationv1.Fail)
	nameLost.Store(true)
	defer nameLost.Store(false)
	b.Stop() // which ends its connections
	b.Restart()
	servertest.Eventually(t, "calls to fail at once", func() bool {
		err = create(t.Context(), ns, "broken")
		return err != nil && strings.Contains(err.Error(), "not asked, as no connection could be made since ")
	})
	if !strings.Contains(err.Error(), "no such host") {
		t.Errorf("the error is %v", err)
	}
	if state := notCalled(t)[address]; !strings.Contains(state.Why, "no such host") {
		t.Errorf("/debug/webhooks says %+v", state)
	}
	nameLost.Store(false)
	servertest.Eventually(t, "the backend to be called", func() bool { return create(t.Context(), ns, "back") == nil })
}
