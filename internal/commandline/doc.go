// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package commandline has the parts that the commands of gatehouse and gatehouse-webhook share.
//
// [Run] runs a program's root command and prints errors, each on a line. A wrong command line is a
// [Usage] error, which ends a program with [ExitUsage]. [GroupFlags] shows flags by group, with the
// examples below them. [Logging] implements -v, and [Kubeconfig] finds a cluster as kubectl does.
package commandline
