// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gatehouse.dev/test/peers"
)

// A reviewPost is a review, and the URL that it is posted to.
type reviewPost struct {
	url  string
	body []byte
}

// replay posts n reviews. Each of the clients posts one after the other, over HTTP/1.1 and
// connections that stay, as API servers post to Services. hook is the process that answers: its
// processor time is in the figures. All reviews must be allowed.
func replay(ctx context.Context, hook *peers.Process, reviews []reviewPost, clients, n int) (batch, error) {
	client := insecureClient(clients)
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	post := func(latencies []time.Duration) {
		var group sync.WaitGroup
		next.Store(0)
		for range clients {
			group.Go(func() {
				for i := next.Add(1) - 1; i < int64(len(latencies)); i = next.Add(1) - 1 {
					begin := time.Now()
					if err := reviews[i%int64(len(reviews))].post(ctx, client); err != nil {
						cancel(err)
						return
					}
					latencies[i] = time.Since(begin)
				}
			})
		}
		group.Wait()
	}
	post(make([]time.Duration, 2*clients)) // the connections
	cpu, err := cpuOf(hook)
	if err != nil {
		return batch{}, err
	}
	latencies := make([]time.Duration, n)
	begin := time.Now()
	post(latencies)
	took := time.Since(begin)
	cpuThen, err := cpuOf(hook)
	if err = errors.Join(err, context.Cause(ctx)); err != nil {
		return batch{}, err
	}
	slices.Sort(latencies)
	return batch{rate: float64(n) / took.Seconds(), cpu: (cpuThen - cpu) / time.Duration(n), p50: latencies[n/2],
		p99: latencies[n*99/100]}, nil
}

// insecureClient returns a client that doesn't verify certificates. Nothing secret is sent.
func insecureClient(connections int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections,
		TLSNextProto:    map[string]func(string, *tls.Conn) http.RoundTripper{}, // no HTTP/2
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}

// errRefused says that a webhook has refused the object of a review.
var errRefused = errors.New("refused")

func (p reviewPost) post(ctx context.Context, client *http.Client) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(p.body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	// Decoding the whole answer would add the client's work to the webhook's figures.
	if bytes.Contains(answer, []byte(`"allowed":false`)) {
		return fmt.Errorf("%s: %w: %.500s", p.url, errRefused, answer)
	}
	if response.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"allowed":true`)) {
		return fmt.Errorf("%s: %s: %.500s", p.url, response.Status, answer)
	}
	return nil
}

// replaceNamespace returns a review as if it were of another namespace.
func replaceNamespace(review []byte, from, to string) []byte {
	return bytes.ReplaceAll(review, fmt.Appendf(nil, `"namespace":%q`, from), fmt.Appendf(nil, `"namespace":%q`, to))
}
