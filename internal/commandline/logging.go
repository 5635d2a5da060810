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

// Logging is what the server's parts log. Without -v only warnings and errors are shown, and only
// while the server is up: what fails for a moment during a start is tried again, and what fails for
// good is the command's own error.
type Logging struct {
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
	set("logtostderr", "false")
	set("stderrthreshold", "4") // above FATAL, the highest: the writers below are all
	set("one_output", "true")
	klog.SetOutputBySeverity("INFO", io.Discard)
	klog.SetOutputBySeverity("WARNING", l)
	klog.SetOutputBySeverity("ERROR", l)
	klog.SetOutputBySeverity("FATAL", fatal{out})
}

// Show begins or ends showing warnings and errors.
func (l *Logging) Show(shown bool) { l.shown.Store(shown) }

// UntilStopped is a context that ends when asked does, a moment later: what a stop makes the
// server's parts say isn't shown.
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

// fatal ends the process with a sentence, where klog would write the stacks of all goroutines. A
// hook of Kubernetes' that fails while the server starts says so this way.
type fatal struct{ out io.Writer }

// Write implements io.Writer for klog.
func (f fatal) Write(line []byte) (int, error) {
	_, message, _ := strings.Cut(string(line), "] ") // what is before is the time and the place
	fmt.Fprintf(f.out, "gatehouse: %s\n", strings.TrimSpace(message))
	os.Exit(1)
	return 0, nil
}
