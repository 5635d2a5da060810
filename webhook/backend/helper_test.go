// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/webhook/backend"
)

// review is the least that webhooktest's handlers answer, in two parts.
var review = [][]byte{[]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1",`),
	[]byte(`"request":{"uid":"1"}}`)}

func newPool(t testing.TB, config backend.Config) *backend.Pool {
	t.Helper()
	pool, err := backend.NewPool(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Retain(nil) })
	return pool
}

func newClient(t testing.TB, pool *backend.Pool, cc admissionregistrationv1.WebhookClientConfig) *backend.Client {
	t.Helper()
	client, err := pool.Client(cc)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// clientOf is a client without credentials for the server.
func clientOf(t testing.TB, server *webhooktest.Server) *backend.Client {
	t.Helper()
	return newClient(t, newPool(t, backend.Config{}), server.ClientConfig("/"))
}

func post(t testing.TB, client *backend.Client) {
	t.Helper()
	if _, err := client.Post(context.Background(), review, 10*time.Second); err != nil {
		t.Fatal(err)
	}
}

// statusCode is the HTTP status that a webhook answered with, of an error of Post; 0 if it gave
// none, or one of success. It is not the status of what an error is made of: a service that isn't
// found is no answer of 404.
func statusCode(err error) int {
	if status, ok := err.(*apierrors.StatusError); ok {
		return int(status.ErrStatus.Code)
	}
	return 0
}

// parallel posts n times at once, and returns the errors joined.
func parallel(clients []*backend.Client, n int) error {
	var (
		wg    sync.WaitGroup
		errs  = make([]error, n)
		start = make(chan struct{})
	)
	for i := range n {
		wg.Go(func() {
			<-start
			_, errs[i] = clients[i%len(clients)].Post(context.Background(), review, 30*time.Second)
		})
	}
	close(start)
	wg.Wait()
	return errors.Join(errs...)
}

// eventually waits for what has to become true within seconds without further ado.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20s: %s", what)
		}
		runtime.Gosched()
		time.Sleep(time.Millisecond) // a poll; there is nothing to be told by
	}
}

// leakFree fails the test if, after all that was registered for its end after this, more goroutines
// of ours or of net/http are left than there are now.
func leakFree(t *testing.T) {
	t.Helper()
	before := network()
	t.Cleanup(func() {
		if t.Failed() {
			return
		}
		eventually(t, "as many goroutines as before", func() bool { return len(network()) <= len(before) })
	})
}

// network are the goroutines that have to do with connections.
func network() (stacks []string) {
	all := make([]byte, 1<<20)
	all = all[:runtime.Stack(all, true)]
	for stack := range strings.SplitSeq(string(all), "\n\n") {
		if strings.Contains(stack, "net/http") || strings.Contains(stack, "http2.") ||
			strings.Contains(stack, "backend.(*") || strings.Contains(stack, "crypto/tls") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// write puts a file into dir, by renaming as everybody should.
func write(t testing.TB, dir, name, content string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
	return file
}
