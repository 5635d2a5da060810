package initialresources

import (
	"regexp"

	"github.com/distribution/reference"
)

// An image is the image of a container, in the names that container runtimes use for it.
type image struct {
	// same and any are the regular expressions that the label image of a container's metrics
	// matches where the container is of this image, or of one that differs in tag and digest only.
	// Docker's own images are also known by their short names.
	same, any string
}

// parseImage parses an image, and reports whether a runtime could run it. Otherwise there can't be
// metrics.
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
