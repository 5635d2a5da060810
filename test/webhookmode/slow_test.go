// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookmode_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// mostBesideSlow is the memory in bytes that the chart gives a replica. The tests' binary has the
// whole server in it: its own pages don't count.
const mostBesideSlow = 256 << 20

// API servers are answered within 5 seconds beside hundreds of callers that send a part of a review
// and wait, and the process keeps to its memory.
func TestSlowCallers(t *testing.T) {
	t.Setenv("GOMEMLIMIT", strconv.Itoa(mostBesideSlow/10*9)) // as a replica has it in a container
	r := start(t, "--plugins=AlwaysPullImages", "--shutdown-delay-duration=0s")
	const header = "POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" +
		"Content-Length: 7000000\r\n\r\n"
	for _, slow := range []struct {
		callers, bytes int
	}{{2, 1}, {1200, 1}, {200, 2 << 20}} {
		t.Run(fmt.Sprintf("callers=%d,bytes=%d", slow.callers, slow.bytes), func(t *testing.T) {
			body := bytes.Repeat([]byte{' '}, slow.bytes)
			var calling sync.WaitGroup
			var mu sync.Mutex
			var open []io.Closer
			for range slow.callers {
				calling.Go(func() {
					c, err := tls.Dial("tcp", r.address(), &tls.Config{InsecureSkipVerify: true})
					if err != nil {
						return // it gave way
					}
					mu.Lock()
					open = append(open, c)
					mu.Unlock()
					_, _ = io.WriteString(c, header)
					_, _ = c.Write(body)
				})
			}
			if slow.bytes == 1 { // they all have begun
				calling.Wait()
			}
			for i := range 10 {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				created, err := cluster.Client.CoreV1().Pods("default").Create(ctx, pod(fmt.Sprintf("beside-%d", i),
					func(p *corev1.Pod) { p.Spec.Containers[0].ImagePullPolicy = corev1.PullNever }), dry)
				cancel()
				if err != nil || created.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways {
					t.Fatalf("a pod: %v, %v", created, err)
				}
			}
			calling.Wait()
			if memory := r.memory(t); memory > mostBesideSlow {
				t.Errorf("%.1f MB are in memory", float64(memory)/1e6)
			} else {
				t.Logf("%.1f MB in memory", float64(memory)/1e6)
			}
			for _, c := range open {
				c.Close()
			}
		})
	}
}

// memory returns how much memory the replica has that isn't of files, in bytes; 0 where the system
// doesn't say.
func (r *replica) memory(t *testing.T) int64 {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.command.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(string(status), "\nRssAnon:")
	value, _, _ = strings.Cut(value, " kB")
	kilobytes, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
