// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Texts in requests that are replaced when they are sent. Each run of a round has a namespace of its
// own, so the same requests can be sent again and again to the same servers.
const (
	namespaceToken = "r0und"
	backendToken   = "https://backend.r0und"
	authorityToken = "YXV0aG9yaXR5LnIwdW5k"
	// currentVersion stands for the resource version that the object has on the server.
	currentVersion = "current-version"
)

// A Request is one request to both servers.
type Request struct {
	Verb, Path string
	// Kind is the type of the body: empty for JSON, or the type of a patch.
	Kind string
	// Body is a JSON value. If it is nil, the request has none.
	Body any
	// As is a user's name, and groups after it. If it is empty, the administrator sends the request.
	As string
	// Configures is true if the request writes what decides about other requests. The servers'
	// caches have to see it before the next request.
	Configures bool
}

// contentTypes has the content type of each kind of body.
var contentTypes = map[string]string{
	"":          "application/json",
	"merge":     "application/merge-patch+json",
	"strategic": "application/strategic-merge-patch+json",
	"json":      "application/json-patch+json",
	"apply":     "application/apply-patch+yaml",
}

// patchKinds are the kinds of bodies that are patches.
var patchKinds = []string{"merge", "strategic", "json", "apply"}

// path returns the path without its query.
func (r Request) path() string {
	path, _, _ := strings.Cut(r.Path, "?")
	return path
}

func (r Request) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s as %s: %s %s", r.Verb, r.Path, cmp.Or(r.As, "administrator"), r.Kind,
		r.text()))
}

// text returns the body as JSON.
func (r Request) text() string {
	if r.Body == nil {
		return ""
	}
	text, err := json.Marshal(r.Body)
	if err != nil {
		panic(fmt.Sprintf("a generated body is no JSON: %v", err))
	}
	return string(text)
}

// tableCase returns the request as it stands in the tables of test/differential.
func (r Request) tableCase() string {
	path, body := quote(r.Path), quote(r.text())
	var text string
	switch {
	case r.Verb == http.MethodPost:
		text = "create(" + path + ", " + body + ")"
	case r.Verb == http.MethodPut:
		text = "update(" + path + ", " + body + ")"
	case r.Verb == http.MethodPatch:
		text = "patch(" + strconv.Quote(r.Kind) + ", " + path + ", " + body + ")"
	case r.Verb == http.MethodDelete:
		text = "deleteRequest(" + path + ", " + body + ")"
	default:
		text = "get(" + path + ")"
	}
	if r.As != "" {
		text += ".asUser(" + quote(r.As) + ")"
	}
	return strings.ReplaceAll(text, namespaceToken, "d") + ",\n"
}

// quote returns text as a literal of Go.
func quote(text string) string {
	if strings.Contains(text, "`") || !strings.ContainsAny(text, `"\`) {
		return strconv.Quote(text)
	}
	return "`" + text + "`"
}

// clone returns a deep copy of a JSON value.
func clone(value any) any {
	switch value := value.(type) {
	case map[string]any:
		copied := make(map[string]any, len(value))
		for key, field := range value {
			copied[key] = clone(field)
		}
		return copied
	case []any:
		copied := make([]any, len(value))
		for i, element := range value {
			copied[i] = clone(element)
		}
		return copied
	}
	return value
}
