// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/filesystem"
	"k8s.io/klog/v2"

	"gatehouse.dev/plugin"
)

// pollInterval is how often the directory is read if the file system reports no changes. It is
// upstream's.
const pollInterval = time.Minute

// Webhooks returns the webhooks of a configuration of either kind, as mutating webhooks: the type
// has all fields of validating ones, and reinvocationPolicy.
func Webhooks(configuration Object) []admissionregistrationv1.MutatingWebhook {
	switch c := configuration.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		return c.Webhooks
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		webhooks := make([]admissionregistrationv1.MutatingWebhook, 0, len(c.Webhooks))
		for _, w := range c.Webhooks {
			webhooks = append(webhooks, admissionregistrationv1.MutatingWebhook{
				Name:                    w.Name,
				ClientConfig:            w.ClientConfig,
				Rules:                   w.Rules,
				FailurePolicy:           w.FailurePolicy,
				MatchPolicy:             w.MatchPolicy,
				NamespaceSelector:       w.NamespaceSelector,
				ObjectSelector:          w.ObjectSelector,
				SideEffects:             w.SideEffects,
				TimeoutSeconds:          w.TimeoutSeconds,
				AdmissionReviewVersions: w.AdmissionReviewVersions,
				MatchConditions:         w.MatchConditions,
			})
		}
		return webhooks
	default:
		return nil
	}
}

// Set holds the objects of one directory. It is safe for concurrent use. As a health check
// (k8s.io/apiserver/pkg/server/healthz) it fails while the files in the directory are not in force.
type Set struct {
	plugin  *Plugin
	dir     string
	metrics reloadMetrics

	validate validateFunc

	hash    string // of the files in force; only Load and Run use it
	current atomic.Pointer[[]Object]
	failure atomic.Pointer[string] // why the files are not in force; nil if they are
}

// Load reads all manifests of dir, which is staticManifestsDir of the plugin's configuration. It
// returns an error if anything is wrong with dir or a manifest.
func (p *Plugin) Load(dir string, env *plugin.Env) (*Set, error) {
	if err := validateDir(dir); err != nil {
		return nil, err
	}
	if env.ValidateManifest == nil {
		return nil, errors.New("staticManifestsDir: this program can't validate manifests: leave it out")
	}
	s := &Set{plugin: p, dir: dir, validate: env.ValidateManifest,
		metrics: reloadMetrics{plugin: p.name(), apiServerIDHash: formatHash([]byte(env.APIServerID))}}
	files, err := readDir(dir)
	if err != nil {
		return nil, err
	}
	objects, err := decodeAll(s.plugin, s.validate, files)
	if err != nil {
		return nil, err
	}
	s.install(objects, hashOfFiles(files))
	klog.InfoS("Loaded admission manifest config", "plugin", s.metrics.plugin, "dir", dir, "objects",
		len(objects))
	return s, nil
}

func validateDir(dir string) error {
	path := field.NewPath("staticManifestsDir")
	if !filepath.IsAbs(dir) {
		return field.Invalid(path, dir, "must be an absolute file path")
	}
	info, err := os.Stat(dir)
	if err != nil {
		return field.Invalid(path, dir, fmt.Sprintf("unable to read: %v", err))
	}
	if !info.IsDir() {
		return field.Invalid(path, dir, "must be a directory")
	}
	return nil
}

// CurrentObjects returns the objects of one type that are in force, in the order of their names,
// with all defaults. They stay the same until the files change, and must not be changed.
func CurrentObjects[T Object](s *Set) []T {
	var current []T
	for _, object := range *s.current.Load() {
		if object, ok := object.(T); ok {
			current = append(current, object)
		}
	}
	return current
}

// Run reloads the set when the directory changes, until ctx ends. It calls changed after each
// change of the objects in force. Only one Run may be running.
func (s *Set) Run(ctx context.Context, changed func()) {
	reload := func() {
		if s.reload() {
			changed()
		}
	}
	filesystem.WatchUntil(ctx, pollInterval, s.dir, reload, func(err error) {
		klog.ErrorS(err, "watching manifest directory", "plugin", s.metrics.plugin, "dir", s.dir)
	})
}

// reload reads the directory and reports whether the objects in force have changed.
func (s *Set) reload() bool {
	files, err := readDir(s.dir)
	if err != nil {
		s.recordFailure(err)
		return false
	}
	hash := hashOfFiles(files)
	if hash == s.hash {
		if s.failure.Swap(nil) != nil {
			klog.InfoS("restored admission manifest config", "plugin", s.metrics.plugin, "dir",
				s.dir)
			s.metrics.recordSuccess(hash, hash)
		}
		return false
	}
	objects, err := decodeAll(s.plugin, s.validate, files)
	if err != nil {
		s.recordFailure(err)
		return false
	}
	s.install(objects, hash)
	klog.InfoS("reloaded admission manifest config", "plugin", s.metrics.plugin, "dir", s.dir, "objects",
		len(objects))
	return true
}

// install puts objects in force.
func (s *Set) install(objects []Object, hash string) {
	s.metrics.recordSuccess(s.hash, hash)
	s.hash = hash
	s.current.Store(&objects)
	s.failure.Store(nil)
}

// recordFailure records why the files are not in force.
func (s *Set) recordFailure(err error) {
	klog.ErrorS(err, "reloading admission manifest config", "plugin", s.metrics.plugin, "dir", s.dir)
	reason := err.Error()
	s.failure.Store(&reason)
	s.metrics.recordFailure()
}

// Name returns the name of the health check.
func (s *Set) Name() string { return "admission-manifests/" + s.metrics.plugin }

// Check returns an error that says why the manifests in the directory are not in force, nil if they
// are.
func (s *Set) Check(*http.Request) error {
	if reason := s.failure.Load(); reason != nil {
		return fmt.Errorf("the manifests in %s are not in force, the previous ones still are: %s", s.dir, *reason)
	}
	return nil
}
