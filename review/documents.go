// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"context"
	"io"

	"k8s.io/client-go/rest"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/live"
)

// Document is an object with the file and the line that it was read from.
type Document = input.Document

// Cluster is a running cluster, for Options.Live.
type Cluster = live.Cluster

// Read reads objects from files, from directories with everything below them, and from stdin if a
// path is "-". It returns an error for each part that can't be read, and all other objects. Pass the
// errors to Review.Fail to have them in the result.
func Read(paths []string, stdin io.Reader) ([]Document, []error) { return input.Read(paths, stdin) }

// ConnectCluster connects to a running cluster. Reviews and snapshots only get and list its objects.
func ConnectCluster(ctx context.Context, config *rest.Config) (*Cluster, error) {
	return live.Connect(ctx, config)
}
