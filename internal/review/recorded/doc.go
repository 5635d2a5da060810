// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recorded reads requests that were recorded, and returns each as what admission was asked,
// so that they can be judged again.
//
// It reads audit logs of kube-apiserver (events of audit.k8s.io as JSON lines, or in EventLists as
// the webhook backend posts them) and AdmissionReviews as JSON lines, all of them compressed by gzip
// or not, from files, directories with rotated logs, and standard input:
//
//	r, err := recorded.Open(ctx, []string{"/var/log/kubernetes/audit"}, recorded.Options{})
//	…
//	for {
//		record, err := r.Next()
//		if errors.Is(err, io.EOF) {
//			break
//		}
//		…
//		request := record.Decode() // in any goroutine
//		if request.Unjudged != "" {
//			…
//
// [Reader.Next] looks at each event in order and decodes as little as possible. [Record.Decode] does
// the rest, and may run concurrently.
//
// # What an event shows
//
//	create                 object: the request's body
//	update (PUT)           object: the request's body; old object: the last known one
//	patch, apply           object: the response; old object: the last known one. Without a response the
//	                       patch is applied to the old object.
//	PUT or patch with 201  a CREATE
//	delete                 old object: the response if the object was removed at once, otherwise the last
//	                       known one
//	deletecollection       a DELETE for each item of the response
//	scale                  a Scale; the old one is made from the last known object
//	connect                the options in the URI
//
// The last known object is the one in the response of the last write. It is used only if nothing in
// the event contradicts it: a PUT's resourceVersion, the answer's uid, resourceVersion and
// generation. A write whose result isn't recorded makes the object unknown.
//
// # What is uncertain
//
// A base is outdated unnoticed if the audit policy leaves out (level None, or a user who isn't
// recorded) a write that doesn't change metadata.generation, such as one of a status, and the next
// event is a patch. Quotas' and disruption budgets' statuses change without any request.
//
// A binding, an eviction and a write whose result isn't recorded make an object unknown until a
// response shows it again.
//
// Comments at judgeAnswer and applyPatch say how refusals and types of patches are told apart.
package recorded
