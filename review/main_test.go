package review_test

import (
	"os"
	"testing"

	"gatehouse.dev/test/needs"
)

func TestMain(m *testing.M) {
	needs.NotShort()
	os.Exit(m.Run())
}
