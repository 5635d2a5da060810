// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/util/filesystem"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
)

const (
	// reloadPoll is how often the admission configuration is read if the file system reports no
	// changes. Kubernetes uses the same value for its reloads.
	reloadPoll = time.Minute
	// reloadSettle is how long to wait after a change for further changes that belong to it.
	reloadSettle = 50 * time.Millisecond
)

// The metrics have the names of those for configurations that kube-apiserver reloads.
var (
	reloadsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace: "apiserver", Subsystem: "admission_config_controller", Name: "automatic_reloads_total",
		Help: "Total number of reload successes and failures of the admission configuration split by apiserver " +
			"identity.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"status", "apiserver_id_hash"})

	reloadTime = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "apiserver", Subsystem: "admission_config_controller",
		Name: "automatic_reload_last_timestamp_seconds",
		Help: "Timestamp of the last successful or failed reload of the admission configuration split by " +
			"apiserver identity.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"status", "apiserver_id_hash"})

	registerReloads = sync.OnceFunc(func() { legacyregistry.MustRegister(reloadsTotal, reloadTime) })
)

// reloads holds the results of reloads of the admission configuration.
type reloads struct {
	idHash string
	mu     sync.Mutex
	// files are the files of the configuration in force, and those that it names.
	files []string
	// lastError is the last logged error of a configuration that can't be used, or empty.
	lastError string
}

func newReloads(apiServerID string, files []string) *reloads {
	registerReloads()
	return &reloads{idHash: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(apiServerID))), files: files}
}

func (r *reloads) count(status string) {
	reloadsTotal.WithLabelValues(status, r.idHash).Inc()
	reloadTime.WithLabelValues(status, r.idHash).SetToCurrentTime()
}

func (r *reloads) current() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.files
}

// ReloadAdmission reads the admission configuration and applies it to the plugins. Running requests
// end with the configuration with which they began. If the new configuration has an error, the old
// one stays in force. The list of running plugins doesn't change.
func (s *Server) ReloadAdmission() error {
	s.reloads.mu.Lock()
	defer s.reloads.mu.Unlock()
	_, config, err := s.config.Admission.Load(s.config.Plugins)
	changed := false
	if err == nil {
		changed, err = s.chain.Reload(config)
	}
	switch {
	case err != nil:
		s.reloads.count("failure")
		// A file that is being written is read as it grows, and each read fails.
		if s.reloads.lastError != err.Error() {
			s.reloads.lastError = err.Error()
			klog.ErrorS(err, "Reloading the admission configuration: the last good one stays in force", "file",
				s.config.Admission.ConfigFile)
		}
		return err
	case s.reloads.lastError != "":
		// The log shows this with the error before it, so it is a warning.
		klog.Warningf("Reloaded the admission configuration, which can be used again: %s",
			strings.Join(s.chain.Files(), ", "))
		s.reloads.count("success")
	case changed:
		klog.InfoS("Reloaded the admission configuration", "files", s.chain.Files())
		s.reloads.count("success")
	}
	s.reloads.lastError, s.reloads.files = "", s.chain.Files()
	return nil
}

// forget makes the next failing reload log its error, even if it is the same as the last one.
func (r *reloads) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lastError != "" {
		r.lastError = "?"
	}
}

// FollowAdmission reloads the admission configuration whenever one of its files changes or a signal
// arrives, until ctx ends.
func (s *Server) FollowAdmission(ctx context.Context, signals <-chan os.Signal) {
	for ctx.Err() == nil {
		s.followFiles(ctx, signals)
	}
}

// followFiles reloads when one of the current files changes, until the configuration has others.
func (s *Server) followFiles(ctx context.Context, signals <-chan os.Signal) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	files, changed := s.reloads.current(), make(chan struct{}, 1)
	for _, file := range files {
		go filesystem.WatchUntil(watching, reloadPoll, file, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		}, func(err error) { klog.V(1).InfoS("Watching the admission configuration", "file", file, "err", err) })
	}
	for slices.Equal(files, s.reloads.current()) {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			s.reloads.forget()
		case <-changed:
			time.Sleep(reloadSettle)
		}
		_ = s.ReloadAdmission() // it has logged its error
	}
}
