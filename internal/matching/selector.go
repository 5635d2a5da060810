package matching

import (
	"errors"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// selector is a parsed selector, or why it can't be parsed, which API validation doesn't let
// happen.
type selector struct {
	labels.Selector
	// key is the same for all selectors that say the same, however they say it.
	key unique.Handle[string]
	err error
}

func newSelector(stated *metav1.LabelSelector) selector {
	if stated == nil {
		// The API's defaults are there to prevent that.
		return selector{err: errors.New("a nil selector was passed, please ensure selectors are initialized properly")}
	}
	parsed, err := metav1.LabelSelectorAsSelector(stated)
	if err != nil {
		return selector{err: err}
	}
	return selector{Selector: parsed, key: unique.Make(parsed.String())}
}

// everything tells whether nothing has to be known to say that the selector selects it.
func (s *selector) everything() bool { return s.err == nil && s.Empty() }
