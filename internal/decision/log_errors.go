package decision

import (
	"context"
	"errors"
	"regexp"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// HideLoggedValues has the process's log of unhandled errors leave out the objects that errors
// quote, as the log of decisions does. Call it before the server starts.
func HideLoggedValues() {
	utilruntime.ErrorHandlers[0] = func(ctx context.Context, err error, msg string, keysAndValues ...any) {
		if err != nil {
			err = errors.New(withoutObjects(err.Error()))
		}
		klog.LoggerWithName(klog.FromContext(ctx).WithCallDepth(3), "UnhandledError").
			Error(err, withoutObjects(msg), keysAndValues...)
	}
}

// objects are what an error quotes an object with: JSON, Go's forms of it, and long texts.
var objects = regexp.MustCompile("[{|\n]|&[a-z]|map\\[|\\[\\]byte|\"[^\"]{100}")

// withoutObjects returns a text up to the first object in it.
func withoutObjects(text string) string {
	if at := objects.FindStringIndex(text); at != nil {
		return strings.TrimRight(text[:at[0]], " ") + " …"
	}
	return text
}
