// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"
)

// Options are the settings for what a server keeps of its decisions.
type Options struct {
	// Enabled reports whether decisions are made.
	Enabled bool
	// MaxCount and MaxBytes bound the decisions in memory.
	MaxCount int
	MaxBytes int64
	// LogPath is a file to which each decision is written as a line of JSON; "-" for the standard
	// output, empty for none. It is rotated as the audit log is: at LogMaxSize megabytes, with the
	// old files kept for LogMaxAge days and LogMaxBackup in number, 0 for any.
	LogPath                             string
	LogMaxSize, LogMaxAge, LogMaxBackup int
	LogCompress                         bool
	// Values says which values are shown. Empty is ValuesHidden.
	Values Values
}

// NewOptions returns the defaults: ten thousand decisions, in 64 MiB, and no log. If a log is set,
// it takes at most 1.1 GB.
func NewOptions() Options {
	return Options{Enabled: true, MaxCount: 10_000, MaxBytes: 64 << 20, LogMaxSize: 100, LogMaxBackup: 10,
		Values: ValuesHidden}
}

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&o.Enabled, "decisions", o.Enabled,
		"Record what became of each request and why, and serve that as decisions.gatehouse.dev.")
	flags.IntVar(&o.MaxCount, "decision-max-count", o.MaxCount, "How many decisions are kept in memory.")
	flags.Int64Var(&o.MaxBytes, "decision-max-bytes", o.MaxBytes,
		"How many bytes of memory the decisions may take that are kept.")
	o.AddLogFlags(flags)
}

// AddLogFlags adds the flags of the log alone.
func (o *Options) AddLogFlags(flags *pflag.FlagSet) {
	flags.StringVar((*string)(&o.Values), "decision-values", string(o.Values),
		"Whether decisions show values of environment variables, arguments, commands and headers: hidden or shown. "+
			"Values of Secrets, and values that are named as credentials are, are hidden always.")
	flags.StringVar(&o.LogPath, "decision-log-path", o.LogPath,
		"If set, every decision is written to this file as a line of JSON. '-' means standard out.")
	flags.IntVar(&o.LogMaxAge, "decision-log-maxage", o.LogMaxAge,
		"The maximum number of days to retain old decision log files based on the timestamp encoded in their filename.")
	flags.IntVar(&o.LogMaxBackup, "decision-log-maxbackup", o.LogMaxBackup,
		"The maximum number of old decision log files to retain. 0 means no limit.")
	flags.IntVar(&o.LogMaxSize, "decision-log-maxsize", o.LogMaxSize,
		"The maximum size in megabytes of the decision log file before it gets rotated.")
	flags.BoolVar(&o.LogCompress, "decision-log-compress", o.LogCompress,
		"If set, the rotated decision log files will be compressed using gzip.")
}

// Validate returns an error that names each flag with an invalid value.
func (o *Options) Validate() error {
	var errs []error
	for _, limit := range []struct {
		flag  string
		value int64
	}{
		{"decision-max-count", int64(o.MaxCount)}, {"decision-max-bytes", o.MaxBytes},
		{"decision-log-maxage", int64(o.LogMaxAge)}, {"decision-log-maxbackup", int64(o.LogMaxBackup)},
		{"decision-log-maxsize", int64(o.LogMaxSize)},
	} {
		if limit.value < 0 {
			errs = append(errs, fmt.Errorf("--%s: %d must be greater than or equal to 0", limit.flag, limit.value))
		}
	}
	if o.Values != "" && o.Values != ValuesHidden && o.Values != ValuesShown {
		errs = append(errs, fmt.Errorf("--decision-values: %q must be %s or %s", o.Values, ValuesHidden, ValuesShown))
	}
	if !o.Enabled && o.LogPath != "" {
		errs = append(errs, errors.New("--decision-log-path needs --decisions"))
	}
	return errors.Join(errs...)
}
