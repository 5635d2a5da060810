// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package requests_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"
)

// entry is one request of the table and its answer. ${x} in any of its strings is what an earlier
// entry has saved as x.
type entry struct {
	// Name says what the request is an example of; it is unique.
	Name string `json:"name"`
	// Source is where the expectation is from: a page of kubernetes.io, of
	// github.com/kubernetes/community, or a file under k8s.io/.
	Source string `json:"source"`

	// Request is method, path and query.
	Request string `json:"request"`
	// User and Groups are impersonated. Anonymous sends no credentials; Token is sent instead of
	// them.
	User      string   `json:"user"`
	Groups    []string `json:"groups"`
	Anonymous bool     `json:"anonymous"`
	Token     string   `json:"token"`
	// ContentType is application/json where there is a body, unless it says otherwise.
	ContentType string `json:"contentType"`
	Accept      string `json:"accept"`
	// Body is sent as it is where it is a string, otherwise as JSON.
	Body any `json:"body"`

	// Eventually sends a read again until the answer agrees: what it reads is made in the
	// background.
	Eventually bool `json:"eventually"`
	// Save keeps fields of the answer: a name, and the path of the field.
	Save map[string]string `json:"save"`

	Code int `json:"code"`
	// Reason and Message are those of the Status, exactly. Every refusal that is a Status has both.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Object is part of the answer, see match.
	Object any `json:"object"`
	// Events are the first events of a watch.
	Events []any `json:"events"`
	// Text is the whole body; Contains are parts of it.
	Text     string   `json:"text"`
	Contains []string `json:"contains"`
	// Type is the answer's Content-Type.
	Type string `json:"type"`
	// Warnings are all Warning headers.
	Warnings []string `json:"warnings"`
}

// readTable reads all files of the table, in the order of their names.
func readTable(t *testing.T) []entry {
	files, err := filepath.Glob("table/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var table []entry
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var entries []entry
		if err := yaml.UnmarshalStrict(data, &entries); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		table = append(table, entries...)
	}
	return table
}

var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// resolve puts what was saved into the entry's strings.
func (e entry) resolve(saved map[string]string) (entry, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return e, err
	}
	var missing []string
	data = variable.ReplaceAllFunc(data, func(found []byte) []byte {
		name := string(found[2 : len(found)-1])
		value, ok := saved[name]
		if !ok {
			missing = append(missing, name)
		}
		quoted, _ := json.Marshal(value)
		return quoted[1 : len(quoted)-1]
	})
	if missing != nil {
		return e, fmt.Errorf("nothing was saved as %q", missing)
	}
	var resolved entry
	return resolved, json.Unmarshal(data, &resolved)
}

func (e entry) request() (request, error) {
	method, path, _ := strings.Cut(e.Request, " ")
	r := request{
		method: method, path: path, contentType: e.ContentType, accept: e.Accept,
		user: e.User, groups: e.Groups, anonymous: e.Anonymous || e.Token != "", token: e.Token,
	}
	switch body := e.Body.(type) {
	case nil:
		return r, nil
	case string:
		r.body = []byte(body)
	default:
		var err error
		if r.body, err = json.Marshal(body); err != nil {
			return r, err
		}
	}
	if r.contentType == "" {
		r.contentType = "application/json"
	}
	return r, nil
}

// What the server does in the background is asked for this often, and for this long.
const (
	pollInterval = 10 * time.Millisecond
	deadline     = 2 * time.Minute
)

// run sends the entry's request and says how the answer disagrees, nil where it agrees.
func (e entry) run(ctx context.Context, s *api, saved map[string]string) error {
	e, err := e.resolve(saved)
	if err != nil {
		return err
	}
	r, err := e.request()
	if err != nil {
		return err
	}
	if e.Events != nil {
		return e.watch(ctx, s, r)
	}
	var disagreement error
	attempt := func(ctx context.Context) (bool, error) {
		a, err := s.do(ctx, r)
		if err != nil {
			return false, err
		}
		disagreement = e.compare(a, saved)
		return disagreement == nil || !e.Eventually, nil
	}
	if err := wait.PollUntilContextTimeout(ctx, pollInterval, deadline, true, attempt); disagreement == nil {
		return err
	}
	return disagreement
}

