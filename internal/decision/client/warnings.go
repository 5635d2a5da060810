// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"slices"
	"sync"
)

// Warnings holds what a server warns of, each text once: for example, that another server doesn't
// answer, whose decisions are missing.
type Warnings struct {
	mu   sync.Mutex
	said []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *Warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text != "" && !slices.Contains(w.said, text) {
		w.said = append(w.said, text)
	}
}

// Take returns the warnings since the last call.
func (w *Warnings) Take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	said := w.said
	w.said = nil
	return said
}
