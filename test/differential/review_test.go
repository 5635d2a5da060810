package differential

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/plugin"
	"gatehouse.dev/review"
	"gatehouse.dev/server"
	"gatehouse.dev/test/charts"
)

// compareReview gives the tables' objects to both servers and to review, one after the other:
// verdict, message, warnings and object must be alike, in Gatehouse always, and in kube-apiserver
// but for what docs/differences.md says. What others need is review's state. Then come objects of
// charts, if any.
func compareReview(ctx context.Context, t *testing.T, servers pair, config *server.Config, needed,
	judged []request, charts []*unstructured.Unstructured) {
	t.Helper()
	for _, r := range needed {
		servers.settled(ctx, t, r)
	}
	reviewer, err := review.Start(ctx, review.Options{Config: config, State: servers.ours.state(ctx, t, needed),
		Webhooks: plugin.WebhooksAsked, Authorize: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := reviewer.Close(); err != nil {
			t.Error(err)
		}
	}()
	c := &reviewed{servers: servers, reviewer: reviewer, unlike: map[string]bool{}}
	for i, r := range judged {
		object, collection := written(t, r, i)
		if object == nil || object.GetKind() == "ServiceAccount" {
			continue
		}
		// What is there already waits for what is taken away again, and review takes nothing away.
		if _, again := c.unlike[collection+"/"+object.GetName()]; r.until != "" && !again {
			servers.settled(ctx, t, r)
		}
		c.compare(ctx, t, fmt.Sprintf("request %d, %s", i, r), write{object, collection, r.as, r.kind == "apply"},
			r.differs != "")
	}
	for _, object := range charts {
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		collection := "/apis/" + resource.GroupVersion().String()
		if resource.Group == "" {
			collection = "/api/" + resource.Version
		}
		if namespace := object.GetNamespace(); namespace != "" {
			collection += "/namespaces/" + namespace
		}
		c.compare(ctx, t, fmt.Sprintf("a chart's %s %s", object.GetKind(), object.GetName()),
			write{object: object, collection: collection + "/" + resource.Resource}, false)
	}
	t.Logf("%d objects judged alike by review, Gatehouse and kube-apiserver, %d by review and Gatehouse", c.alike,
		c.apart)
}

// reviewed are the two servers, and review, which are all asked the same.
type reviewed struct {
	servers  pair
	reviewer *review.Reviewer
	// unlike are the objects asked about, and whether the servers don't both have them as they are.
	unlike       map[string]bool
	alike, apart int
}

// compare writes an object to both servers, and has it judged.
func (c *reviewed) compare(ctx context.Context, t *testing.T, what string, w write, differs bool) {
	t.Helper()
	ours, operation := c.servers.ours.write(ctx, t, w)
	theirs, _ := c.servers.theirs.write(ctx, t, w)
	result, err := c.reviewer.With(w.user(), operation).Review(ctx,
		[]input.Document{{Source: input.Source{File: what, Line: 1}, Object: w.object}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := verdictOf(&result.Results[0]); got != ours {
		t.Errorf("%s:\nreview\n%s\nGatehouse\n%s", what, got, ours)
	}
	name := w.collection + "/" + w.object.GetName()
	c.unlike[name] = c.unlike[name] || differs
	switch {
	case c.unlike[name]:
		c.apart++
	case ours != theirs:
		t.Errorf("%s:\nGatehouse\n%s\nkube-apiserver\n%s", what, ours, theirs)
	default:
		c.alike++
	}
}

// ofCharts are the objects of charts that people use, each in a namespace of its name. Webhooks
// come last: nobody is there to answer them.
func ofCharts(ctx context.Context, t *testing.T, bin string) []*unstructured.Unstructured {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(charts.Put(ctx, dir), charts.BuildHelm(ctx, bin)); err != nil {
		t.Fatal(err)
	}
	var objects, webhooks []*unstructured.Unstructured
	for name, flags := range map[string][]string{"gatekeeper": {"--include-crds"}, "kyverno": nil,
		"cert-manager": {"--set=crds.enabled=true"}} {
		helm := exec.CommandContext(ctx, filepath.Join(bin, "helm"), append(flags, "template", name,
			filepath.Join(dir, name), "--namespace="+name)...)
		helm.Stderr = os.Stderr
		rendered, err := helm.Output()
		if err != nil {
			t.Fatalf("%v: %v", helm, err)
		}
		documents, errs := input.Read([]string{"-"}, bytes.NewReader(rendered))
		if len(documents) < 20 || len(errs) > 0 {
			t.Fatalf("%s has %d objects, and errors: %v", name, len(documents), errs)
		}
		namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		namespace.SetName(name)
		objects = append(objects, namespace)
		for _, d := range documents {
			if strings.HasSuffix(d.Object.GetKind(), "WebhookConfiguration") {
				webhooks = append(webhooks, d.Object)
			} else {
				objects = append(objects, d.Object)
			}
		}
	}
	return append(objects, webhooks...)
}

// settled is a request to both servers, once their caches show what it needs.
func (p pair) settled(ctx context.Context, t *testing.T, r request) {
	t.Helper()
	p.ours.settled(ctx, t, r)
	p.theirs.settled(ctx, t, r)
}

// A write is of an object to where it belongs: created, or replaced where it is there, or applied.
type write struct {
	object     *unstructured.Unstructured
	collection string
	as         string // as a request's
	apply      bool
}

// user is who writes, nil for an administrator.
func (w write) user() user.Info {
	if w.as == "" {
		return nil
	}
	name, groups, _ := strings.Cut(w.as, " ")
	all := strings.Fields(groups)
	if !slices.Contains(all, user.AllAuthenticated) {
		all = append(all, user.AllAuthenticated)
	}
	return &user.DefaultInfo{Name: name, Groups: all}
}

// written is what a request creates or applies, and where; nil where it is about something that
// review can't be asked. What is only tried is created under a name of its own, unless it has one.
func written(t *testing.T, r request, i int) (object *unstructured.Unstructured, collection string) {
	t.Helper()
	collection, _, _ = strings.Cut(r.path, "?")
	switch {
	case r.verb == http.MethodPatch && r.kind == "apply" && !strings.HasSuffix(r.path, dry):
		collection = collection[:strings.LastIndex(collection, "/")]
	case r.verb != http.MethodPost:
		return nil, ""
	}
	parts := strings.Split(strings.Trim(collection, "/"), "/")[2:] // without api/v1
	if strings.HasPrefix(collection, "/apis/") {
		parts = parts[1:]
	}
	namespaced := len(parts) == 3 && parts[0] == "namespaces"
	if len(parts) != 1 && !namespaced {
		return nil, ""
	}
	object = &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(r.body), &object.Object); err != nil {
		t.Fatalf("%s: %v", r, err)
	}
	if object.GetName() == "x" {
		object.SetName(fmt.Sprint("x", i))
	}
	if namespaced && object.GetNamespace() == "" {
		object.SetNamespace(parts[1])
	}
	return object, collection
}

// state is what the server has of what the requests made.
func (s compared) state(ctx context.Context, t *testing.T, requests []request) []input.Document {
	t.Helper()
	var documents []input.Document
	for i, r := range requests {
		object, collection := written(t, r, i)
		if object == nil {
			continue
		}
		stored := s.ask(ctx, t, http.MethodGet, collection+"/"+object.GetName(), write{})
		if stored.code == http.StatusOK {
			documents = append(documents, input.Document{Object: stored.object()})
		}
	}
	return documents
}

// An asked is a server's answer.
type asked struct {
	code     int
	warnings []string
	content  []byte
}

func (a asked) object() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(a.content, &object.Object); err != nil {
		return &unstructured.Unstructured{Object: map[string]any{"message": string(a.content)}}
	}
	return object
}

// write does it, and says what that was.
func (s compared) write(ctx context.Context, t *testing.T, w write) (string, review.Operation) {
	t.Helper()
	name := w.collection + "/" + w.object.GetName()
	w.object = w.object.DeepCopy()
	operation, method, path := review.Create, http.MethodPost, w.collection
	if w.apply {
		operation, method, path = review.Apply, http.MethodPatch, name+"?force=true&fieldManager=gatehouse-review"
	} else if w.object.GetName() != "" {
		if stored := s.ask(ctx, t, http.MethodGet, name, write{}); stored.code == http.StatusOK {
			w.object.SetResourceVersion(stored.object().GetResourceVersion())
			operation, method, path = review.Update, http.MethodPut, name
		}
	}
	answer := s.ask(ctx, t, method, path, w)
	switch {
	case answer.code >= http.StatusInternalServerError:
		return verdict("Failed", answer.object(), answer.warnings), operation
	case answer.code >= http.StatusBadRequest:
		return verdict("Refused", answer.object(), answer.warnings), operation
	}
	if w.object.GetKind() == "Namespace" && operation == review.Create {
		s.ask(ctx, t, http.MethodPost, name+"/serviceaccounts", write{object: &unstructured.Unstructured{
			Object: map[string]any{"kind": "ServiceAccount", "apiVersion": "v1",
				"metadata": map[string]any{"name": "default"}}}})
	}
	return verdict("Admitted", answer.object(), answer.warnings), operation
}

// ask sends a request by the name that review has for itself.
func (s compared) ask(ctx context.Context, t *testing.T, method, path string, w write) asked {
	t.Helper()
	var body io.Reader
	if w.object != nil {
		encoded, err := json.Marshal(w.object)
		if err != nil {
			t.Fatal(err)
		}
		body = strings.NewReader(string(encoded))
	}
	request, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentTypes[map[bool]string{true: "apply"}[w.apply]])
	request.Header.Set("User-Agent", "gatehouse-review")
	if who := w.user(); who != nil {
		request.Header.Set("Impersonate-User", who.GetName())
		request.Header["Impersonate-Group"] = who.GetGroups()
	}
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := asked{code: response.StatusCode, content: content}
	for _, header := range response.Header.Values("Warning") {
		_, text, _ := strings.Cut(header, `"`)
		a.warnings = append(a.warnings, strings.ReplaceAll(strings.TrimSuffix(text, `"`), `\"`, `"`))
	}
	return a
}

// verdictOf is that of review, as verdict shows it.
func verdictOf(r *review.Result) string {
	object := r.Stored
	if object == nil {
		object = &unstructured.Unstructured{Object: map[string]any{"message": r.Message}}
	}
	return verdict(string(r.Verdict), object, r.Warnings)
}

// verdict is what is compared: the verdict, the warnings, and the object or the message.
func verdict(word string, object *unstructured.Unstructured, warnings []string) string {
	var content any = object.DeepCopy().Object
	if word != "Admitted" {
		message, _, _ := unstructured.NestedString(object.Object, "message")
		content = message
	}
	shown, _ := json.MarshalIndent(normalize(content), "", " ")
	warnings = slices.Compact(slices.Clone(warnings))
	return fmt.Sprintf("%s %s\n%s", cmp.Or(word, "none"), warnings, shown)
}
