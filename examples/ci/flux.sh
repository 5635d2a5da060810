#!/bin/sh
# Copyright The Gatehouse Authors.
# SPDX-License-Identifier: Apache-2.0

# Judges each folder of a repository that Flux syncs, as flux.sh clusters/staging clusters/production does in
# the repository's CI. A folder is a kustomization with state.yaml, a snapshot of its cluster, beside it.
set -eu
failed=
for folder in "$@"; do
	echo "== $folder"
	gatehouse review "$folder" --state="$folder/state.yaml" || failed="$failed $folder"
done
[ -z "$failed" ] || { echo "refused, or not judged:$failed" >&2; exit 1; }
