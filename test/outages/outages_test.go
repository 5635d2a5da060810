// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package outages_test breaks the clusters of examples/outages on a running server. Lint has to find the mistake,
// a drill has to say what stops, and on the server that stops, and nothing else.
package outages_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/internal/drill"
	"gatehouse.dev/internal/lint"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/webhooktest"
	"gatehouse.dev/server"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

const examples = "../../examples/outages"

func TestMain(m *testing.M) {
	needs.NotShort()
	os.Exit(m.Run())
}

// TestPredictions compares what lint and drills say of the examples with the table in their README.
func TestPredictions(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(examples, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(examples, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		e := read(t, file)
		var ids, stops []string
		for _, f := range e.lint(t).Findings {
			if id := "`" + f.ID + "`"; !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		outage := e.drill(t)
		for _, area := range outage.Stops {
			stops = append(stops, area.Name)
		}
		if len(stops) == 0 {
			stops = []string{"nothing"}
		}
		row := fmt.Sprintf("| %s | %s | %s | %s |\n", filepath.Base(file), strings.Join(ids, ", "), strings.Join(stops, ", "),
			outage.Heals)
		if !strings.Contains(string(text), row) {
			t.Errorf("README.md doesn't say %s", row)
		}
	}
}

// TestOutages has a server enforce each example while nothing answers for its webhooks. Then the fixed example,
// in which the webhook can come back, is enforced in its place.
func TestOutages(t *testing.T) {
	for _, name := range []string{"own-namespace", "network", "mesh", "own-injection", "own-certificate"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := read(t, filepath.Join(examples, name+".yaml"))
			outage := e.drill(t)
			s := start(t, e)
			writes := e.writes()
			for _, w := range writes {
				servertest.Eventually(t, w.what+" to be admitted", func() bool { return s.try(t, w) == nil })
			}
			s.apply(t, e.configuration())
			stopped, goOn := split(writes, outage)
			// First what stops: after that the configuration is in force, and what goes on does so with it.
			for _, w := range stopped {
				var err error
				servertest.Eventually(t, w.what+" to be refused", func() bool { err = s.try(t, w); return err != nil })
				if by := e.webhookName(); !strings.Contains(err.Error(), `failed calling webhook "`+by+`"`) {
					t.Errorf("%s: the error is %v", w.what, err)
				}
			}
			for _, w := range goOn {
				if err := s.try(t, w); err != nil {
					t.Errorf("%s is refused: %v", w.what, err)
				}
			}
			if len(stopped) == 0 {
				t.Error("nothing stops")
			}

			e.fix(t)
			if again := e.drill(t); again.Heals != drill.Yes {
				t.Errorf("fixed, it heals: %s, %v", again.Heals, again.Blocked)
			} else {
				outage = again
			}
			s.apply(t, e.configuration())
			stopped, goOn = split(writes, outage)
			for _, w := range goOn {
				servertest.Eventually(t, w.what+" to be admitted", func() bool { return s.try(t, w) == nil })
			}
			for _, w := range stopped {
				if err := s.try(t, w); err == nil {
					t.Errorf("%s is admitted", w.what)
				}
			}
		})
	}
}

// Webhooks under Ignore that hang cost the first writes time. None is refused, and soon they aren't called.
func TestIgnoredTimeouts(t *testing.T) {
	t.Parallel()
	e := read(t, filepath.Join(examples, "ignored-timeouts.yaml"))
	s := start(t, e)
	pod := write{"a pod", newPod("shop", nil, nil)}
	servertest.Eventually(t, "pods to be admitted", func() bool { return s.try(t, pod) == nil })
	address := webhooktest.Silent(t)
	configuration := e.configuration()
	webhooks := configuration.Object["webhooks"].([]any)
	for _, w := range webhooks {
		w.(map[string]any)["clientConfig"] = map[string]any{"url": "https://" + address + "/"}
	}
	s.apply(t, configuration)
	servertest.Eventually(t, "the backend not to be called any more", func() bool {
		begin := time.Now()
		if err := s.try(t, pod); err != nil {
			t.Fatalf("refused after %v: %v", time.Since(begin), err)
		}
		body, err := s.Client.CoreV1().RESTClient().Get().AbsPath("/debug/webhooks").DoRaw(t.Context())
		return err == nil && strings.Contains(string(body), address)
	})
	// A client that has less time than one of the webhooks takes isn't refused either.
	config := rest.CopyConfig(s.Config)
	config.Timeout = 5 * time.Second
	s.dynamic = dynamic.NewForConfigOrDie(config)
	if err := s.try(t, pod); err != nil {
		t.Error(err)
	}
}

// split returns the writes that stop, as a drill says, and those that go on.
func split(writes []write, o *drill.Outage) (stopped, goOn []write) {
	for _, w := range writes {
		if isStopped(o, w.what) {
			stopped = append(stopped, w)
		} else {
			goOn = append(goOn, w)
		}
	}
	return stopped, goOn
}

