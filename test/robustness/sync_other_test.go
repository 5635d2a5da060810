//go:build !linux

package robustness_test

import "errors"

func delaySyncs(string) error { return errors.ErrUnsupported }
