// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Command package makes a release of the programs that hack/release built:
//
//	hack/release                              # into dist/
//	go run ./hack/package -o release dist     # into release/
//	go run ./hack/package -notes v0.2.0       # what CHANGELOG.md says of the version
//
// For each program it writes an archive with the licences of all that is in the program, and a list of
// that, an SBOM in CycloneDX's format. For Linux it writes packages for Debian and for RPM with both
// programs. It writes the Helm chart, and the checksums of all these files.
//
// The programs say their version and the time of their commit. The same programs and the same Go give
// the same bytes. One of the programs must be gatehouse for this machine, which writes the completions.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	out := flag.String("o", "release", "directory for the files of the release, which must be new or empty")
	notes := flag.String("notes", "", "print what CHANGELOG.md says of this version, such as v0.2.0, and do nothing else")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: package [-o DIRECTORY] DIST\n       package -notes VERSION\n\n"+
			"DIST is the directory that hack/release wrote.\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if err := run(*out, *notes, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "package:", err)
		os.Exit(1)
	}
}

func run(out, version string, args []string) error {
	if version != "" {
		text, err := os.ReadFile("CHANGELOG.md")
		if err != nil {
			return err
		}
		said, err := notes(string(text), version)
		if err != nil {
			return err
		}
		_, err = fmt.Print(said)
		return err
	}
	if len(args) != 1 {
		return errors.New("name the directory that hack/release wrote, as dist")
	}
	programs, err := findPrograms(args[0])
	if err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if there, err := os.ReadDir(out); err != nil || len(there) > 0 {
		return errors.Join(err, fmt.Errorf("%s isn't empty: a release would have files that nobody made for it", out))
	}
	return pack(programs, out)
}

// pack writes the files of a release into a directory.
func pack(programs []program, out string) error {
	tools, err := buildTools()
	if err != nil {
		return err
	}
	completed, err := completions(programs)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	// The files of both programs for a platform of Linux's, by its architecture.
	linux := map[string][]entry{}
	for _, p := range programs {
		fmt.Fprintln(os.Stderr, p.name, p.os, p.arch)
		binary, err := os.ReadFile(p.file)
		if err != nil {
			return err
		}
		texts, err := thirdParty(p)
		if err != nil {
			return err
		}
		files := []entry{
			{name: p.fileName(), content: binary, executable: true},
			{name: "LICENSE", content: licence},
			{name: "THIRD-PARTY-LICENSES.txt", content: texts},
		}
		if p.name == gatehouse {
			files = append(files, completed...)
		}
		if p.os == "linux" {
			linux[p.arch] = append(linux[p.arch], named(files, p.name)...)
		}
		if err := writeArchive(filepath.Join(out, p.base()), p.os == "windows", files, p.time); err != nil {
			return err
		}
		if err := writeSBOM(tools, p, binary, filepath.Join(out, p.base()+".cdx.json")); err != nil {
			return err
		}
	}
	for arch, files := range linux {
		if err := writePackages(tools, programs[0], arch, files, out); err != nil {
			return err
		}
	}
	if err := writeChart(programs[0], out); err != nil {
		return err
	}
	return writeSums(out)
}

// named renames the texts of one of several programs in a package.
func named(files []entry, program string) []entry {
	files = slices.Clone(files)
	for i := range files {
		if files[i].name == "THIRD-PARTY-LICENSES.txt" {
			files[i].name = "THIRD-PARTY-LICENSES-" + program + ".txt"
		}
	}
	return files
}

// writeSums writes SHA256SUMS, in the format of sha256sum, of all files in a directory.
func writeSums(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), file.Name())
	}
	fmt.Print(sums.String())
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
