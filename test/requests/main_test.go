// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requests_test sends real requests to a running server and compares status, reason,
// message and object with what Kubernetes documents. What is expected is taken from Kubernetes'
// documentation and sources, never from an answer of ours.
package requests_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

var suite servertest.Suite

// shared is the one server of most tests, each of which keeps to namespaces and names of its own.
var shared *api

// log is what the servers write with klog.
var log = &buffer{}

// api is a server and the ways to speak to it.
type api struct {
	*servertest.Cluster
	admin    *http.Client // presents the administrator's certificate
	stranger *http.Client // presents none
}

func TestMain(m *testing.M) {
	needs.NotShort()
	captureLog()
	suite.Cleanup(func() {
		if suite.Failed() {
			fmt.Fprintf(os.Stderr, "the servers' log ends with:\n%s\n", log.tail(8000))
		}
	})
	dir, err := os.MkdirTemp("", "requests-")
	if err != nil {
		suite.Fatal(err)
	}
	suite.Cleanup(func() { os.RemoveAll(dir) })
	shared = start(&suite, gatehousetest.WithConfig(withProbes), withAudit(dir))
	os.Exit(suite.Run(m))
}

func start(t testing.TB, options ...gatehousetest.Option) *api {
	s := &api{Cluster: servertest.Start(t, options...)}
	var err error
	if s.admin, err = rest.HTTPClientFor(s.Config); err != nil {
		t.Fatal(err)
	}
	if s.stranger, err = rest.HTTPClientFor(rest.AnonymousClientConfig(s.Config)); err != nil {
		t.Fatal(err)
	}
	return s
}

func captureLog() {
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false",
		"stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			panic(err)
		}
	}
	// klog writes an error to the logs of the lesser severities, too.
	for _, severity := range []string{"FATAL", "ERROR", "WARNING"} {
		klog.SetOutputBySeverity(severity, io.Discard)
	}
	klog.SetOutputBySeverity("INFO", log)
}

// buffer is a bytes.Buffer for many writers.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(data)
}

// from is what was written after the first n bytes.
func (b *buffer) from(n int) string {
	klog.Flush()
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.Bytes()[n:])
}

func (b *buffer) size() int {
	klog.Flush()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Len()
}

func (b *buffer) tail(n int) string {
	return b.from(max(0, b.size()-n))
}
