// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// maxAge is how long a list counts.
const maxAge = 60 * 24 * time.Hour

// An advisory says which versions of a module have a vulnerability.
type advisory struct {
	module string
	// The first affected version and the one that is fixed. An empty first version stands for all.
	from, fixed string
	id, about   string
}

// affects reports whether a version of a module has the vulnerability.
func (a advisory) affects(module, version string) bool {
	return module == a.module && (a.from == "" || semver.Compare(version, a.from) >= 0) && semver.Compare(version, a.fixed) < 0
}

// advisories is the list.
type advisories struct {
	date, until time.Time // the day on which it was made, and that of the newest advisory in its sources
	entries     []advisory
}

// checkAge returns an error if the list is too old, or if its date is yet to come.
func (l advisories) checkAge(now time.Time) error {
	switch age := now.Sub(l.date); {
	case age > maxAge:
		return fmt.Errorf("%s is of %s, more than 60 days old: add what was published since, and set its date",
			listFile, l.date.Format(time.DateOnly))
	case age < -24*time.Hour: // it may be tomorrow elsewhere
		return fmt.Errorf("%s is of %s, which is yet to come: set its date to the day on which its sources were read",
			listFile, l.date.Format(time.DateOnly))
	}
	return nil
}

// advisoryID matches the IDs of one line: those of Go's database, or another's if that has none.
var advisoryID = regexp.MustCompile(`^(((GO|CVE)-\d{4}-\d{4,}|GHSA(-[0-9a-z]{4}){3})(,\b|$))+$`)

// parseList reads a list. Lines that start with # are comments.
func parseList(text string) (advisories, error) {
	var l advisories
	for i, line := range strings.Split(text, "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if err := l.parseLine(strings.Fields(line)); err != nil {
			return l, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if l.date.IsZero() || l.until.IsZero() {
		return l, errors.New("no lines with date and until")
	}
	if l.until.After(l.date) {
		return l, errors.New("until is after date")
	}
	if len(l.entries) == 0 {
		return l, errors.New("no advisories")
	}
	return l, nil
}

func (l *advisories) parseLine(fields []string) (err error) {
	switch {
	case len(fields) == 2 && fields[0] == "date":
		l.date, err = time.Parse(time.DateOnly, fields[1])
		return err
	case len(fields) == 2 && fields[0] == "until":
		l.until, err = time.Parse(time.DateOnly, fields[1])
		return err
	case len(fields) < 5:
		return errors.New("it isn't MODULE FROM FIXED ID ABOUT…")
	}
	a := advisory{module: fields[0], fixed: "v" + fields[2], id: fields[3], about: strings.Join(fields[4:], " ")}
	if fields[1] != "-" {
		a.from = "v" + fields[1]
	}
	switch {
	case !semver.IsValid(a.fixed) || a.from != "" && !semver.IsValid(a.from):
		return fmt.Errorf("%s and %s must be versions without a v; the first may be -", fields[1], fields[2])
	case a.from != "" && semver.Compare(a.from, a.fixed) >= 0:
		return fmt.Errorf("%s isn't before %s", a.from, a.fixed)
	case !advisoryID.MatchString(a.id):
		return fmt.Errorf("%q is no ID, as GO-2026-6348, nor several with commas", a.id)
	}
	l.entries = append(l.entries, a)
	return nil
}
