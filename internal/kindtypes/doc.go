// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kindtypes checks the expressions of policies with the types of the objects that they are for: as
// Kubernetes' type checker does, which writes what it finds to the policy's status, and beyond that.
//
//	policy ─▶ kinds of its rules ─▶ schemas ─▶ types ─┬─ Check          the warnings of the status
//	                                                  ├─ UnknownFields  fields that no object can have
//	                                                  ├─ Mistakes       all that is wrong for every kind
//	                                                  └─ Costs          how expensive its expressions can get
package kindtypes