// watch compares the first events and then hangs up.
func (e entry) watch(ctx context.Context, s *api, r request) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	response, err := s.open(ctx, r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != e.Code {
		return fmt.Errorf("status code is %d, want %d", response.StatusCode, e.Code)
	}
	decoder := json.NewDecoder(response.Body)
	for i, want := range e.Events {
		var event any
		if err := decoder.Decode(&event); err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
		if err := match(fmt.Sprintf("events[%d]", i), want, event); err != nil {
			return err
		}
	}
	return nil
}

func (e entry) compare(a answer, saved map[string]string) error {
	var problems []string
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }

	if a.code != e.Code {
		say("status code is %d, want %d", a.code, e.Code)
	}
	if s := a.status(); a.code >= http.StatusBadRequest || e.Reason != "" {
		if int(s.Code) != a.code && s.Kind != "" {
			say("code in the Status is %d, the HTTP status %d", s.Code, a.code)
		}
		if string(s.Reason) != e.Reason {
			say("reason is %q, want %q", s.Reason, e.Reason)
		}
		if s.Message != e.Message {
			say("message is\n  %s\nwant\n  %s", s.Message, e.Message)
		}
	}
	if e.Type != "" && a.header.Get("Content-Type") != e.Type {
		say("content type is %q, want %q", a.header.Get("Content-Type"), e.Type)
	}
	if e.Text != "" && string(a.body) != e.Text {
		say("body is %q, want %q", a.body, e.Text)
	}
	for _, part := range e.Contains {
		if !strings.Contains(string(a.body), part) {
			say("body has no %q", part)
		}
	}
	if got := a.header.Values("Warning"); !slices.Equal(got, e.Warnings) {
		say("warnings are %q, want %q", got, e.Warnings)
	}
	if e.Object != nil || e.Save != nil {
		var object any
		if err := json.Unmarshal(a.body, &object); err != nil {
			say("body is not JSON: %v", err)
		} else if err := match("", e.Object, object); err != nil {
			say("%v", err)
		}
		for name, path := range e.Save {
			value, ok := at(object, path).(string)
			if !ok {
				say("there is no string at %s to save as %s", path, name)
			}
			saved[name] = value
		}
	}
	if problems == nil {
		return nil
	}
	return fmt.Errorf("%s\nthe answer was: %s", strings.Join(problems, "\n"), a)
}

// at finds a field by its path: a.b.c.
func at(object any, path string) any {
	for _, key := range strings.Split(path, ".") {
		fields, _ := object.(map[string]any)
		object = fields[key]
	}
	return object
}

// match tells where got differs from want. Of an object only the fields that want has are compared;
// one that is null must be absent. A list has the same elements in the same order, except where
// want's begins with "...": then got has the elements that follow, among others. A string that
// begins with ~ is a regular expression for the whole string.
func match(path string, want, got any) error {
	switch want := want.(type) {
	case nil:
		return nil
	case map[string]any:
		fields, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %v, want an object", path, got)
		}
		for key, value := range want {
			_, present := fields[key]
			if present != (value != nil) {
				return fmt.Errorf("%s.%s is %v, want %v", path, key, fields[key], value)
			}
			if err := match(path+"."+key, value, fields[key]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		return matchList(path, want, got)
	case string:
		if expression, ok := strings.CutPrefix(want, "~"); ok {
			if text, ok := got.(string); !ok || !regexp.MustCompile(`\A(?:`+expression+`)\z`).MatchString(text) {
				return fmt.Errorf("%s is %#v, want %s", path, got, want)
			}
			return nil
		}
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Errorf("%s is %#v, want %#v", path, got, want)
	}
	return nil
}

func matchList(path string, want []any, got any) error {
	list, ok := got.([]any)
	if !ok {
		return fmt.Errorf("%s is %v, want a list", path, got)
	}
	if len(want) > 0 && want[0] == "..." {
		for _, element := range want[1:] {
			if !slices.ContainsFunc(list, func(e any) bool { return match(path, element, e) == nil }) {
				return fmt.Errorf("%s has no %v", path, element)
			}
		}
		return nil
	}
	if len(list) != len(want) {
		return fmt.Errorf("%s has %d elements, want %d", path, len(list), len(want))
	}
	for i, element := range want {
		if err := match(fmt.Sprintf("%s[%d]", path, i), element, list[i]); err != nil {
			return err
		}
	}
	return nil
}
