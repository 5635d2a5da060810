// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package commandline

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// Logging controls the server's log. Without -v it shows only warnings and errors, and only while the
// server is up. During a start, failures that pass are of no interest, and a failure that doesn't is
// the command's own error.
type Logging struct {
	// Plain makes warnings and errors sentences, without klog's letter, time and place in the code. With -v
	// they have these.
	Plain     bool
	verbosity int
	shown     atomic.Bool
	out       io.Writer
}

// AddFlags adds the flag -v.
func (l *Logging) AddFlags(fs *pflag.FlagSet) {
	fs.IntVarP(&l.verbosity, "v", "v", 0,
		"Log level: 0 shows warnings and errors, 1 what the server does, and more with each step, as klog's -v.")
}

// Apply makes klog write to out.
func (l *Logging) Apply(out io.Writer) {
	l.out = out
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	set := func(name, value string) {
		if err := fs.Set(name, value); err != nil {
			panic(err) // the names are klog's
		}
	}
	if l.verbosity > 0 {
		set("v", strconv.Itoa(l.verbosity))
		klog.SetOutput(out)
		return
	}
	set("skip_headers", strconv.FormatBool(l.Plain))
	set("logtostderr", "false")
	set("stderrthreshold", "4") // above FATAL, the highest: klog uses only the writers below
	set("one_output", "true")
	klog.SetOutputBySeverity("INFO", io.Discard)
	klog.SetOutputBySeverity("WARNING", l)
	klog.SetOutputBySeverity("ERROR", l)
	klog.SetOutputBySeverity("FATAL", fatal{out})
}

// Show shows or hides warnings and errors from now on.
func (l *Logging) Show(shown bool) { l.shown.Store(shown) }

// UntilStopped returns a context that ends a moment after asked does. In that moment the log is
// hidden, so that it doesn't show the errors that a stop causes.
func (l *Logging) UntilStopped(asked context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(context.WithoutCancel(asked))
	context.AfterFunc(asked, func() {
		l.Show(false)
		stop()
	})
	return ctx, stop
}

// Write implements io.Writer for klog.
func (l *Logging) Write(line []byte) (int, error) {
	if !l.shown.Load() {
		return len(line), nil
	}
	return l.out.Write(line)
}

// fatal ends the process with a sentence. klog would write the stacks of all goroutines. Kubernetes
// logs a fatal error if one of its hooks fails while the server starts.
type fatal struct{ out io.Writer }

// Write implements io.Writer for klog.
func (f fatal) Write(line []byte) (int, error) {
	message := string(line)
	if _, after, ok := strings.Cut(message, "] "); ok { // the time and the place come before it
		message = after
	}
	fmt.Fprintf(f.out, "gatehouse: %s\n", strings.TrimSpace(message))
	os.Exit(1)
	return 0, nil
}
