//go:build !linux

package e2e_test

import "syscall"

func endWithTest(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }
