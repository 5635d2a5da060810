// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package junit writes reports in JUnit's XML, which CI servers show.
package junit

import (
	"encoding/xml"
	"fmt"
	"io"
)

// A Suite is a group of cases.
type Suite struct {
	Name string
	// File is its file, Seconds the time it took; both may be empty.
	File    string
	Seconds float64
	Cases   []Case
}

// A Case has passed unless it has a Failure or an Error. An Error means that it has no verdict.
type Case struct {
	Name string `xml:"name,attr"`
	// ClassName is the name of its group, as most servers show it.
	ClassName string `xml:"classname,attr"`
	// File and Line say where it stands; both may be empty.
	File string `xml:"file,attr,omitempty"`
	Line int    `xml:"line,attr,omitempty"`
	// Seconds is the time the case took; 0 if it isn't known.
	Seconds Seconds  `xml:"time,attr,omitempty"`
	Failure *Problem `xml:"failure,omitempty"`
	Error   *Problem `xml:"error,omitempty"`
	// Skipped says why there is no verdict if that isn't an error.
	Skipped *Skip `xml:"skipped,omitempty"`
	// Output is further text.
	Output string `xml:"system-out,omitempty"`
}

// A Problem describes a failure: in a line, as a kind, and in full.
type Problem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// A Skip says why a case has no verdict.
type Skip struct {
	Message string `xml:"message,attr"`
}

// Seconds is a duration as JUnit has it.
type Seconds float64

// MarshalText implements encoding.TextMarshaler.
func (s Seconds) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%.3f", float64(s)), nil }

type counts struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Errors   int `xml:"errors,attr"`
	Skipped  int `xml:"skipped,attr,omitempty"`
}

type suite struct {
	Name string `xml:"name,attr"`
	counts
	Seconds Seconds `xml:"time,attr,omitempty"`
	File    string  `xml:"file,attr,omitempty"`
	Cases   []Case  `xml:"testcase"`
}

type report struct {
	XMLName xml.Name `xml:"testsuites"`
	counts
	Suites []suite `xml:"testsuite"`
}

// Write writes a report with its counts. The error is the writer's.
func Write(w io.Writer, suites []Suite) error {
	all := report{}
	for _, s := range suites {
		one := suite{Name: s.Name, Seconds: Seconds(s.Seconds), File: s.File, Cases: s.Cases}
		one.Tests = len(s.Cases)
		for _, c := range s.Cases {
			switch {
			case c.Failure != nil:
				one.Failures++
			case c.Error != nil:
				one.Errors++
			case c.Skipped != nil:
				one.Skipped++
			}
		}
		all.Tests, all.Failures, all.Errors = all.Tests+one.Tests, all.Failures+one.Failures, all.Errors+one.Errors
		all.Skipped += one.Skipped
		all.Suites = append(all.Suites, one)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
