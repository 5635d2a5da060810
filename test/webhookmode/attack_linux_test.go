// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookmode_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// mostMemory is the memory in bytes that the manifests give a replica. The tests' binary has the
	// whole server in it: its own pages don't count.
	mostMemory = 256 << 20
	// attacker is the address of attackers. The API server has another one. Linux has all of 127.0.0.0/8.
	attacker = "127.0.0.2"
	// bodyHeader begins a request with a large body.
	bodyHeader = "POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n" +
		"Content-Length: 7000000\r\n\r\n"
)

// An attack goes on until ctx ends. It calls a replica from the attacker's address.
type attack func(ctx context.Context, r *replica)

// call sends text on connections of its own, and doesn't read the answers.
func call(connections int, text string) attack {
	return callFrom(func(int) string { return attacker }, connections, text)
}

// callFrom calls as call does, each connection from an address of its number.
func callFrom(address func(i int) string, connections int, text string) attack {
	return func(ctx context.Context, r *replica) {
		var calling sync.WaitGroup
		for i := range connections {
			dialer := tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address(i))}},
				Config: &tls.Config{InsecureSkipVerify: true}}
			calling.Go(func() {
				for ctx.Err() == nil {
					c, err := dialer.DialContext(ctx, "tcp", r.address())
					if err != nil {
						continue // the replica has no room
					}
					stop := context.AfterFunc(ctx, func() { c.Close() })
					_, _ = io.WriteString(c, text)
					_, _ = bufio.NewReader(c).ReadByte() // until the replica answers, or hangs up
					stop()
					c.Close()
					time.Sleep(2 * time.Second) // handshakes take the processors, which are the test's, too
				}
			})
		}
		calling.Wait()
	}
}

// ask asks again and again.
func ask(clients int, request func(r *replica) (*http.Request, error)) attack {
	return func(ctx context.Context, r *replica) {
		var asking sync.WaitGroup
		for range clients {
			asking.Go(func() {
				transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true,
					DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(attacker)}}).DialContext}
				defer transport.CloseIdleConnections()
				for ctx.Err() == nil {
					q, err := request(r)
					if err != nil {
						panic(err)
					}
					response, err := (&http.Client{Transport: transport}).Do(q.WithContext(ctx))
					answered(response, err)
				}
			})
		}
		asking.Wait()
	}
}

// reviewOf returns a request to review an object, with text in its place.
func reviewOf(kind, object string) func(r *replica) (*http.Request, error) {
	text := fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":`+
		`"CREATE","kind":{"version":"v1","kind":%q},"resource":{"version":"v1","resource":"pods"},"namespace":"default",`+
		`"name":"p","object":%s}}`, kind, object)
	return func(r *replica) (*http.Request, error) {
		q, err := http.NewRequest(http.MethodPost, "https://"+r.address()+"/mutate", strings.NewReader(text))
		if err == nil {
			q.Header.Set("Content-Type", "application/json")
		}
		return q, err
	}
}

func many(element string, n int) string { return strings.Repeat(element+",", n-1) + element }

