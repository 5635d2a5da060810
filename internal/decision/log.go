// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"encoding/json"
	"fmt"

	"k8s.io/klog/v2"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/linelog"
)

// A Log writes decisions as lines of JSON, in the order in which they were made. A line that can't
// be written is dropped and counted. It refuses no request. If too many lines wait for a busy disk,
// requests wait, as they do for the audit log.
type Log struct{ *linelog.Log }

// OpenLog opens the log, nil without a LogPath. It creates the file if there is none, readable by
// its owner only.
func (o *Options) OpenLog() (*Log, error) {
	if o.LogPath == "" {
		return nil, nil
	}
	log, err := linelog.Open(linelog.Options{Name: "decision log", Path: o.LogPath, MaxSize: o.LogMaxSize,
		MaxAge: o.LogMaxAge, MaxBackups: o.LogMaxBackup, Compress: o.LogCompress, OnError: logErrorsTotal.Inc})
	if err != nil {
		return nil, fmt.Errorf("--decision-log-path: %w", err)
	}
	return &Log{log}, nil
}

// Tell writes a decision.
func (l *Log) Tell(d *v1alpha1.Decision) {
	line, err := json.Marshal(d)
	if err != nil {
		klog.ErrorS(err, "Cannot encode a decision for the decision log", "decision", klog.KObj(d))
		return
	}
	l.Write(append(line, '\n'))
}
