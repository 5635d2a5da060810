// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package audit_test proves that an audit says what a server answers: a server has hundreds of objects, an
// audit predicts what a candidate would refuse, and then the server enforces the candidate, and is sent
// the manifests of the objects again, and the objects as they are.
package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/internal/review/impact"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
	"gatehouse.dev/internal/testlog"
	"gatehouse.dev/plugins"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

func TestMain(m *testing.M) {
	needs.NotShort()
	os.Exit(m.Run())
}

// admin writes what no controller writes.
var admin = &user.DefaultInfo{Name: "kubernetes-admin", Groups: []string{user.SystemPrivilegedGroup,
	user.AllAuthenticated}}

// startServer runs a server without controllers, with changes of its configuration, and ends it with the test.
func startServer(t *testing.T, changes ...func(*server.Config)) *server.Server {
	t.Helper()
	testlog.Show(t)
	dir, err := os.MkdirTemp("", "audit-") // t.TempDir would be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := server.NewConfig(plugins.List)
	config.API.DataDir = dir
	config.Controllers.Controllers = nil // which would delete objects whose owners are not there
	for _, change := range changes {
		change(config)
	}
	if config.API.SecureServing.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s, err := server.New(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		defer testlog.Stopping()()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-s.Ready():
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return s
}

// send sends a request of a user, without authorization.
func send(t *testing.T, s *server.Server, by user.Info, method, path string, body []byte) (int, []byte) {
	t.Helper()
	r := httptest.NewRequestWithContext(request.WithUser(t.Context(), by), method, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	s.Handler(false).ServeHTTP(recorder, r)
	return recorder.Code, recorder.Body.Bytes()
}

// store creates objects, and waits until they are in force.
func store(t *testing.T, s *server.Server, all []manifest) {
	t.Helper()
	for _, m := range all {
		servertest.Retry(t, m.body, func() error {
			code, answer := send(t, s, admin, http.MethodPost, m.path(), m.json(t))
			if code == http.StatusUnprocessableEntity || code == http.StatusBadRequest {
				t.Fatalf("%s: %s", m.body, answer)
			}
			if code != http.StatusCreated && code != http.StatusConflict { // the kind may be known a moment later
				return fmt.Errorf("%d %s", code, answer)
			}
			return nil
		})
	}
	if err := s.AwaitStored(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A manifest is an object as it is created.
type manifest struct {
	resource, namespace string // "apps/v1 deployments"
	body                string
	by                  user.Info // nil for the administrator
}

func (m manifest) path() string {
	version, resource, _ := strings.Cut(m.resource, " ")
	path := "/apis/" + version
	if version == "v1" {
		path = "/api/v1"
	}
	if m.namespace != "" {
		path += "/namespaces/" + m.namespace
	}
	return path + "/" + resource
}

func (m manifest) json(t *testing.T) []byte {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(m.body))
	if err != nil {
		t.Fatalf("%v: %s", err, m.body)
	}
	return data
}

func (m manifest) object(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(m.json(t)); err != nil {
		t.Fatalf("%v: %s", err, m.body)
	}
	return o
}

// connect returns the server as a cluster to read from, by way of a handler that may be nil.
func connect(t *testing.T, s *server.Server, through func(http.RoundTripper) http.RoundTripper) *live.Cluster {
	t.Helper()
	config := servertest.Quick(s.AdminConfig())
	if through != nil {
		config.Wrap(through)
	}
	cluster, err := live.Connect(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// dump writes all objects of a server but its Secrets to a file, as `kubectl get -o json` does.
func dump(t *testing.T, s *server.Server) string {
	t.Helper()
	cluster := connect(t, s, nil)
	resources, _, err := cluster.Resources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for _, resource := range resources {
		if resource.Kind.Kind == "Secret" {
			continue
		}
		gap, err := cluster.Each(t.Context(), resource, func(o *unstructured.Unstructured) error {
			list.Items = append(list.Items, *o)
			return nil
		})
		if gap != nil || err != nil {
			t.Fatal(gap, err)
		}
	}
	data, err := list.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, data, "", "    "); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "objects.json")
	if err := os.WriteFile(path, indented.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// documents returns manifests as a candidate has them.
func documents(t *testing.T, all []manifest) []input.Document {
	t.Helper()
	var documents []input.Document
	for i, m := range all {
		documents = append(documents, input.Document{Source: input.Source{File: "candidate", Line: i + 1}, Object: m.object(t)})
	}
	return documents
}

// A report is the report of an audit as -o json has it.
type report struct {
	Notes   []string
	Summary impact.Summary
	Errors  []impact.Problem
	Results []impact.Result
}

// audit audits files, or a cluster if there are none, and returns all results.
func audit(t *testing.T, candidate []input.Document, cluster *live.Cluster, paths ...string) report {
	t.Helper()
	options := review.TrialOptions{Options: review.Options{Config: server.NewConfig(plugins.List), Live: cluster},
		Before: server.NewConfig(plugins.List), Candidate: candidate, Quotas: review.HasQuotas(candidate)}
	asked := review.AuditOptions{Report: impact.Options{ShowAll: true}}
	if len(paths) > 0 {
		asked.Files = &review.AuditFiles{Paths: paths}
		if err := asked.Files.Scan(t.Context(), candidate); err != nil {
			t.Fatal(err)
		}
		options.State = asked.Files.State()
	}
	trial, err := review.StartTrial(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := trial.Close(); err != nil {
			t.Error(err)
		}
	}()
	found, err := trial.Audit(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	defer found.Close()
	var out bytes.Buffer
	if err := found.Write(&out, "json"); err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// byObject returns the results by their objects.
func (r report) byObject() map[impact.Object]impact.Result {
	all := map[impact.Object]impact.Result{}
	for _, result := range r.Results {
		all[result.Object] = result
	}
	return all
}
