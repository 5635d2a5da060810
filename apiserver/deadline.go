// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"net/http"
	"time"
)

// answerTime is the part of a request's time that is kept for its answer, or a tenth of that time if
// less.
const answerTime = 100 * time.Millisecond

// withTimeToAnswer ends a request's context a moment before the request's time is over, so that the
// handler answers with 504. Otherwise the handler begins to answer when the filter that times requests
// out has to cut the answer off, and the client gets an HTTP/2 stream error.
func withTimeToAnswer(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Only requests that time out have one: watches, for example, don't.
		if deadline, ok := r.Context().Deadline(); ok {
			ctx, cancel := context.WithDeadline(r.Context(), deadline.Add(-min(answerTime, time.Until(deadline)/10)))
			defer cancel()
			r = r.WithContext(ctx)
		}
		handler.ServeHTTP(w, r)
	})
}
