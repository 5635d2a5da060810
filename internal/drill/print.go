// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package drill

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"gatehouse.dev/internal/count"
	"gatehouse.dev/internal/document"
	"gatehouse.dev/internal/lint"
	"gatehouse.dev/internal/terminal"
)

// Write prints the report in a format, one of lint.Formats or empty for text. version is the program's.
func (r *Report) Write(w io.Writer, format, version string) error {
	switch format {
	case "":
		return r.text(w)
	case "json", "yaml":
		return document.Write(w, format, r)
	}
	return r.findings("gatehouse drill").Write(w, format, version)
}

// findings returns the outages as findings of lint.
func (r *Report) findings(command string) *lint.Report {
	found := &lint.Report{Command: command, Unread: r.Unread, Notes: r.Notes}
	for i := range r.Outages {
		o := &r.Outages[i]
		severity := o.severity()
		if severity == "" {
			continue
		}
		w := o.Webhooks[0]
		f := lint.Finding{ID: "outage", Severity: severity, Source: w.Source, Part: w.Name,
			Object:  lint.Object{APIVersion: "admissionregistration.k8s.io/v1", Kind: w.Kind, Name: w.Configuration},
			Message: o.message(), Remedy: "exclude these from its rules or by its selectors"}
		found.Findings = append(found.Findings, f)
	}
	found.Fail() // counts
	return found
}

// message says in a line what an outage does.
func (o *Outage) message() string {
	parts := []string{"while " + o.areDown()}
	if len(o.Stops) > 0 {
		parts = append(parts, o.words("it stops ", "they stop ")+shortly(o.Stops))
	}
	if len(o.Waits) > 0 {
		parts = append(parts, o.words("it delays ", "they delay ")+shortly(o.Waits))
	}
	if len(o.Blocked) > 0 {
		parts = append(parts, o.words("it can't heal by itself: ", "they can't heal by themselves: ")+o.Blocked[0].What+
			" is refused")
	}
	return strings.Join(parts, ", ")
}

// words returns the words for one backend or for several.
func (o *Outage) words(one, many string) string {
	if len(o.Backends) == 1 {
		return one
	}
	return many
}

// areDown says which backends are down.
func (o *Outage) areDown() string {
	return strings.Join(o.Backends, " and ") + o.words(" is down", " are down")
}

// shortly names areas in a few words.
func shortly(areas []Area) string {
	const most = 3
	var words []string
	namespaces := 0
	for _, a := range areas {
		switch {
		case a.Name == nodesArea || a.Name == eventsArea || a.Critical:
			words = append(words, a.Name)
		default:
			if namespaces++; namespaces <= most {
				words = append(words, a.Name)
			}
		}
	}
	if namespaces > most {
		words = append(words, count.Of(namespaces-most, "more namespace"))
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

// text prints a table, and a paragraph for each outage that does something.
func (r *Report) text(w io.Writer) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(r.Outages) > 0 {
		fmt.Fprintln(table, "DOWN\tWEBHOOKS\tSTOPS\tHEALS BY ITSELF")
	}
	for i := range r.Outages {
		o := &r.Outages[i]
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\n", terminal.Line(strings.Join(o.Backends, ", ")), len(o.Webhooks), shortly(o.Stops),
			o.Heals)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for i := range r.Outages {
		if o := &r.Outages[i]; o.severity() != "" {
			o.print(&b)
		}
	}
	for _, u := range r.Unread {
		fmt.Fprintf(&b, "unread   %s\n", terminal.Line(u.String()))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", terminal.Line(note))
	}
	s := r.Summary
	fmt.Fprintf(&b, "\n%s: %s, %d of these what the cluster can't do without, %s\n",
		number(s.Outages, "outage", "outages"), number(s.Stops, "stops writes", "stop writes"), s.Critical,
		number(s.CantHeal, "doesn't end by itself", "don't end by themselves"))
	return terminal.Write(w, b.String(), terminal.Palette{
		Begin:    map[string]terminal.Color{"unread": terminal.Red},
		Indented: map[string]terminal.Color{"stops": terminal.Red, "waits": terminal.Yellow, "way": terminal.Green}})
}

// print prints a paragraph about an outage.
func (o *Outage) print(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s\n", terminal.Line(o.areDown()))
	var names []string
	for _, w := range o.Webhooks {
		names = append(names, w.Name+" ("+w.FailurePolicy+")")
	}
	line := func(head, text string) { fmt.Fprintf(b, "  %-9s%s\n", head, terminal.Line(text)) }
	line("webhooks", some(names))
	areas := func(head string, areas []Area, ends string) {
		for _, a := range areas {
			text := a.Name + ": " + some(a.Writes)
			if ends != "" {
				text += fmt.Sprintf(ends, a.Seconds)
			}
			line(head, text)
			head = ""
		}
	}
	areas("stops", o.Stops, "")
	areas("waits", o.Waits, ", up to %d s each")
	switch o.Heals {
	case Yes:
		line("heals", "yes: "+o.words("its pods, Service,", "their pods, Services,")+" endpoints and certificates can be made again")
	case Unknown:
		line("heals", "unknown: "+o.words("it is", "they are")+" outside the cluster")
	case No:
		for i, blocked := range o.Blocked {
			head := ""
			if i == 0 {
				head = "heals"
			}
			line(head, "no: "+blocked.What+" is refused by "+some(blocked.By))
		}
		line("way back", "kubectl delete "+strings.Join(o.configurations(), " ")+", which no webhook can refuse")
	}
}

// configurations returns what kubectl deletes to end an outage: the configurations of the webhooks that refuse.
func (o *Outage) configurations() (all []string) {
	for _, w := range o.Webhooks {
		name := strings.ToLower(w.Kind) + "/" + w.Configuration
		refuses := slices.ContainsFunc(o.Blocked, func(b Blocked) bool { return slices.Contains(b.By, w.Name) })
		if refuses && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// number returns a number with the word that fits it.
func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// some lists words, and only the first ones of many.
func some(words []string) string {
	const most = 6
	if n := len(words); n > most {
		words = append(slices.Clone(words[:most-1]), fmt.Sprintf("%d more", n-most+1))
	}
	return strings.Join(words, ", ")
}
