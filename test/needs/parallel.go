// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"flag"
	"runtime"
	"strconv"
)

// ManyAtATime makes more parallel tests run at a time than there are processors. TestMain calls it in packages whose
// tests wait more than they compute. An explicit -parallel takes precedence.
func ManyAtATime() {
	if parallel := flag.Lookup("test.parallel"); parallel.Value.String() == parallel.DefValue {
		_ = parallel.Value.Set(strconv.Itoa(2 * runtime.GOMAXPROCS(0))) // it is a number
	}
}
