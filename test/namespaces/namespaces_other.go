//go:build !linux

package namespaces

import "errors"

// Enter is an error here.
func Enter() error { return errors.ErrUnsupported }

// Bind is an error here.
func Bind(other, directory string) error { return errors.ErrUnsupported }
