// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"encoding/json"
	"net/http"

	"gatehouse.dev/webhook/backend"
)

// webhooksPath is where the server says which webhooks' backends it doesn't call.
const webhooksPath = "/debug/webhooks"

// serveWebhooks is a filter that serves webhooksPath.
func serveWebhooks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != webhooksPath {
			next.ServeHTTP(w, r)
			return
		}
		answer, err := json.MarshalIndent(map[string]any{"notCalled": backend.NotCalled()}, "", "  ")
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(answer, '\n'))
	})
}
