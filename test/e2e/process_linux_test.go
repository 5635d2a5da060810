package e2e_test

import "syscall"

// endWithTest makes a process end with the test's process however that ends.
func endWithTest(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}
