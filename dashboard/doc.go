// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dashboard serves a page that shows a server's decisions as they come: the request, the
// verdict, the plugin that changed or refused it, and the time each step took.
//
//	API server ─ list, watch ─▶ mirror ─ GET /events: server-sent events ─▶ page: rows
//	                                   └ GET /decision: one, whole      ─▶ page: its way through the chain
//	           ─ list ────────────────── GET /configured                ─▶ page: webhooks and policies
//
// The mirror is a client of the API with its user's own rights, and keeps what that user may see. A
// Reflector fills it, and the mirror reports whether it is current. The server lists the oldest
// decisions first. Pages get the first list while it is read. A page gets all rows, the newest
// first, and then the changes. A row is a decision without its patches and messages. That is enough
// for the list, its filters and all sums, and small enough for ten thousand rows at once. A page
// that is slow to read gets everything again: nothing waits for a page.
//
// With a report of gatehouse audit or gatehouse replay there is no mirror and no server: another page
// (page/report.html) asks for the report and for the decisions on its results.
//
// The page is served to its user alone. But every process on the machine, and every page of every
// browser there, can reach the loopback interface. So:
//
//   - The URL has a random token. It begins a session, whose random ID is the browser's cookie.
//     Sessions are few, and end after a day.
//   - No other site's page makes a browser send the cookie. No other server on the machine gets it
//     either, although browsers send cookies to all ports of a host: see door.
//   - The Host header must be the dashboard's own, because a foreign name may resolve to its
//     address.
//   - Nothing may be framed, posted, or read from another origin.
//   - The page itself may load, run and reach nothing but what is embedded here.
//   - Connections are few, and strangers' connections are closed first.
//
// Nothing is passed on to the API server: a page can ask for these things only.
//
// The page (page/) is plain HTML, CSS and JavaScript modules, as they are.
//
// The package has no promise of compatibility.
package dashboard
