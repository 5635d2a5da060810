// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"context"
	"errors"
	"regexp"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// HideLoggedValues makes the process's log of unhandled errors leave out the objects that errors
// quote, as the decision log does. Call it before the server starts.
func HideLoggedValues() {
	utilruntime.ErrorHandlers[0] = func(ctx context.Context, err error, msg string, keysAndValues ...any) {
		if err != nil {
			err = errors.New(withoutObjects(err.Error()))
		}
		klog.LoggerWithName(klog.FromContext(ctx).WithCallDepth(3), "UnhandledError").
			Error(err, withoutObjects(msg), keysAndValues...)
	}
}

// quotedObjects matches the start of an object in an error: JSON, Go's forms of it, and long texts.
var quotedObjects = regexp.MustCompile("[{|\n]|&[a-z]|map\\[|\\[\\]byte|\"[^\"]{100}")

// withoutObjects returns a text up to the first object in it.
func withoutObjects(text string) string {
	if at := quotedObjects.FindStringIndex(text); at != nil {
		return strings.TrimRight(text[:at[0]], " ") + " …"
	}
	return text
}
