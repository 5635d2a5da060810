// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"
)

// changing is a server whose kinds change.
type changing struct {
	paths map[string]openapi.GroupVersion
	err   error
	reads int
}

func (c *changing) OpenAPIV3() openapi.Client { return c }

func (c *changing) Paths() (map[string]openapi.GroupVersion, error) {
	c.reads++
	return c.paths, c.err
}

// text is a document of one group version.
type text struct {
	url, content string
	err          error
	reads        int
}

func (d *text) ServerRelativeURL() string { return d.url }

func (d *text) Schema(string) ([]byte, error) {
	d.reads++
	return []byte(d.content), d.err
}

func bears(url, field string) *text {
	return &text{url: url, content: `{"components": {"schemas": {"bear": {
		"type": "object",
		"properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"},
			"` + field + `": {"type": "string"}},
		"x-kubernetes-group-version-kind": [{"group": "bears.example.com", "version": "v1", "kind": "Bear"}]
	}}}}`}
}

func TestSchemasFollowTheServer(t *testing.T) {
	const path = "apis/bears.example.com/v1"
	now := time.Now()
	server := &changing{err: errors.New("not yet up")}
	schemas := NewSchemas(server)
	schemas.now = func() time.Time { return now }
	color := func(want string) {
		t.Helper()
		object := newObject(t, "{apiVersion: bears.example.com/v1, kind: Bear}", schemas)
		_, err := object.Apply(configuration(t, "{color: white}"))
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	const notFound = "Resource kind bears.example.com/v1, Kind=Bear not found. There can be a delay between when " +
		"CustomResourceDefinitions are created and when they are available."
	const unknown = "error applying patch: failed to convert patch object to typed object: " +
		".color: field not declared in schema"

	color(notFound)
	server.err, server.paths = nil, map[string]openapi.GroupVersion{}
	color(notFound)
	first := bears("1", "color")
	server.paths = map[string]openapi.GroupVersion{path: first, "version": &text{}, "apis": &text{}}
	color("") // what was not found is looked for again at once

	// What is known is good for five seconds, and one document is read once.
	reads := server.reads
	now = now.Add(refreshAge - time.Millisecond)
	color("")
	if server.reads != reads || first.reads != 1 {
		t.Errorf("the index was read %d times more, the document %d times", server.reads-reads, first.reads)
	}
	server.paths = map[string]openapi.GroupVersion{path: bears("2", "name")}
	color("")
	now = now.Add(time.Millisecond)
	color(unknown)

	// While the server can't say, what was known holds.
	server.err = errors.New("busy")
	now = now.Add(refreshAge)
	color(unknown)

	// A document that can't be read is read again.
	server.err = nil
	third := bears("3", "color")
	third.err = errors.New("busy")
	server.paths = map[string]openapi.GroupVersion{path: third}
	now = now.Add(refreshAge)
	color(notFound)
	third.err = nil
	color("")

	// A kind that is new in a group version is looked for at once.
	reads = server.reads
	kind := schema.GroupVersionKind{Group: "bears.example.com", Version: "v1", Kind: "Cub"}
	if _, err := schemas.converter(kind); err != nil || server.reads != reads+1 {
		t.Errorf("%v; the index was read %d times more", err, server.reads-reads)
	}
}

func TestBadDocuments(t *testing.T) {
	for name, content := range map[string]string{
		"no JSON": "{", "empty": "{}", "a schema that refers to nothing": `{"components": {"schemas": {"x": 1}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := document{source: &text{content: content}}
			if converter, err := d.load(); err == nil {
				t.Errorf("got %v", converter)
			}
		})
	}
}
