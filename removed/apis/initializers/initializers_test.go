// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initializers

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/client-go/rest"
)

func TestPending(t *testing.T) {
	for list, want := range map[string][]string{
		"":                            nil,
		"one.example.com":             {"one.example.com"},
		"one.example.com,two.example": {"one.example.com", "two.example"},
	} {
		if got := Pending(list); !slices.Equal(got, want) {
			t.Errorf("of %q: %q", list, got)
		}
	}
}

// What reads asks for all, whatever else it asks for. What writes, and the configuration it was
// made of, don't.
func TestIncluding(t *testing.T) {
	var asked string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request) {
		asked = r.URL.RequestURI()
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	for _, test := range []struct {
		config       *rest.Config
		method, want string
	}{
		{Including(config), http.MethodGet, "/pods?includeUninitialized=true&watch=true"},
		{Including(config), http.MethodPost, "/pods?watch=true"},
		{config, http.MethodGet, "/pods?watch=true"},
	} {
		client, err := rest.HTTPClientFor(test.config)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), test.method, server.URL+"/pods?watch=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if asked != test.want || r.URL.RawQuery != "watch=true" {
			t.Errorf("%s asks for %s, want %s; the request is for %s", test.method, asked, test.want, r.URL)
		}
	}
}
