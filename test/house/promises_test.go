// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// promised has the packages of which docs/compatibility.md promises something. With a slash at the end it is all below.
var promised = []string{"plugin/", "plugin", "plugins", "cli", "webhook/server", "gatehousetest", "review", "apis", "apis/"}

// A package that can be imported, and of which nothing is promised, says so in its comment. Those of plugins and of
// what Kubernetes removed don't: packages plugins and removed say it of all below them.
func TestPromises(t *testing.T) {
	comments := map[string]string{}
	for _, file := range goFiles(t) {
		dir := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") || strings.Contains("/"+dir+"/", "/internal/") || startsWithAny(file, []string{
			"plugins/", "removed/", "cmd/", "examples/", "test/", "bench/", "hack/", "site/",
		}) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), root+file, nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		comments[dir] += parsed.Doc.Text()
	}
	if len(comments) < 30 {
		t.Fatalf("only %d packages can be imported", len(comments))
	}
	for dir, comment := range comments {
		isPromised := slices.ContainsFunc(promised, func(p string) bool {
			return dir == p || strings.HasSuffix(p, "/") && strings.HasPrefix(dir, p)
		})
		if !isPromised && !strings.Contains(strings.Join(strings.Fields(comment), " "), "no promise") {
			t.Errorf("%s: the package's comment doesn't say that it has no promise of compatibility", dir)
		}
	}
}
