// Package dashboard is a page that shows a server's decisions as they come: what was asked, what
// became of it, which plugin changed or refused it, and what took how long.
//
//	API server ─ list, watch ─▶ mirror ─ GET /events: server-sent events ─▶ page: rows
//	                                   └ GET /decision: one, whole      ─▶ page: its way through the chain
//	           ─ list ────────────────── GET /configured                ─▶ page: webhooks and policies
//
// The mirror is a client of the API with its user's own rights, and keeps what that user may see: a
// Reflector fills it, and it says whether what it has is what the server has. The server lists the
// oldest first; of the first list pages are told while it is read. A page gets all rows, the newest
// first, and then what changes. A row is a decision without its patches and messages: enough for
// the list, its filters and all sums, so small that ten thousand of them are there at once. What a
// page is slow to read it gets anew, whole: nothing waits for a page.
//
// The page is served to its user alone. The server listens on the loopback interface, and every
// process and every page of every browser on the machine can reach that. So:
//
//   - The URL has a random token. It begins a session, whose random ID is the browser's cookie.
//     Sessions are few, and end after a day.
//   - No other site's page makes a browser send the cookie. No other server on the machine gets it
//     either, although browsers send cookies to all ports of a host: see door.
//   - The Host header must be ours, for names that somebody makes resolve to our address.
//   - Nothing may be framed, posted, or read from another origin.
//   - The page itself may load, run and reach nothing but what is embedded here.
//   - Connections are few, and strangers' are closed before anybody else's.
//
// Nothing is passed on to the API server: what a page can ask for are those three things.
//
// The page (page/) is plain HTML, CSS and JavaScript modules, as they are.
package dashboard
