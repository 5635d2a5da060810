// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/internal/document"
	"gatehouse.dev/internal/terminal"
	"gatehouse.dev/plugin"
)

// Row describes one plugin in the output of `gatehouse plugins`.
type Row struct {
	Name       string   `json:"name"`
	Phases     []string `json:"phases"`
	Default    bool     `json:"default"`
	Enabled    bool     `json:"enabled"`
	Deprecated bool     `json:"deprecated"`
	// Until is the last minor version of Kubernetes that has the plugin, empty if today's has it.
	Until   string `json:"until,omitempty"`
	Summary string `json:"summary"`

	// Operations and Resources are what the plugin is asked about; a resource is written as in
	// "pods/resize" or "events.events.k8s.io", and "*" is all of them.
	Operations []string `json:"operations"`
	Resources  []string `json:"resources"`
	// Access lists the rights that the plugin needs of the API: "get,list,watch namespaces,pods".
	Access []string `json:"access,omitempty"`
	// Outside says why the plugin can't run outside the API server; empty if it can.
	Outside string `json:"outside,omitempty"`
}

// Rows describes every plugin of list, in its order, and whether it runs under options.
func Rows(list []plugin.Descriptor, options *config.Options) ([]Row, error) {
	selected, err := options.Select(list)
	if err != nil {
		return nil, err
	}
	running, rows := plugin.Names(selected), []Row{}
	for _, d := range list {
		rows = append(rows, Row{
			Name:       d.Name,
			Phases:     d.Phases.Names(),
			Default:    d.Default && !d.Ended(),
			Enabled:    slices.Contains(running, d.Name),
			Deprecated: d.Deprecated != "",
			Until:      d.Until,
			Summary:    d.Summary,
			Operations: operationsOf(&d),
			Resources:  resourcesOf(&d),
			Access:     accessOf(&d),
			Outside:    d.Server.Only,
		})
	}
	return rows, nil
}

// operations returns the operations that the plugin handles, in lower case.
func operationsOf(d *plugin.Descriptor) []string {
	if len(d.Operations) == 0 {
		return []string{"*"}
	}
	var all []string
	for _, o := range d.Operations {
		all = append(all, strings.ToLower(string(o)))
	}
	return all
}

// resources returns the resources that the plugin looks at.
func resourcesOf(d *plugin.Descriptor) []string {
	if len(d.Resources) == 0 {
		return []string{"*"}
	}
	var all []string
	for _, r := range d.Resources {
		all = append(all, r.String())
	}
	return all
}

// access returns the rights that the plugin needs of the API, one text for each rule.
func accessOf(d *plugin.Descriptor) []string {
	var all []string
	for _, rule := range d.Access {
		resources := rule.NonResourceURLs
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				resources = append(resources, plugin.AccessTo(group, resource).String())
			}
		}
		all = append(all, strings.Join(rule.Verbs, ",")+" "+strings.Join(resources, ","))
	}
	return all
}

// PrintRows writes rows as a table if format is empty, as all that there is about each plugin if it
// is wide, and otherwise as what it names: json or yaml. Lines are not wider than tableWidth.
func PrintRows(w io.Writer, rows []Row, format string) error {
	switch format {
	case "":
		return printTable(w, rows, widthOf(w))
	case "wide":
		return printWide(w, rows, widthOf(w))
	case "json", "yaml":
		return document.Write(w, format, rows)
	default:
		return fmt.Errorf("unknown output format %q: must be json, yaml or wide, or left out for a table", format)
	}
}

const (
	// tableWidth is how many columns a table has at most, unless one word needs more.
	tableWidth = 120
	// summaryWidth is how many of them are for a summary at least, whatever the names are.
	summaryWidth = 30
	// labelFormat begins the lines about a plugin.
	labelFormat = "  %-12s"
)

// widthOf returns the width of a table that is written to w.
func widthOf(w io.Writer) int {
	if columns, ok := terminal.Columns(w); ok {
		return min(columns, tableWidth)
	}
	return tableWidth
}

// printTable writes a line for each plugin, with its summary beside the rest, or below on a narrow terminal.
func printTable(w io.Writer, rows []Row, columns int) error {
	name, phases := len("NAME"), len("PHASES")
	for _, r := range rows {
		name, phases = max(name, len(r.Name)), max(phases, len(strings.Join(r.Phases, ",")))
	}
	format := fmt.Sprintf("%%-%ds   %%-%ds   %%-7v   %%-7v", name, phases)
	beside := len(fmt.Sprintf(format, "", "", "", "")) + len("   ")
	below := columns < tableWidth && columns-beside < summaryWidth
	width, head, indent := max(columns-beside, summaryWidth), "   SUMMARY", strings.Repeat(" ", beside)
	if below {
		width, head, indent = columns-2, "", "  "
	}
	var b strings.Builder
	line := func(text string) { b.WriteString(strings.TrimRight(text, " ") + "\n") }
	line(fmt.Sprintf(format, "NAME", "PHASES", "DEFAULT", "ENABLED") + head)
	for _, r := range rows {
		summary := r.Summary
		if r.Deprecated {
			summary = strings.TrimSpace("(deprecated) " + summary)
		}
		if r.Until != "" {
			summary = fmt.Sprintf("(until %s) %s", r.Until, summary)
		}
		first, rest := wrapText(summary, width)
		row := fmt.Sprintf(format, r.Name, strings.Join(r.Phases, ","), r.Default, r.Enabled)
		if below {
			line(row)
			line(indent + first)
		} else {
			line(row + "   " + first)
		}
		for _, more := range rest {
			line(indent + more)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printWide says what plugins are asked about, whether they can run outside the API server, and
// what they then need of the API.
func printWide(w io.Writer, rows []Row, columns int) error {
	var b strings.Builder
	for _, r := range rows {
		outside := "yes"
		if r.Outside != "" {
			outside = "no: " + r.Outside
		}
		access := "none"
		switch {
		case r.Outside != "":
			access = "-"
		case len(r.Access) > 0:
			access = strings.Join(r.Access, "; ")
		}
		enabled := fmt.Sprintf("%t (default %t)", r.Enabled, r.Default)
		if r.Deprecated {
			enabled += ", deprecated"
		}
		if r.Until != "" {
			enabled += ", until Kubernetes " + r.Until
		}
		b.WriteString(r.Name + "\n")
		for _, line := range [][2]string{
			{"summary", r.Summary}, {"phases", strings.Join(r.Phases, ",")}, {"enabled", enabled},
			{"operations", strings.Join(r.Operations, ",")}, {"resources", strings.Join(r.Resources, ",")},
			{"outside", outside}, {"access", access},
		} {
			label := fmt.Sprintf(labelFormat, line[0])
			first, rest := wrapText(line[1], columns-len(label))
			b.WriteString(label + first + "\n")
			for _, more := range rest {
				b.WriteString(strings.Repeat(" ", len(label)) + more + "\n")
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrapText returns text in lines of width, which end at spaces and commas.
func wrapText(text string, width int) (first string, rest []string) {
	var lines []string
	for len(text) > width {
		at := strings.LastIndexAny(text[:width], " ,") + 1
		if at == 0 {
			break
		}
		lines = append(lines, strings.TrimRight(text[:at], " "))
		text = text[at:]
	}
	lines = append(lines, text)
	return lines[0], lines[1:]
}
