// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/json"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
)

// keysInterval is how often the files of keys are read.
const keysInterval = 10 * time.Second

// tokenKeys holds the keys of files that may change.
type tokenKeys struct {
	files []string

	mu       sync.Mutex
	keys     []jose.JSONWebKey
	contents [][]byte // of the files that keys was made of
	next     time.Time
	failure  string // why the files can't be used as they are now; empty if they can
}

// newTokenKeys fails if a file can't be used.
func newTokenKeys(files []string) (*tokenKeys, error) {
	k := &tokenKeys{files: files, next: time.Now().Add(keysInterval)}
	return k, k.load()
}

// candidates returns the keys that may verify a token with a key's ID: those with the ID, and those
// without any.
func (k *tokenKeys) candidates(id string) []jose.JSONWebKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); !now.Before(k.next) {
		k.next = now.Add(keysInterval)
		k.reload()
	}
	var found []jose.JSONWebKey
	for _, key := range k.keys {
		if id == "" || key.KeyID == "" || key.KeyID == id {
			found = append(found, key)
		}
	}
	return found
}

// reload loads the files. It logs once if they can't be used.
func (k *tokenKeys) reload() {
	failure := ""
	if err := k.load(); err != nil {
		failure = err.Error()
	}
	if failure != k.failure && failure != "" {
		klog.ErrorS(nil, "Webhook tokens are verified with the keys from before", "err", failure)
	}
	k.failure = failure
}

// load sets keys, if the contents of the files have changed.
func (k *tokenKeys) load() error {
	contents := make([][]byte, len(k.files))
	for i, file := range k.files {
		var err error
		if contents[i], err = os.ReadFile(file); err != nil {
			return fmt.Errorf("KeyFiles[%d]: %w", i, err)
		}
	}
	if k.keys != nil && slices.EqualFunc(contents, k.contents, bytes.Equal) {
		return nil
	}
	var all []jose.JSONWebKey
	for i, content := range contents {
		keys, err := parseKeys(content)
		if err != nil {
			return fmt.Errorf("KeyFiles[%d] %s: %w", i, k.files[i], err)
		}
		all = append(all, keys...)
	}
	k.keys, k.contents = all, contents
	return nil
}

// parseKeys returns the public keys of a file, which has at least one.
func parseKeys(content []byte) ([]jose.JSONWebKey, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) {
		parsed, err := keyutil.ParsePublicKeysPEM(content)
		if err != nil {
			return nil, err
		}
		var keys []jose.JSONWebKey
		for _, key := range parsed {
			keys = append(keys, jose.JSONWebKey{Key: key})
		}
		return keys, nil
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(content, &set); err != nil {
		return nil, fmt.Errorf("no JSON Web Key Set: %w", err)
	}
	for i, key := range set.Keys {
		if !key.Valid() || !key.IsPublic() {
			return nil, fmt.Errorf("keys[%d]: no valid public key", i)
		}
	}
	if len(set.Keys) == 0 {
		return nil, fmt.Errorf("no JSON Web Key Set: keys: Required value")
	}
	return set.Keys, nil
}