// The API server, a kubelet and Prometheus are answered beside an attacker as without one, and the
// process keeps to the memory that its manifests give it.
func TestAttacks(t *testing.T) {
	t.Setenv("GOMEMLIMIT", strconv.Itoa(mostMemory/10*9)) // as a replica has it in a container
	token := atomic.Int64{}
	for name, attack := range map[string]attack{
		"idle connections":      call(1536, ""),
		"used connections":      call(1536, "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"),
		"unfinished headers":    call(1536, "GET / HTTP/1.1\r\nHost: "+strings.Repeat("a", 30<<10)),
		"bodies of one byte":    call(1536, bodyHeader+"{"),
		"bodies of 2 MiB":       call(200, bodyHeader+strings.Repeat(" ", 2<<20)),
		"answers nobody reads":  call(200, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 100)),
		"reviews of containers": ask(100, reviewOf("Pod", `{"spec":{"containers":[`+many("{}", 17000)+`]}}`)),
		"reviews of lists":      ask(100, reviewOf("PodList", `{"items":[`+many("{}", 17000)+`]}`)),
		"reviews of anything":   ask(100, reviewOf("Anything", `{"a":[`+many(`{"a":0}`, 17000)+`]}`)),
		"reviews of numbers":    ask(100, reviewOf("Anything", `{"a":[`+many("0", 120000)+`]}`)),
		"reviews that are large": ask(100, reviewOf("Pod", `{"metadata":{"annotations":{"a":"`+
			strings.Repeat("a", 6<<20)+`"}}}`)),
		"/metrics": ask(200, func(r *replica) (*http.Request, error) {
			return http.NewRequest(http.MethodGet, "https://"+r.address()+"/metrics", http.NoBody)
		}),
		"/decisions": ask(200, func(r *replica) (*http.Request, error) {
			q, err := http.NewRequest(http.MethodGet, "https://"+r.address()+"/decisions", http.NoBody)
			q.Header.Set("Authorization", fmt.Sprintf("Bearer %d", token.Add(1)))
			return q, err
		}),
	} {
		t.Run(name, func(t *testing.T) {
			r := start(t, "--plugins=AlwaysPullImages", "--shutdown-delay-duration=0s")
			before := r.memory(t)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				attack(ctx, r)
				close(ended)
			}()
			most, slowest := before, time.Duration(0)
			for began, i := time.Now(), 0; time.Since(began) < 3*time.Second; i++ {
				asked := time.Now()
				within, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				created, err := cluster.Client.CoreV1().Pods("default").Create(within, pod(fmt.Sprintf("beside-%d", i),
					func(p *corev1.Pod) { p.Spec.Containers[0].ImagePullPolicy = corev1.PullNever }), dry)
				cancel()
				if err != nil || created.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways {
					t.Fatalf("a pod: %v, %v", created, err)
				}
				for _, path := range []string{"/livez", "/readyz", "/metrics"} {
					client := insecure(t)
					client.Timeout = 30 * time.Second // on a busy machine
					if code, body := r.get(t, client, path); code != http.StatusOK {
						t.Fatalf("%s: %d %.200s", path, code, body)
					}
					client.CloseIdleConnections()
				}
				most, slowest = max(most, r.memory(t)), max(slowest, time.Since(asked))
			}
			stop()
			<-ended
			t.Logf("memory was %.0f MB, became %.0f MB; the slowest round took %s", float64(before)/1e6, float64(most)/1e6,
				slowest.Round(time.Millisecond))
			if most > mostMemory {
				t.Errorf("%.0f MB are in memory", float64(most)/1e6)
			}
		})
	}
}

// Attackers at many addresses keep out others, but take no more memory than one.
func TestMemoryOfManyAddresses(t *testing.T) {
	t.Setenv("GOMEMLIMIT", strconv.Itoa(mostMemory/10*9))
	for name, text := range map[string]string{"bodies": bodyHeader + strings.Repeat(" ", 2<<20),
		"headers": "GET / HTTP/1.1\r\nHost: " + strings.Repeat("a", 30<<10)} {
		t.Run(name, func(t *testing.T) {
			r := start(t, "--plugins=AlwaysPullImages", "--shutdown-delay-duration=0s")
			ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
			defer stop()
			ended := make(chan struct{})
			go func() {
				callFrom(func(i int) string { return fmt.Sprintf("127.1.%d.%d", i/200, 1+i%200) }, 1536, text)(ctx, r)
				close(ended)
			}()
			most := int64(0)
			for attacked := true; attacked; {
				most = max(most, r.memory(t))
				select {
				case <-ended:
					attacked = false
				case <-time.After(20 * time.Millisecond):
				}
			}
			t.Logf("memory became %.0f MB", float64(most)/1e6)
			if most > mostMemory {
				t.Errorf("%.0f MB are in memory", float64(most)/1e6)
			}
		})
	}
}

// memory returns the memory of the replica that isn't of files, in bytes.
func (r *replica) memory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.command.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := bytes.Cut(status, []byte("\nRssAnon:"))
	value, _, _ = bytes.Cut(value, []byte(" kB"))
	kilobytes, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}
