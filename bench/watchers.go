// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

const (
	watchers = 200
	// watchedRate is how many pods a second are made while they watch, watchedPods how many in all.
	watchedRate, watchedPods = 500, 2000
)

// watchedFigures has the figures of creates that many clients watch.
type watchedFigures struct {
	rate samples // reached, a second
	p99  samples // ms
	cpu  samples // ms a create, all its events included
	late samples // ms from the last answer until each watcher has its event
}

// createWatched makes pods at a pace while many clients watch all pods, each over its own
// connection.
func (l *load) createWatched(ctx context.Context, f *watchedFigures) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config := rest.CopyConfig(l.server.Config)
	config.ContentType = runtime.ContentTypeJSON // of which a line is an event
	list, err := l.clients[0].CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	var seen sync.WaitGroup
	var failed atomic.Pointer[error]
	fail := func(err error) {
		failed.CompareAndSwap(nil, &err)
		cancel()
	}
	for range watchers {
		client, err := newClient(config)
		if err != nil {
			return err
		}
		stream, err := client.CoreV1().RESTClient().Get().Resource("pods").Namespace(namespace).VersionedParams(
			&metav1.ListOptions{Watch: true, ResourceVersion: list.ResourceVersion}, scheme.ParameterCodec).Stream(ctx)
		if err != nil {
			return fmt.Errorf("watching pods: %w", err)
		}
		seen.Go(func() {
			defer stream.Close()
			if err := readLines(stream, watchedPods); err != nil {
				fail(fmt.Errorf("a watcher: %w", err))
			}
		})
	}
	before, err := cpuOf(l.server.Processes...)
	if err != nil {
		return err
	}
	begin := time.Now()
	b, err := l.createPaced(ctx, watchedPods, watchedRate)
	answered := time.Now()
	if err == nil {
		seen.Wait()
	}
	if failure := failed.Load(); failure != nil {
		return *failure
	}
	if err != nil {
		return err
	}
	after, err := cpuOf(l.server.Processes...)
	if err != nil {
		return err
	}
	f.rate = append(f.rate, float64(watchedPods)/answered.Sub(begin).Seconds())
	f.p99 = append(f.p99, milliseconds(b.p99))
	f.cpu = append(f.cpu, milliseconds(after-before)/watchedPods)
	f.late = append(f.late, milliseconds(time.Since(answered)))
	return nil
}

// readLines reads n lines.
func readLines(r io.Reader, n int) error {
	buffer := make([]byte, 64<<10)
	for n > 0 {
		read, err := r.Read(buffer)
		n -= bytes.Count(buffer[:read], []byte{'\n'})
		if err != nil && n > 0 {
			return errors.Join(fmt.Errorf("%s events haven't come", strconv.Itoa(n)), err)
		}
	}
	return nil
}
