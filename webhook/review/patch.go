// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"sync/atomic"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

const (
	// maxOperations is how many operations a patch may have. The API server has the same bound for its
	// clients. The time of some operations grows with the length of an array, so a patch of 3 MiB
	// could take minutes without a bound.
	maxOperations = 10000
	// maxCopyBytes bounds the bytes that all copy operations of a patch add to the object. The API
	// server has the same bound for its clients.
	maxCopyBytes = 3 * 1024 * 1024
)

func init() {
	// The bound is a variable of the library, for the whole process. A generic API server sets it to
	// the same. If the program has set another one, that is kept.
	atomic.CompareAndSwapInt64(&jsonpatch.AccumulatedCopySizeLimit, 0, maxCopyBytes)
}

// DecodePatch decodes a JSON patch (RFC 6902). The text of the error is meant to follow `failed
// calling webhook "x": `.
func DecodePatch(data []byte) (jsonpatch.Patch, error) {
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, fmt.Errorf("received undecodable patch in webhook response: %w", err)
	}
	if len(patch) > maxOperations {
		return nil,
			fmt.Errorf("received undecodable patch in webhook response: the allowed maximum operations in a JSON "+
				"patch is %d, got %d",
				maxOperations, len(patch))
	}
	return patch, nil
}

// Apply returns the patched object.
func Apply(patch jsonpatch.Patch, object []byte) (patched []byte, err error) {
	defer func() {
		// The library panics on some senseless patches, such as one that replaces the whole document
		// and has no value.
		if cause := recover(); cause != nil {
			patched, err = nil, fmt.Errorf("an operation can't be applied, check its path and value: %v", cause)
		}
	}()
	return patch.Apply(object)
}
