// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package why explains decisions in words, as `gatehouse why` prints them.
//
//	API ─▶ Client ─▶ Found: decisions, the object, events ─▶ Explain ─▶ Explanation ─▶ Print
//
// Client asks the API for the decisions about an object and about what the object's controllers
// make for it, for the object with the managers of its fields, and for events. All else is functions
// of what it found. The Explanation of a decision names the plugin that refused it, and within the
// plugin the webhook, policy, quota or LimitRange; what would have to change; and for each field
// that differs from what was sent, its value and the plugin, webhook or policy that set it.
//
// Each plugin states the remedy for its own refusals (Remedy, in plugin.Descriptor). This package has
// the remedies for things that users configure, by their kind.
package why
