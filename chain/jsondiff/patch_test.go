package jsondiff_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"gatehouse.dev/chain/jsondiff"
)

// A patch has the operations that it was made of.
func TestPatch(t *testing.T) {
	for seed := range int64(20) {
		operations, err := jsondiff.Of(randomPod(seed), randomPod(seed+1))
		if err != nil {
			t.Fatal(err)
		}
		operations = append(operations, jsondiff.Operation{Op: "remove", Path: ""})
		patch := jsondiff.PatchOf(operations)
		if diff := cmp.Diff(operations, patch.Operations()); diff != "" || patch.Len() != len(operations) {
			t.Errorf("seed %d: %d operations, -want +got:\n%s", seed, patch.Len(), diff)
		}
	}
	var none jsondiff.Patch
	if jsondiff.PatchOf(nil) != nil || none.Len() != 0 || none.Operations() != nil {
		t.Error("no operations are some")
	}
}
