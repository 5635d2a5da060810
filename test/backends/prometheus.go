// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package backends

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"gatehouse.dev/test/needs"
)

// scrapeInterval is how far the samples of a container are apart.
const scrapeInterval = time.Minute

// A Container is one whose use of a machine Prometheus has seen.
type Container struct {
	Namespace, Pod, Name, Image string
	// From and To are how long ago that began and ended.
	From, To time.Duration
	// CPU is what it used, in processors, and Memory in bytes: each of the numbers for an equal
	// part of the time.
	CPU, Memory []float64
}

// StartPrometheus runs a Prometheus that has seen the containers, and returns the address of its API. It ends
// with the test.
func StartPrometheus(t testing.TB, containers ...Container) string {
	t.Helper()
	needs.Server(t)
	needs.Programs(t, "prometheus", "promtool")
	dir := t.TempDir()
	samples := filepath.Join(dir, "samples")
	write(t, samples, openMetrics(time.Now(), containers))
	if out, err := exec.CommandContext(t.Context(), "promtool", "tsdb", "create-blocks-from", "openmetrics", samples,
		filepath.Join(dir, "data")).CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	return runPrometheus(t, dir, "{}")
}

// RunPrometheus runs a Prometheus with a configuration, as of what it is to scrape, and returns the address
// of its API. It ends with the test.
func RunPrometheus(t testing.TB, configuration string) string {
	t.Helper()
	needs.Server(t)
	needs.Programs(t, "prometheus")
	return runPrometheus(t, t.TempDir(), configuration)
}

// runPrometheus runs one on the data in a directory.
func runPrometheus(t testing.TB, dir, configuration string) string {
	t.Helper()
	data, config := filepath.Join(dir, "data"), filepath.Join(dir, "prometheus.yml")
	write(t, config, []byte(configuration))
	server := exec.CommandContext(t.Context(), "prometheus", "--config.file="+config, "--storage.tsdb.path="+data,
		"--storage.tsdb.retention.time=90d", "--web.listen-address=127.0.0.1:0")
	server.Dir = dir
	log, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait() // says that it was killed
	})
	return waitUntilReady(t, log)
}

var (
	listening = regexp.MustCompile(`msg="Listening on" address=(\S+)`)
	ready     = regexp.MustCompile(`msg="Server is ready to receive web requests\."`)
)

// waitUntilReady reads the log of a server until it is, and returns its address. Either may come
// first.
func waitUntilReady(t testing.TB, log io.Reader) string {
	t.Helper()
	address, isReady := "", false
	var read bytes.Buffer
	for lines := bufio.NewScanner(io.TeeReader(log, &read)); lines.Scan(); {
		if found := listening.FindStringSubmatch(lines.Text()); found != nil {
			address = "http://" + found[1]
		}
		isReady = isReady || ready.MatchString(lines.Text())
		if isReady && address != "" {
			go io.Copy(io.Discard, log)
			return address
		}
	}
	t.Fatalf("prometheus ended before it was ready:\n%s", read.String())
	return ""
}

// openMetrics is what Prometheus would have scraped from kubelets until now.
func openMetrics(now time.Time, containers []Container) []byte {
	var cpu, memory bytes.Buffer
	cpu.WriteString("# TYPE container_cpu_usage_seconds counter\n")
	memory.WriteString("# TYPE container_memory_working_set_bytes gauge\n")
	for _, c := range containers {
		labels := fmt.Sprintf("namespace=%q,pod=%q,container=%q,image=%q", c.Namespace, c.Pod, c.Name, c.Image)
		count := int((c.From - c.To) / scrapeInterval)
		used := 0.0
		for i := range count {
			at := now.Add(-c.From + time.Duration(i)*scrapeInterval).Unix()
			if len(c.CPU) > 0 {
				fmt.Fprintf(&cpu, "container_cpu_usage_seconds_total{%s,cpu=\"total\"} %g %d\n", labels, used, at)
				used += c.CPU[i*len(c.CPU)/count] * scrapeInterval.Seconds()
			}
			if len(c.Memory) > 0 {
				fmt.Fprintf(&memory, "container_memory_working_set_bytes{%s} %g %d\n", labels,
					c.Memory[i*len(c.Memory)/count], at)
			}
		}
	}
	memory.WriteString("# EOF\n")
	return append(cpu.Bytes(), memory.Bytes()...)
}
