#!/bin/sh
# Copyright The Gatehouse Authors.
# SPDX-License-Identifier: Apache-2.0

# systemd reads the unit, or forgets it. A running server keeps running until somebody restarts it.
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
