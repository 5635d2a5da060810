// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"gatehouse.dev/internal/webhooktest"
)

// What a call costs: Post, and a bare POST of the same bytes to the same server over net/http's
// HTTP/2.
//
//	go test -bench Post -benchmem ./webhook/backend
func BenchmarkPost(b *testing.B) {
	question := append(bytes.TrimSuffix(slices.Concat(review...), []byte("}}")),
		[]byte(`,"object":"`+string(bytes.Repeat([]byte("x"), 4<<10))+`"}}`)...)
	answer := []byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{"uid":"1",` +
		`"allowed":true}}`)
	server := webhooktest.New(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	}))
	client := clientOf(b, server)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(server.Authority.PEM())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true,
		DisableCompression: true}
	b.Cleanup(transport.CloseIdleConnections)
	bare := http.Client{Transport: transport}
	url := server.URL("/?timeout=10s")

	calls := map[string]func() error{
		"Post": func() error {
			_, err := client.Post(context.Background(), [][]byte{question}, 10*time.Second)
			return err
		},
		"bare": func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(question))
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := bare.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.ReadAll(resp.Body)
			return err
		},
	}
	for _, name := range []string{"bare", "Post"} {
		call := calls[name]
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := call(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := call(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
