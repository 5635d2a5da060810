// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhooktest provides a webhook backend for tests: a real TLS server on 127.0.0.1 with its own
// certificate authority. It answers admission reviews, counts the calls, and misbehaves as a test
// demands.
//
//	backend := webhooktest.New(t, webhooktest.Allow())
//	webhook.ClientConfig = backend.ClientConfig("/validate")
//	…
//	if n := backend.Handshakes(); n != 1 { … }
//
// For each mistake in an answer there is a handler (Hang, Drip, Endless, WrongUID, …). Mistakes before
// the answer are methods of the server (Stop, Restart, Rotate, UseCertificate, Freeze). Refusing and
// Silent return addresses without a server.
//
// The server is closed at the test's end.
package webhooktest
