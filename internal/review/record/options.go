// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"gatehouse.dev/internal/linelog"
)

// Options say where requests are recorded.
type Options struct {
	// Path is the file; empty for none. It is rotated at MaxSize megabytes, and MaxBackup old files
	// are kept, 0 for any number.
	Path               string
	MaxSize, MaxBackup int
}

// NewOptions returns the defaults: no file. If one is set, it takes at most 1.1 GB.
func NewOptions() Options { return Options{MaxSize: 100, MaxBackup: 10} }

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Path, "record", o.Path,
		"If set, requests are recorded in this file, for gatehouse replay, without values of Secrets.")
	flags.IntVar(&o.MaxSize, "record-maxsize", o.MaxSize,
		"The maximum size in megabytes of the --record file before it gets rotated.")
	flags.IntVar(&o.MaxBackup, "record-maxbackup", o.MaxBackup,
		"The maximum number of old --record files to retain. 0 means no limit.")
}

// Validate returns an error that names each flag with an invalid value.
func (o *Options) Validate() error {
	var errs []error
	if o.Path == "-" {
		errs = append(errs, errors.New("--record: it must name a file: standard output isn't recorded to"))
	}
	if o.MaxSize < 0 {
		errs = append(errs, fmt.Errorf("--record-maxsize: %d must be greater than or equal to 0", o.MaxSize))
	}
	if o.MaxBackup < 0 {
		errs = append(errs, fmt.Errorf("--record-maxbackup: %d must be greater than or equal to 0", o.MaxBackup))
	}
	return errors.Join(errs...)
}

// Open opens the log, nil without a Path. It creates the file if there is none, readable by its owner
// only. An error means that it can't be written.
func (o *Options) Open() (*Log, error) {
	registerMetrics()
	if o.Path == "" {
		return nil, nil
	}
	lines, err := linelog.Open(linelog.Options{Name: "record", Path: o.Path, MaxSize: o.MaxSize,
		MaxBackups: o.MaxBackup, OnError: onDiskError})
	if err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	return &Log{lines}, nil
}
