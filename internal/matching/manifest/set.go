package manifest

import (
	"context"
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
)

// pollInterval is how often the directory is read where the file system tells of no changes. It is
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

// Set is the objects of one directory. It is safe for concurrent use. As a health check
// (k8s.io/apiserver/pkg/server/healthz) it fails while what is in force is not what the directory
// holds.
type Set struct {
	plugin  *Plugin
	dir     string
	metrics reloadMetrics

	hash    string // of the files in force; only Load and Run use it
	current atomic.Pointer[[]Object]
	broken  atomic.Pointer[string] // what is wrong with the files now; nil where they are in force
}

// Load reads all manifests of dir, which is staticManifestsDir of the plugin's configuration.
// Whatever is wrong with it or with a manifest is its error. apiServerID is the server's name in
// the metrics (plugin.Env has it).
func (p *Plugin) Load(dir, apiServerID string) (*Set, error) {
	if err := validateDir(dir); err != nil {
		return nil, err
	}
	s := &Set{plugin: p, dir: dir,
		metrics: reloadMetrics{plugin: p.name(), apiServerIDHash: hashOf([]byte(apiServerID))}}
	files, err := readDir(dir)
	if err != nil {
		return nil, err
	}
	objects, err := decodeAll(s.plugin, files)
	if err != nil {
		return nil, err
	}
	s.take(objects, hashOfFiles(files))
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

// Current are the objects of one type that are in force, in the order of their names, with all
// defaults. They are the same for as long as the files are, and must not be changed.
func Current[T Object](s *Set) []T {
	var current []T
	for _, object := range *s.current.Load() {
		if object, ok := object.(T); ok {
			current = append(current, object)
		}
	}
	return current
}

// Run keeps the set as the directory is until ctx ends. It calls changed each time after Current
// has become another. Only one Run may be running.
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

// reload reads the directory and reports whether that put another set into force.
func (s *Set) reload() bool {
	files, err := readDir(s.dir)
	if err != nil {
		s.fail(err)
		return false
	}
	hash := hashOfFiles(files)
	if hash == s.hash {
		if s.broken.Swap(nil) != nil {
			klog.InfoS("admission manifest config is as it was before it was broken", "plugin", s.metrics.plugin, "dir",
				s.dir)
			s.metrics.succeeded(hash, hash)
		}
		return false
	}
	objects, err := decodeAll(s.plugin, files)
	if err != nil {
		s.fail(err)
		return false
	}
	s.take(objects, hash)
	klog.InfoS("reloaded admission manifest config", "plugin", s.metrics.plugin, "dir", s.dir, "objects",
		len(objects))
	return true
}

func (s *Set) take(objects []Object, hash string) {
	s.metrics.succeeded(s.hash, hash)
	s.hash = hash
	s.current.Store(&objects)
	s.broken.Store(nil)
}

func (s *Set) fail(err error) {
	klog.ErrorS(err, "reloading admission manifest config", "plugin", s.metrics.plugin, "dir", s.dir)
	reason := err.Error()
	s.broken.Store(&reason)
	s.metrics.failed()
}

// Name is the health check's name.
func (s *Set) Name() string { return "admission-manifests/" + s.metrics.plugin }

// Check says why the manifests in the directory are not in force.
func (s *Set) Check(*http.Request) error {
	if reason := s.broken.Load(); reason != nil {
		return fmt.Errorf("the manifests in %s are not in force, those before them still are: %s", s.dir, *reason)
	}
	return nil
}
