package apiserver

import (
	"context"
	"net/http"
	"time"
)

// answering is the part of a request's time that is kept for its answer, or a tenth of that time if
// less.
const answering = 100 * time.Millisecond

// withTimeToAnswer ends what works on a request a moment before the request's time is over. What
// was late then says so, with 504. Without it the answer comes at the moment at which the filter
// that times requests out finds an answer begun, which it can only cut off: the client gets no
// answer at all, but an HTTP/2 stream error.
func withTimeToAnswer(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Only requests that time out have one: watches, for example, don't.
		if deadline, ok := r.Context().Deadline(); ok {
			ctx, cancel := context.WithDeadline(r.Context(), deadline.Add(-min(answering, time.Until(deadline)/10)))
			defer cancel()
			r = r.WithContext(ctx)
		}
		handler.ServeHTTP(w, r)
	})
}
