// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Site builds the documentation site from the documents of a checkout.
//
//	go run . -into=/tmp/gatehouse-site
//
// A site has several versions: the newest release at its top, and each version in a directory of its
// own. A call builds one of them, and leaves the others as they are:
//
//	go run . -version=v0.2.1 -directory=v0.2 -into=/tmp/gatehouse-site
//
// The result needs no server: it can be opened as files.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	b := &builder{checkout: ".."}
	flag.StringVar(&b.version, "version", "main", "a tag or branch of the repository, which links to files name")
	flag.StringVar(&b.directory, "directory", "", "the version's directory in the site; by default the site's top")
	flag.StringVar(&b.into, "into", "", "the site's directory")
	flag.Parse()
	if b.into == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "site: -into must name the site's directory, and nothing may follow the flags")
		os.Exit(2)
	}
	if err := b.build(); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}
