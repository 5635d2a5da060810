package cli

import (
	"flag"
	"io"
	"strconv"
	"sync/atomic"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// logging is what the server's parts log. Without -v only warnings and errors are shown, and only while the server is
// up: what fails for a moment during a start is tried again, and what fails for good is the command's own error.
type logging struct {
	verbosity int
	shown     atomic.Bool
	out       io.Writer
}

func (l *logging) addFlags(fs *pflag.FlagSet) {
	fs.IntVarP(&l.verbosity, "v", "v", 0, "Log level: 0 shows warnings and errors, 1 what the server does, and more with each step, as klog's -v.")
}

// apply makes klog write to out.
func (l *logging) apply(out io.Writer) {
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
	set("stderrthreshold", "FATAL")
	set("one_output", "true")
	klog.SetOutputBySeverity("INFO", io.Discard)
	klog.SetOutputBySeverity("WARNING", l)
	klog.SetOutputBySeverity("ERROR", l)
	klog.SetOutputBySeverity("FATAL", out)
}

// show begins or ends showing warnings and errors.
func (l *logging) show(shown bool) { l.shown.Store(shown) }

// Write implements io.Writer for klog.
func (l *logging) Write(line []byte) (int, error) {
	if !l.shown.Load() {
		return len(line), nil
	}
	return l.out.Write(line)
}
