// Package requests_test sends real requests to a running server and compares status, reason, message and object with what
// Kubernetes documents. What is expected is taken from Kubernetes' documentation and sources, never from an answer of ours.
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
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"gatehouse.dev/gatehousetest"
)

// deadline bounds every wait for something that the server does in the background, pollInterval is how often it is asked.
const (
	deadline     = 20 * time.Second
	pollInterval = 10 * time.Millisecond
)

// shared is the one server of most tests, each of which keeps to namespaces and names of its own.
var shared *api

// log is what the servers write with klog.
var log = &buffer{}

// api is a server and the ways to speak to it.
type api struct {
	*gatehousetest.Server
	client   kubernetes.Interface
	dynamic  dynamic.Interface
	admin    *http.Client // presents the administrator's certificate
	stranger *http.Client // presents none
}

func TestMain(m *testing.M) {
	flag.Parse()
	captureLog()
	dir, err := os.MkdirTemp("", "requests-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	main := &mainTB{}
	shared = start(main, withProbes, withAudit(dir))
	code := m.Run()
	main.cleanUp()
	os.RemoveAll(dir)
	if code != 0 {
		fmt.Fprintf(os.Stderr, "the servers' log ends with:\n%s\n", log.tail(8000))
	}
	os.Exit(code)
}

func start(t testing.TB, options ...gatehousetest.Option) *api {
	s := &api{Server: gatehousetest.Start(t, options...)}
	config := rest.CopyConfig(s.Config)
	config.QPS = -1
	s.client, s.dynamic = kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config)
	var err error
	if s.admin, err = rest.HTTPClientFor(s.Config); err != nil {
		t.Fatal(err)
	}
	if s.stranger, err = rest.HTTPClientFor(rest.AnonymousClientConfig(s.Config)); err != nil {
		t.Fatal(err)
	}
	return s
}

// mainTB is a testing.TB for the server that TestMain starts, which is no test's own. Methods that it doesn't have
// are nobody's to call.
type mainTB struct {
	testing.TB
	cleanups []func()
}

func (*mainTB) Helper()            {}
func (m *mainTB) Cleanup(f func()) { m.cleanups = append(m.cleanups, f) }

func (m *mainTB) cleanUp() {
	for i := len(m.cleanups) - 1; i >= 0; i-- {
		m.cleanups[i]()
	}
}

func (m *mainTB) Fatal(args ...any) { m.Fatalf("%s", fmt.Sprint(args...)) }

func (m *mainTB) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n%s\n", append(args, log.tail(8000))...)
	m.cleanUp()
	os.Exit(1)
}

func (*mainTB) Errorf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

func captureLog() {
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL"} {
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
