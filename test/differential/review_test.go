// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

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
	"regexp"
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
	"gatehouse.dev/test/differential/pair"
)

// compareReview gives the tables' objects to both servers and to review, one after the other.
// Verdict, message, warnings and object of review must equal Gatehouse's. They must equal
// kube-apiserver's except for the differences in docs/differences.md. The requests in needed make
// review's state. charts are objects to be judged at the end.
func compareReview(ctx context.Context, t *testing.T, servers serverPair, config *server.Config, needed,
	judged []request, charts []*unstructured.Unstructured) {
	t.Helper()
	for _, r := range needed {
		servers.awaitAnswers(ctx, t, r)
	}
	reviewer, err := review.Start(ctx, review.Options{Config: config, State: servers.ours.storedObjects(ctx, t, needed),
		Webhooks: plugin.WebhooksAsked, Authorize: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := reviewer.Close(); err != nil {
			t.Error(err)
		}
	}()
	c := &reviewComparison{servers: servers, reviewer: reviewer, differing: map[string]bool{}}
	for i, r := range judged {
		object, collection := objectOf(t, r, i)
		if object == nil || object.GetKind() == "ServiceAccount" {
			continue
		}
		// A request for an object that exists waits until another object is deleted, and review
		// deletes nothing.
		if _, again := c.differing[collection+"/"+object.GetName()]; r.until != "" && !again {
			servers.awaitAnswers(ctx, t, r)
		}
		c.compare(ctx, t, fmt.Sprintf("request %d, %s", i, r), write{object, collection, r.as, r.kind == "apply"},
			r.difference != "")
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
		c.different)
}

// A reviewComparison sends the same objects to the two servers and to review.
type reviewComparison struct {
	servers  serverPair
	reviewer *review.Reviewer
	// differing has the objects that were sent, with true if the servers' versions of it may
	// differ.
	differing        map[string]bool
	alike, different int
}

// outageWarnings are those of which docs/differences.md says that a client who writes a webhook configuration gets
// them, in the text of a verdict.
var outageWarnings = regexp.MustCompile(`webhook \S+: [^\n]*?\(to prevent it: [^)\n]*\) ?`)

// compare writes an object to both servers, and has review judge it.
func (c *reviewComparison) compare(ctx context.Context, t *testing.T, what string, w write, differs bool) {
	t.Helper()
	ours, operation := c.servers.ours.writeObject(ctx, t, w)
	theirs, _ := c.servers.theirs.writeObject(ctx, t, w)
	result, err := c.reviewer.With(w.user(), operation).Review(ctx,
		[]input.Document{{Source: input.Source{File: what, Line: 1}, Object: w.object}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := resultText(&result.Results[0]); got != ours {
		t.Errorf("%s:\nreview\n%s\nGatehouse\n%s", what, got, ours)
	}
	name := w.collection + "/" + w.object.GetName()
	c.differing[name] = c.differing[name] || differs
	switch {
	case c.differing[name], ours != theirs && outageWarnings.ReplaceAllString(ours, "") == theirs:
		c.different++
	case ours != theirs:
		t.Errorf("%s:\nGatehouse\n%s\nkube-apiserver\n%s", what, ours, theirs)
	default:
		c.alike++
	}
}

// chartObjects returns the objects of charts that people use, each chart in a namespace of its
// name. Webhook configurations come last: no program serves the webhooks.
func chartObjects(ctx context.Context, t *testing.T, bin string) []*unstructured.Unstructured {
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

// awaitAnswers sends a request to both servers, until their caches show what it needs.
func (p serverPair) awaitAnswers(ctx context.Context, t *testing.T, r request) {
	t.Helper()
	p.ours.awaitAnswer(ctx, t, r)
	p.theirs.awaitAnswer(ctx, t, r)
}

// A write creates an object, replaces it if it exists, or applies it.
type write struct {
	object     *unstructured.Unstructured
	collection string
	as         string // as a request's
	apply      bool
}

// user returns the user who writes, or nil for an administrator.
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

// objectOf returns the object that a request creates or applies, and its collection. The object is
// nil if review can't judge the request. Objects named x, which are only tried, get a name of their
// own.
func objectOf(t *testing.T, r request, i int) (object *unstructured.Unstructured, collection string) {
	t.Helper()
	collection, _, _ = strings.Cut(r.path, "?")
	switch {
	case r.verb == http.MethodPatch && r.kind == "apply" && !strings.HasSuffix(r.path, dryRun):
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

// storedObjects returns the server's objects that requests have made.
func (s testServer) storedObjects(ctx context.Context, t *testing.T, requests []request) []input.Document {
	t.Helper()
	var documents []input.Document
	for i, r := range requests {
		object, collection := objectOf(t, r, i)
		if object == nil {
			continue
		}
		stored := s.sendObject(ctx, t, http.MethodGet, collection+"/"+object.GetName(), write{})
		if stored.code == http.StatusOK {
			documents = append(documents, input.Document{Object: stored.object()})
		}
	}
	return documents
}

// A reply is a server's answer.
type reply struct {
	code     int
	warnings []string
	content  []byte
}

// word returns the verdict.
func (a reply) word() string {
	switch {
	case a.code >= http.StatusInternalServerError:
		return "Failed"
	case a.code >= http.StatusBadRequest:
		return "Refused"
	}
	return "Admitted"
}

func (a reply) object() *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(a.content, &object.Object); err != nil {
		return &unstructured.Unstructured{Object: map[string]any{"message": string(a.content)}}
	}
	return object
}

// writeObject writes the object, and returns the verdict's text and the kind of write.
func (s testServer) writeObject(ctx context.Context, t *testing.T, w write) (string, review.Operation) {
	t.Helper()
	name := w.collection + "/" + w.object.GetName()
	w.object = w.object.DeepCopy()
	operation, method, path := review.Create, http.MethodPost, w.collection+"?fieldManager=kubectl-create"
	if w.apply {
		operation, method, path = review.Apply, http.MethodPatch, name+"?force=true&fieldManager=kubectl"
	} else if w.object.GetName() != "" {
		if stored := s.sendObject(ctx, t, http.MethodGet, name, write{}); stored.code == http.StatusOK {
			w.object.SetResourceVersion(stored.object().GetResourceVersion())
			operation, method, path = review.Update, http.MethodPut, name+"?fieldManager=kubectl-replace"
		}
	}
	answer := s.sendObject(ctx, t, method, path, w)
	if answer.word() == "Admitted" && w.object.GetKind() == "Namespace" && operation == review.Create {
		s.sendObject(ctx, t, http.MethodPost, name+"/serviceaccounts", write{object: &unstructured.Unstructured{
			Object: map[string]any{"kind": "ServiceAccount", "apiVersion": "v1",
				"metadata": map[string]any{"name": "default"}}}})
	}
	return verdictText(answer.word(), answer.object(), answer.warnings), operation
}

// sendObject sends a request with review's user agent.
func (s testServer) sendObject(ctx context.Context, t *testing.T, method, path string, w write) reply {
	t.Helper()
	var body io.Reader
	if w.object != nil {
		encoded, err := json.Marshal(w.object)
		if err != nil {
			t.Fatal(err)
		}
		body = strings.NewReader(string(encoded))
	}
	request, err := http.NewRequestWithContext(ctx, method, s.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentTypes[map[bool]string{true: "apply"}[w.apply]])
	request.Header.Set("User-Agent", "gatehouse-review")
	if who := w.user(); who != nil {
		request.Header.Set("Impersonate-User", who.GetName())
		request.Header["Impersonate-Group"] = who.GetGroups()
	}
	response, err := s.Client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := reply{code: response.StatusCode, content: content}
	for _, header := range response.Header.Values("Warning") {
		_, text, _ := strings.Cut(header, `"`)
		a.warnings = append(a.warnings, strings.ReplaceAll(strings.TrimSuffix(text, `"`), `\"`, `"`))
	}
	return a
}

// resultText returns verdictText of review's result.
func resultText(r *review.Result) string {
	object := r.Stored
	if object == nil {
		object = &unstructured.Unstructured{Object: map[string]any{"message": r.Message}}
	}
	return verdictText(string(r.Verdict), object, r.Warnings)
}

// verdictText returns what is compared: the verdict, the warnings, and the object or the message.
func verdictText(word string, object *unstructured.Unstructured, warnings []string) string {
	var content any = object.DeepCopy().Object
	if word != "Admitted" {
		message, _, _ := unstructured.NestedString(object.Object, "message")
		content = message
	}
	if object.GetKind() == "CertificateSigningRequest" && word == "Admitted" {
		// A review's user has a certificate, and so a credential. The user of the other servers is impersonated.
		unstructured.RemoveNestedField(content.(map[string]any), "spec", "extra", "authentication.kubernetes.io/credential-id")
		if extra, _, _ := unstructured.NestedMap(object.Object, "spec", "extra"); len(extra) <= 1 {
			unstructured.RemoveNestedField(content.(map[string]any), "spec", "extra")
		}
	}
	shown, _ := json.MarshalIndent(pair.Normalize(withoutUsage(content)), "", " ")
	warnings = slices.Compact(slices.Clone(warnings))
	return fmt.Sprintf("%s %s\n%s", cmp.Or(word, "none"), warnings, shown)
}
