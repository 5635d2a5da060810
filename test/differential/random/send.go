// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package random

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"gatehouse.dev/test/differential/pair"
)

// An Answer is a server's answer, with everything that differs from run to run replaced.
type Answer struct {
	Status   int
	Warnings []string
	Body     any
	// Audit is the annotations of the request in the audit log.
	Audit string
}

func (a Answer) String() string {
	body, err := json.MarshalIndent(a.Body, "", " ")
	if err != nil {
		panic(err) // it was JSON
	}
	return fmt.Sprintf("%d %q\n%s\n%s", a.Status, a.Warnings, body, a.Audit)
}

// message returns the message of a Status.
func (a Answer) message() string {
	message, _ := field(a.Body, "message").(string)
	return message
}

// field returns a field of a JSON object, or nil.
func field(value any, path ...string) any {
	for _, key := range path {
		object, _ := value.(map[string]any)
		value = object[key]
	}
	return value
}

// A backend is the webhooks' backend, as requests name it.
type backend struct{ url, authority string }

// send sends the request to a server. In its texts, namespace replaces namespaceToken.
func send(ctx context.Context, s pair.Server, b backend, namespace, id string, r Request) (Answer, error) {
	if field(r.Body, "metadata", "resourceVersion") == currentVersion {
		var err error
		if r, err = withCurrentVersion(ctx, s, b, namespace, r); err != nil {
			return Answer{}, err
		}
	}
	replace := strings.NewReplacer(backendToken, b.url, authorityToken, b.authority, namespaceToken, namespace)
	asked, err := http.NewRequestWithContext(ctx, r.Verb, s.URL+replace.Replace(r.Path),
		strings.NewReader(replace.Replace(r.text())))
	if err != nil {
		return Answer{}, err
	}
	asked.Header.Set("Content-Type", contentTypes[r.Kind])
	asked.Header.Set("Accept", "application/json")
	asked.Header.Set("Audit-ID", id)
	if r.As != "" {
		name, groups, _ := strings.Cut(replace.Replace(r.As), " ")
		asked.Header.Set("Impersonate-User", name)
		for _, group := range strings.Fields(groups) {
			asked.Header.Add("Impersonate-Group", group)
		}
	}
	response, err := s.Client.Do(asked)
	if err != nil && strings.Contains(err.Error(), "INTERNAL_ERROR") {
		return Answer{Body: "no answer: the server's handler panicked"}, nil
	}
	if err != nil {
		return Answer{}, fmt.Errorf("%s: %w", r, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return Answer{}, fmt.Errorf("%s: %w", r, err)
	}
	var body any
	if err := json.Unmarshal(content, &body); err != nil {
		body = string(content)
	}
	answer := Answer{Status: response.StatusCode, Body: normalize(pair.Normalize(body))}
	for _, warning := range response.Header.Values("Warning") {
		answer.Warnings = append(answer.Warnings, fmt.Sprint(normalize(pair.Normalize(warning))))
	}
	return answer, nil
}

// withCurrentVersion returns the request with the resource version that its object has now.
func withCurrentVersion(ctx context.Context, s pair.Server, b backend, namespace string, r Request) (Request, error) {
	path := s.URL + strings.ReplaceAll(r.path(), namespaceToken, namespace)
	asked, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return r, err
	}
	response, err := s.Client.Do(asked)
	if err != nil {
		return r, err
	}
	defer response.Body.Close()
	var object any
	if err := json.NewDecoder(response.Body).Decode(&object); err != nil {
		object = nil // an answer without an object has no version, either
	}
	r.Body = clone(r.Body)
	version, _ := field(object, "metadata", "resourceVersion").(string)
	r.Body.(map[string]any)["metadata"].(map[string]any)["resourceVersion"] = version
	return r, nil
}

var (
	// tokenPattern is of the tokens of service accounts.
	tokenPattern = regexp.MustCompile(`^eyJ[\w-]+\.[\w-]+\.[\w-]+$`)
	// versionPattern is of resource versions in messages.
	versionPattern = regexp.MustCompile(`(resource version: |ResourceVersion: |ResourceVersion in record \(|ResourceVersion in object meta: )\d+`)
	// portPattern is of node ports that the server has chosen.
	portPattern = regexp.MustCompile(`\b3[0-2]\d{3}\b`)
	// generatedPattern is of generated names, which validation quotes.
	generatedPattern = regexp.MustCompile(`generated[\w.-]*`)
)

const typedPatchError = "failed to create typed patch object"

// normalize replaces what pair.Normalize doesn't, and what its tables have no requests for.
func normalize(value any) any {
	switch value := value.(type) {
	case map[string]any:
		if value["incomplete"] != nil { // a list of a user's rights
			sortList(value["resourceRules"])
			sortList(value["nonResourceRules"])
		}
		if causes, ok := field(value, "details", "causes").([]any); ok && len(causes) > 1 {
			sortList(causes) // those of a map are in its order, and the message repeats them
			message, _ := value["message"].(string)
			value["message"], _, _ = strings.Cut(message, " is invalid: [")
		}
		for key, element := range value {
			if key == "healthCheckNodePort" || key == "continue" {
				value[key] = "…"
				continue
			}
			value[key] = normalize(element)
		}
	case []any:
		for i := range value {
			value[i] = normalize(value[i])
		}
	case string:
		// Which errors of an apply patch are listed is a matter of chance.
		if before, _, ok := strings.Cut(value, typedPatchError); ok {
			value = before + typedPatchError
		}
		value = portPattern.ReplaceAllString(value, "port")
		value = tokenPattern.ReplaceAllString(value, "token")
		value = versionPattern.ReplaceAllString(value, "$1…")
		return generatedPattern.ReplaceAllString(value, "generated…")
	}
	return value
}

// sortList sorts a list whose order is that of a map in the server.
func sortList(value any) {
	if list, ok := value.([]any); ok {
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
}