// isStopped reports whether a drill says that a write is refused.
func isStopped(o *drill.Outage, what string) bool {
	return slices.ContainsFunc(o.Stops, func(a drill.Area) bool { return slices.Contains(a.Writes, what) }) ||
		slices.ContainsFunc(o.Blocked, func(b drill.Blocked) bool { return b.What == what })
}

// An example is one of the files.
type example struct {
	file      string
	documents []input.Document
}

func read(t *testing.T, file string) *example {
	t.Helper()
	documents, errs := input.Read([]string{file}, nil)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return &example{file, documents}
}

func (e *example) lint(t *testing.T) *lint.Report {
	t.Helper()
	report, err := lint.Check(t.Context(), lint.Options{Documents: e.documents})
	if err != nil || report.Summary.Unread > 0 {
		t.Fatal(err, report)
	}
	return report
}

// drill returns the outage of the example's only backend.
func (e *example) drill(t *testing.T) *drill.Outage {
	t.Helper()
	report, err := drill.Run(t.Context(), drill.Options{Documents: e.documents, Namespace: "default"})
	if err != nil || len(report.Outages) != 1 || len(report.Unread) > 0 {
		t.Fatal(err, report)
	}
	return &report.Outages[0]
}

// fix makes the changes of lint --fix.
func (e *example) fix(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(e.file)
	if err != nil {
		t.Fatal(err)
	}
	options := lint.Options{Documents: e.documents, Texts: map[string][]byte{e.file: text}}
	fixed, err := lint.Fix(t.Context(), &options)
	if err != nil || fixed.Count == 0 || len(fixed.Notes) > 0 {
		t.Fatal(err, fixed)
	}
	e.documents = options.Documents
}

func (e *example) configuration() *unstructured.Unstructured {
	return e.documents[len(e.documents)-1].Object.DeepCopy() // the files end with it
}

func (e *example) webhookName() string {
	return e.configuration().Object["webhooks"].([]any)[0].(map[string]any)["name"].(string)
}

// A write is the creation of an object, in a drill's words.
type write struct {
	what   string
	object *unstructured.Unstructured
}

// writes returns the creations of the workloads' pods, of a pod in the namespace shop, and of what renews a
// certificate.
func (e *example) writes() []write {
	all := []write{{"the creation of pods in shop", newPod("shop", nil, nil)}}
	for _, d := range e.documents {
		o := d.Object
		switch o.GetKind() {
		case "Deployment", "DaemonSet":
			labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
			spec, _, _ := unstructured.NestedMap(o.Object, "spec", "template", "spec")
			all = append(all, write{fmt.Sprintf("the creation of pods of %s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName()),
				newPod(o.GetNamespace(), labels, spec)})
		case "Certificate":
			request := &unstructured.Unstructured{Object: map[string]any{"kind": "CertificateRequest",
				"apiVersion": "cert-manager.io/v1", "metadata": map[string]any{"name": "renewal", "namespace": o.GetNamespace()}}}
			all = append(all, write{"the writing of certificaterequests in " + o.GetNamespace(), request})
		}
	}
	return all
}

func newPod(namespace string, labels map[string]string, spec map[string]any) *unstructured.Unstructured {
	if spec == nil {
		spec = map[string]any{"containers": []any{map[string]any{"name": "c", "image": "example.com/c:1"}}}
	}
	pod := &unstructured.Unstructured{Object: map[string]any{"kind": "Pod", "apiVersion": "v1", "spec": spec}}
	pod.SetNamespace(namespace)
	pod.SetName("pod")
	pod.SetLabels(labels)
	return pod
}

// A cluster has an example, but for its webhooks.
type cluster struct {
	*servertest.Cluster
	dynamic dynamic.Interface
}

func start(t *testing.T, e *example) *cluster {
	t.Helper()
	running := servertest.Start(t, gatehousetest.WithConfig(func(c *server.Config) { c.WebhookBreaker = true }))
	s := &cluster{running, dynamic.NewForConfigOrDie(servertest.Quick(running.Config))}
	for _, d := range e.documents[:len(e.documents)-1] {
		if d.Object.GetKind() != "Certificate" { // its definition takes a while
			s.apply(t, d.Object)
		}
	}
	return s
}

// resource returns the API of an object's kind.
func (s *cluster) resource(o *unstructured.Unstructured) dynamic.ResourceInterface {
	resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	if o.GetNamespace() == corev1.NamespaceAll {
		return s.dynamic.Resource(resource)
	}
	return s.dynamic.Resource(resource).Namespace(o.GetNamespace())
}

func (s *cluster) apply(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	if _, err := s.resource(o).Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test",
		Force: true}); err != nil {
		t.Fatal(err)
	}
}

// try makes a dry run of a write.
func (s *cluster) try(t *testing.T, w write) error {
	_, err := s.resource(w.object).Create(t.Context(), w.object.DeepCopy(),
		metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}
