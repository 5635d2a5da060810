// Package door lets callers in to the webhooks, so that none of them keeps another one out.
//
//	connections ─▶ requests ─▶ body, as it arrives ─▶ its turn ─▶ handler ─▶ answer, as it is read
//	└─ a pool ──┘  └────────────────────── a pool of bytes ────────────────────────────────────────┘
//
// By default API servers call without any credential: nothing tells their calls from those of
// strangers. Three rules hold for all callers, so that a review is answered within moments beside
// any number of slow ones:
//
//   - What a caller only claims costs nothing. A request takes memory of its pool as its body
//     arrives, whatever its Content-Length says, and waits for its turn to be worked at only when
//     it is whole.
//   - What is slow ends: a handshake, a header, a body of which nothing comes for 5 seconds or that
//     comes at less than 256 KiB a second, an answer that isn't read for 5 seconds.
//   - A full pool has room for what is new. The caller's address that takes most gives way: first
//     what has been unfinished for more than a second, the oldest first, then what takes most. It
//     is a connection without a request that is being worked at, or a request whose body is
//     arriving, or that waits, or whose answer is being read. So a review that arrives within
//     moments stays, unless others open connections or send bodies from the same address as fast.
//
// A caller that shows a client certificate of the API server's authority, or a bearer token that
// the API server's TokenReview accepts, is known. Strangers have a share of each pool, and turns of
// their own. What is known never gives way to a stranger, nor waits for one. TokenReviews are
// remembered for a minute, and bounded for each address and for all.
//
// Where callers are so many or so fast that an ordinary review may be among what gives way,
// /healthz says so. It fails for 15 seconds after something has given way within a second, or after
// a whole review has given way or has waited for its turn for 5 seconds.
package door
