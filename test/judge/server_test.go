// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package judge_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/internal/review/judge"
	"gatehouse.dev/internal/testlog"
	"gatehouse.dev/plugin"
	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
	"gatehouse.dev/test/servertest"
)

// idPrefix begins the audit IDs of the requests that are captured.
const idPrefix = "judged-"

// configuration returns the configuration of the candidate.
func configuration() *server.Config {
	config := server.NewConfig(plugins.List)
	config.Admission.Enable = []string{"AlwaysPullImages", "DenyServiceExternalIPs", "ExtendedResourceToleration",
		"LimitPodHardAntiAffinityTopology", "NodeRestriction", "OwnerReferencesPermissionEnforcement"}
	config.Admission.Disable = []string{"ResourceQuota"}
	return config
}

// A capture is an observer of a chain that takes the requests as the chain gets them.
type capture struct {
	plugin.Observe
	mu   sync.Mutex
	seen map[string]*judge.Request
	// attempts counts how often the chain was called for each request.
	attempts map[string]int
	err      error
}

// PhaseBegins takes a request before the mutating phase. If storage has the chain try again, the last
// attempt counts.
func (c *capture) PhaseBegins(ctx context.Context, phase plugin.PhaseStep) context.Context {
	id, _ := audit.AuditIDFrom(ctx)
	if phase.Phase != plugin.Mutating || !strings.HasPrefix(string(id), idPrefix) {
		return ctx
	}
	taken, err := take(string(id), phase.Attributes)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.err = fmt.Errorf("%s: %w", id, err)
	}
	c.seen[string(id)] = taken
	c.attempts[string(id)]++
	return ctx
}

func take(id string, a admission.Attributes) (*judge.Request, error) {
	r := &judge.Request{AuditID: id, User: a.GetUserInfo(), UserAgent: "judge-test", Operation: a.GetOperation(),
		Resource: a.GetResource(), Subresource: a.GetSubresource(), Namespace: a.GetNamespace(), Name: a.GetName(),
		DryRun: a.IsDryRun(), Options: a.GetOperationOptions()}
	var err error
	if r.Object, err = encode(a.GetObject(), a.GetKind()); err != nil {
		return nil, err
	}
	r.OldObject, err = encode(a.GetOldObject(), a.GetKind())
	return r, err
}

func encode(object runtime.Object, kind schema.GroupVersionKind) ([]byte, error) {
	switch object := object.(type) {
	case nil:
		return nil, nil
	case *unstructured.Unstructured:
		return object.MarshalJSON()
	}
	return runtime.Encode(legacyscheme.Codecs.LegacyCodec(kind.GroupVersion()), object)
}

// An api is the real server, which enforces the candidate.
type api struct {
	*server.Server
	*capture
	host   string
	client *http.Client
}

func startServer(t *testing.T) *api {
	t.Helper()
	testlog.Show(t)
	dir, err := os.MkdirTemp("", "judge-") // t.TempDir would be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := configuration()
	config.API.DataDir = dir
	if config.API.SecureServing.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	seen := &capture{seen: map[string]*judge.Request{}, attempts: map[string]int{}}
	config.Observers = []plugin.Observer{seen}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	running, err := server.New(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	t.Cleanup(func() {
		defer testlog.Stopping()()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-running.Ready():
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(running.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &api{running, seen, running.AdminConfig().Host, client}
}

// An answer is what a client got.
type answer struct {
	code     int
	body     []byte
	warnings []string
}

// unless returns an error unless the answer has the code.
func (a answer) unless(code int) error {
	if a.code != code {
		return fmt.Errorf("%d %s", a.code, a.body)
	}
	return nil
}

func (s *api) send(t *testing.T, w write, id string) answer {
	t.Helper()
	body := []byte(w.body)
	if w.contentType != "application/apply-patch+yaml" && len(body) > 0 {
		var err error
		if body, err = yaml.YAMLToJSON(body); err != nil {
			t.Fatalf("%s: %v", w.body, err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), w.method, s.host+w.path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("User-Agent", "judge-test")
	if r.Header.Set("Content-Type", w.contentType); w.contentType == "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if id != "" {
		r.Header.Set("Audit-ID", id)
	}
	if who := strings.Fields(w.user); len(who) > 0 {
		r.Header.Set("Impersonate-User", who[0])
		for _, group := range who[1:] {
			r.Header.Add("Impersonate-Group", group)
		}
	}
	response, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	a := answer{code: response.StatusCode}
	if a.body, err = io.ReadAll(response.Body); err != nil {
		t.Fatal(err)
	}
	warnings, _ := utilnet.ParseWarningHeaders(response.Header.Values("Warning"))
	texts := map[string]bool{}
	for _, w := range warnings {
		texts[w.Text] = true
	}
	a.warnings = slices.Sorted(maps.Keys(texts))
	return a
}

// store creates objects, and returns them as they are then stored.
func (s *api) store(t *testing.T, objects []object) []review.Document {
	t.Helper()
	var names []string
	for _, o := range objects {
		var named struct{ Metadata struct{ Name string } }
		if err := yaml.Unmarshal([]byte(o.body), &named); err != nil {
			t.Fatalf("%v: %s", err, o.body)
		}
		names = append(names, o.path+"/"+named.Metadata.Name)
		servertest.Retry(t, "the service account of a new namespace, or a new kind", func() error {
			a := s.send(t, create(o.path, o.body), "")
			if a.code == http.StatusUnprocessableEntity || a.code == http.StatusBadRequest {
				t.Fatalf("%s: %d %s", o.path, a.code, a.body)
			}
			return a.unless(http.StatusCreated)
		})
	}
	return s.read(t, names...)
}

// read returns objects as they are stored.
func (s *api) read(t *testing.T, paths ...string) []review.Document {
	t.Helper()
	var all []review.Document
	for _, path := range paths {
		object := &unstructured.Unstructured{}
		servertest.Retry(t, path, func() error {
			a := s.send(t, write{method: http.MethodGet, path: path}, "")
			if err := a.unless(http.StatusOK); err != nil {
				return err
			}
			return object.UnmarshalJSON(a.body)
		})
		all = append(all, review.Document{Object: object})
	}
	return all
}
