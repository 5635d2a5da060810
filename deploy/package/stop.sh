#!/bin/sh
# Copyright The Gatehouse Authors.
# SPDX-License-Identifier: Apache-2.0

# When the package is removed, and not when another version replaces it, the server stops. Its data
# stays. Debian calls this with "remove", RPM with the number of packages that remain.
case $1 in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now gatehouse.service || true
	fi
	;;
esac
