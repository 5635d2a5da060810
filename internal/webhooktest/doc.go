// Package webhooktest is a webhook backend for tests: a real TLS server on 127.0.0.1 under its own
// certificate authority, that answers admission reviews, counts what reaches it, and misbehaves
// where a test wants it to.
//
//	backend := webhooktest.New(t, webhooktest.Allow())
//	webhook.ClientConfig = backend.ClientConfig("/validate")
//	…
//	if n := backend.Handshakes(); n != 1 { … }
//
// What a backend can do wrong in an answer is a handler (Hang, Drip, Endless, WrongUID, …); what it
// can do wrong before that is a method (Stop, Restart, Rotate, UseCertificate, Freeze) or a
// function where there is nothing but an address (Refusing, Silent).
//
// A test's end closes the server and all that it holds.
package webhooktest
