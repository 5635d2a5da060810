package review

import (
	"fmt"
	"sync/atomic"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

const (
	// maxOperations is how many operations a patch may have: as many as the API server takes from
	// its clients. Some take time that grows with the length of an array, so that without a bound a
	// patch of 3 MiB could take minutes.
	maxOperations = 10000
	// maxCopyBytes bounds what all copy operations of a patch add to the object. It is the API
	// server's own bound for its clients.
	maxCopyBytes = 3 * 1024 * 1024
)

func init() {
	// The bound is a variable of the package, for the whole process. A generic API server sets it
	// to the same; who has set a lower one keeps it.
	atomic.CompareAndSwapInt64(&jsonpatch.AccumulatedCopySizeLimit, 0, maxCopyBytes)
}

// DecodePatch reads a JSON patch (RFC 6902). The error is in the words that follow `failed calling
// webhook "x": `.
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

// Apply returns what the patch makes of an object.
func Apply(patch jsonpatch.Patch, object []byte) (patched []byte, err error) {
	defer func() {
		// The library panics on some patches that have no meaning: one that replaces the whole
		// document and has no value, say.
		if cause := recover(); cause != nil {
			patched, err = nil, fmt.Errorf("it makes no sense: %v", cause)
		}
	}()
	return patch.Apply(object)
}
