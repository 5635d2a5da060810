// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package door bounds the resources of the webhooks' callers, so that no caller keeps another one
// out.
//
//	connections ─▶ requests ─▶ body, as it arrives ─▶ its turn ─▶ handler ─▶ answer, as it is read
//	└─ a pool ──┘  └────────────────────── a pool of bytes ────────────────────────────────────────┘
//
// By default API servers call without any credential: their calls look like those of strangers.
// Three rules hold for all callers, so that a review is answered within moments beside any number
// of slow ones:
//
//   - A claim costs nothing. A request takes memory of its pool as its body arrives, whatever its
//     Content-Length says. It waits for its turn to be worked at only when it is whole.
//   - Slow work ends: a handshake, a header, a body of which nothing comes for 5 seconds or that
//     comes at less than 256 KiB a second, an answer that isn't read for 5 seconds.
//   - A full pool has room for newcomers. The address that takes most gives way: first its members
//     that have been unfinished for more than a second, the oldest first, then those that take
//     most. A member is a connection without a request that is being worked at, or a request whose
//     body is arriving, that waits, or whose answer is being read. So a review that arrives within
//     moments stays, unless others open connections or send bodies from the same address as fast.
//
// A caller is known if it shows a client certificate of the API server's authority, a bearer token
// that the API server's TokenReview accepts, or one that package webhook/server has verified. Strangers have a share of each pool, and turns
// of their own. A known caller never gives way to a stranger, nor waits for one. TokenReviews are
// remembered for a minute, and bounded for each address and for all.
//
// If callers are so many or so fast that an ordinary review may have to give way, /healthz fails.
// It fails for 15 seconds after something has given way within a second, or after a whole review
// has given way or has waited for its turn for 5 seconds.
//
// The package has no promise of compatibility.
package door
