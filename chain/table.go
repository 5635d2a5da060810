package chain

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"
)

// Row is what `gatehouse plugins` says of one plugin.
type Row struct {
	Name       string   `json:"name"`
	Phases     []string `json:"phases"`
	Default    bool     `json:"default"`
	Enabled    bool     `json:"enabled"`
	Deprecated bool     `json:"deprecated"`
	Summary    string   `json:"summary"`
}

// Rows describes every plugin of list, in its order, and whether it runs under options.
func Rows(list []Descriptor, options *Options) ([]Row, error) {
	selected, err := options.Select(list)
	if err != nil {
		return nil, err
	}
	rows := []Row{}
	for _, d := range list {
		rows = append(rows, Row{
			Name:       d.Name,
			Phases:     d.Phases.Names(),
			Default:    d.Default,
			Enabled:    hasName(selected, d.Name),
			Deprecated: d.Deprecated != "",
			Summary:    d.Summary,
		})
	}
	return rows, nil
}

// PrintRows writes rows as a table where format is empty, and otherwise as what it names: json or
// yaml.
func PrintRows(w io.Writer, rows []Row, format string) error {
	switch format {
	case "":
		return printTable(w, rows)
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(rows)
	case "yaml":
		data, err := yaml.Marshal(rows)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	default:
		return fmt.Errorf("unknown output format %q: must be json or yaml, or left out for a table", format)
	}
}

func printTable(w io.Writer, rows []Row) error {
	table := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "NAME\tPHASES\tDEFAULT\tENABLED\tSUMMARY")
	for _, r := range rows {
		summary := r.Summary
		if r.Deprecated {
			summary = strings.TrimSpace("(deprecated) " + summary)
		}
		fmt.Fprintf(table, "%s\t%s\t%t\t%t\t%s\n", r.Name, strings.Join(r.Phases, ","), r.Default, r.Enabled, summary)
	}
	return table.Flush()
}
