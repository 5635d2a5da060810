// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package initialresources

import (
	"regexp"

	"github.com/distribution/reference"
)

// An image holds the names that container runtimes use for the image of a container.
type image struct {
	// same and any are regular expressions for the label image of a container's metrics. same
	// matches if the container has this image. any also matches if the image differs in its tag or
	// digest only. Docker's own images are also known by their short names.
	same, any string
}

// parseImage parses an image, and reports whether a runtime could run it. If none could, there
// can't be metrics.
func parseImage(written string) (image, bool) {
	named, err := reference.ParseDockerRef(written)
	if err != nil {
		return image{}, false
	}
	return image{
		same: matchEither(named.String(), reference.FamiliarString(named)),
		any:  matchEither(named.Name(), reference.FamiliarName(named)) + "(:[^/@]*)?(@.*)?",
	}, true
}

func matchEither(full, short string) string {
	if full == short {
		return regexp.QuoteMeta(full)
	}
	return "(" + regexp.QuoteMeta(full) + "|" + regexp.QuoteMeta(short) + ")"
}
