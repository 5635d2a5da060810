// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build modules

// Package modules is never built. What it imports makes go.mod require every module that
// k8s.io/kubernetes requires at v0.0.0, a version that only its own repository has: without a
// requirement here a module that imports ours can't be tidied, nor the modules of ours listed.
package modules

import (
	_ "k8s.io/code-generator/pkg/namer"
	_ "k8s.io/cri-api/pkg/apis/runtime/v1"
	_ "k8s.io/cri-streaming/pkg/streaming"
	_ "k8s.io/sample-apiserver/pkg/apis/wardle"
)
