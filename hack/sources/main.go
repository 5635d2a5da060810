// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Command sources checks the comments that say which source of Kubernetes a piece of code was written
// from. A reference in a comment is a module's path, the name of a declaration, and a hash:
//
//	// Source: k8s.io/apiserver/pkg/admission/plugin/cel/condition.go#CreateAdmissionRequest 1f0c9a3e
//
// The path is that of a file or of a directory. Without a name all of it is meant, apart from tests.
// A method is Type.Method. The hash is that of the declaration without its comments. If the version in
// go.mod has another declaration than its reader saw, the hash differs: read the source again, change
// the code if need be, and then the hash.
//
//	go run ./hack/sources                  check all references
//	go run ./hack/sources -since v1.36.3   show what has changed in what they refer to since a version
//	go run ./hack/sources -hash PATH#NAME  print a reference with its hash
//	go run ./hack/sources -read            write the hashes of today's sources into the comments
//
// The exit code is 1 if a source is another or is gone, and 2 if it could not be checked.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the command. It returns the exit code.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	flags := flag.NewFlagSet("sources", flag.ContinueOnError)
	flags.SetOutput(errs)
	since := flags.String("since", "", "show what has changed since this `version` of Kubernetes, as v1.36.3")
	hash := flags.String("hash", "", "print this `reference` with its hash")
	read := flags.Bool("read", false, "write the hashes of today's sources into the comments")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(errs, "sources: unexpected argument %q; -h shows the flags\n", flags.Arg(0))
		return 2
	}
	err := do(ctx, out, *since, *hash, *read)
	if err != nil {
		fmt.Fprintf(errs, "sources: %v\n", err)
	}
	return exitCode(err)
}

// exitCode returns the exit code for a result.
func exitCode(err error) int {
	switch {
	case errors.Is(err, errDiffers):
		return 1
	case err != nil:
		return 2
	}
	return 0
}

// errDiffers is returned if a source isn't the one that the reader saw.
var errDiffers = errors.New("sources of Kubernetes differ from those that were read; " +
	"read them again, and then write the new hash beside the reference")

func do(ctx context.Context, out io.Writer, since, hash string, read bool) error {
	root, err := output(ctx, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	if err := os.Chdir(strings.TrimSpace(root)); err != nil {
		return err
	}
	if hash != "" {
		now, err := required(ctx, hash)
		if err != nil {
			return err
		}
		source, err := now.source(hash)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %s\n", hash, source.hash())
		return nil
	}
	found, err := references(ctx)
	if err != nil {
		return err
	}
	names := make([]string, len(found))
	for i := range found {
		names[i] = found[i].to
	}
	now, err := required(ctx, names...)
	if err != nil {
		return err
	}
	switch {
	case since != "":
		old, err := ofVersion(ctx, since, now)
		if err != nil {
			return err
		}
		return showChanges(ctx, out, found, old, now)
	case read:
		return writeHashes(found, now)
	}
	return check(out, found, now)
}

// check prints the references whose source is another or is gone.
func check(out io.Writer, found []reference, now modules) error {
	differ := 0
	for _, r := range found {
		source, err := now.source(r.to)
		switch {
		case errors.Is(err, errGone):
			fmt.Fprintf(out, "%s:%d: %v\n", r.file, r.line, err)
			differ++
		case err != nil:
			return fmt.Errorf("%s:%d: %w", r.file, r.line, err)
		case source.hash() != r.hash:
			fmt.Fprintf(out, "%s:%d: %s has the hash %s, and not %s\n", r.file, r.line, r.to, source.hash(), r.hash)
			differ++
		}
	}
	if differ > 0 {
		return fmt.Errorf("%d of %d: %w", differ, len(found), errDiffers)
	}
	if len(found) == 0 {
		return errors.New("no references were found")
	}
	return nil
}
