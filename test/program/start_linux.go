// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package program

import (
	"os/exec"
	"syscall"
)

func endWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}
