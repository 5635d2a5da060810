// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gatehouse.dev/test/backends"
	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/servertest"
)

const deploy = "../../deploy/"

// dashboard is what of a Grafana dashboard is looked at here.
type dashboard struct {
	UID           string
	Title         string
	SchemaVersion int
	Templating    struct {
		List []struct {
			Name, Type string
			Query      any
		}
	}
	Panels []panel
}

type panel struct {
	ID          int
	Type, Title string
	Datasource  struct{ Type, UID string }
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct{ RefID, Expr string }
}

func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(deploy + "grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d dashboards: %v", len(files), err)
	}
	all := map[string]dashboard{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(content, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = d
	}
	return all
}

// A dashboard can be imported: it is for any data source, and has everything once.
func TestDashboards(t *testing.T) {
	uids := map[string]bool{}
	for file, d := range dashboards(t) {
		if d.UID == "" || uids[d.UID] || d.Title == "" || d.SchemaVersion == 0 {
			t.Errorf("%s: uid %q, title %q, schemaVersion %d", file, d.UID, d.Title, d.SchemaVersion)
		}
		uids[d.UID] = true
		variables := map[string]bool{}
		for _, v := range d.Templating.List {
			variables[v.Name] = true
			if v.Name == "datasource" && (v.Type != "datasource" || v.Query != "prometheus") {
				t.Errorf("%s: the variable datasource is %+v", file, v)
			}
		}
		ids, places := map[int]bool{}, map[string]bool{}
		for _, p := range d.Panels {
			place := fmt.Sprint(p.GridPos.X, p.GridPos.Y)
			if p.ID == 0 || ids[p.ID] || p.Title == "" || places[place] || p.GridPos.W+p.GridPos.X > 24 ||
				p.GridPos.H == 0 {
				t.Errorf("%s: panel %d %q is at %+v", file, p.ID, p.Title, p.GridPos)
			}
			ids[p.ID], places[place] = true, true
			if p.Type == "row" {
				continue
			}
			if len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" || p.Datasource.Type != "prometheus" {
				t.Errorf("%s: panel %q has %d expressions of %+v", file, p.Title, len(p.Targets), p.Datasource)
			}
			refs := map[string]bool{}
			for _, target := range p.Targets {
				if target.RefID == "" || refs[target.RefID] {
					t.Errorf("%s: panel %q has the expression %q twice", file, p.Title, target.RefID)
				}
				refs[target.RefID] = true
				for _, v := range regexp.MustCompile(`\$([a-z]+)`).FindAllStringSubmatch(target.Expr, -1) {
					if !variables[v[1]] {
						t.Errorf("%s: panel %q: there is no variable %q", file, p.Title, v[1])
					}
				}
			}
		}
		if !variables["datasource"] || len(ids) < 10 {
			t.Errorf("%s: the variables are %v, there are %d panels", file, variables, len(ids))
		}
	}
}

// The alerts' own tests hold.
func TestAlerts(t *testing.T) {
	needs.Programs(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "gatehouse.rules.yaml"},
		{"test", "rules", "gatehouse.rules.test.yaml"}} {
		command := exec.CommandContext(t.Context(), "promtool", args...)
		command.Dir = deploy + "prometheus"
		if out, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// prometheus is the API of a Prometheus.
type prometheus string

// get has it answer a question, as T.
func get[T any](t *testing.T, p prometheus, path string) (data T, err error) {
	t.Helper()
	resp, err := http.Get(string(p) + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	answer := struct {
		Status, Error string
		Data          *T
	}{Data: &data}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatalf("%s: %s: %v\n%s", path, resp.Status, err, body)
	}
	if answer.Status != "success" {
		return data, fmt.Errorf("%s", answer.Error)
	}
	return data, nil
}

// result is that of a query.
type result struct{ Result []any }

func (p prometheus) query(t *testing.T, expr string) (result, error) {
	t.Helper()
	return get[result](t, p, "/api/v1/query?query="+url.QueryEscape(expr))
}

// inPrometheus is a dashboard's expression as Grafana would send it.
var inPrometheus = strings.NewReplacer("$__rate_interval", "1m", "$job", ".+", "$instance", ".+")

var (
	// notMetrics is what of an expression has names in it that aren't metrics'.
	notMetrics = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|(?:by|without|on|ignoring) \([^)]*\)`)
	name       = regexp.MustCompile(`[a-z_]{8,}\b`)
	suffix     = regexp.MustCompile(`_(bucket|count|sum)$`)
)

// quotas is the one metric of kube-state-metrics.
const quotas = "kube_resourcequota"

// metricsIn are the metrics that an expression is about.
func metricsIn(expr string) []string {
	var all []string
	for _, word := range name.FindAllString(notMetrics.ReplaceAllString(expr, ""), -1) {
		if strings.Contains(word, "_") && word != "histogram_quantile" {
			all = append(all, word)
		}
	}
	return all
}

// A Prometheus that scrapes the server takes the alerts, and every expression of the dashboards:
// all are about metrics that are documented, and those of which there are samples show some.
func TestInPrometheus(t *testing.T) {
	use(t)
	dir := t.TempDir()
	identity := cluster.Config.TLSClientConfig
	for file, content := range map[string][]byte{"ca": identity.CAData, "cert": identity.CertData,
		"key": identity.KeyData} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := filepath.Abs(deploy + "prometheus/gatehouse.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(cluster.Config.Host, "https://")
	// As kube-state-metrics v2 has it, which Gatehouse has no part in.
	state := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for kind, value := range map[string]int{"hard": 4, "used": 3} {
			fmt.Fprintf(w, "%s{namespace=\"shop\",resourcequota=\"small\",resource=\"pods\",type=%q} %d\n", quotas, kind, value)
		}
	}))
	t.Cleanup(state.Close)
	server := prometheus(backends.RunPrometheus(t, fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [%q]
scrape_configs:
- job_name: gatehouse
  scheme: https
  tls_config: {ca_file: %[2]s/ca, cert_file: %[2]s/cert, key_file: %[2]s/key}
  static_configs: [{targets: [%[3]q]}]
- job_name: kube-state-metrics
  static_configs: [{targets: [%[4]q]}]
`, rules, dir, address, state.Listener.Addr())))

	// It has scraped twice, and evaluated the alerts.
	servertest.Retry(t, "samples", func() error {
		found, err := server.query(t, `rate(gatehouse_decisions_total[1m])`)
		if err == nil && len(found.Result) == 0 {
			err = fmt.Errorf("none yet")
		}
		return err
	})
	type ruleGroups struct {
		Groups []struct {
			Rules []struct{ Name, Query, Health, LastError string }
		}
	}
	var alerts ruleGroups
	servertest.Eventually(t, "the alerts to be evaluated", func() bool {
		var err error
		if alerts, err = get[ruleGroups](t, server, "/api/v1/rules"); err != nil {
			t.Fatal(err)
		}
		for _, group := range alerts.Groups {
			for _, rule := range group.Rules { // which are evaluated one after the other
				if rule.Health == "unknown" {
					return false
				}
			}
		}
		return len(alerts.Groups) > 0
	})
	documents, families := documentedMetrics(t), shown(t)
	about := func(what, expr string) (samples bool) {
		metrics := metricsIn(expr)
		if len(metrics) == 0 {
			t.Errorf("%s is about no metric: %s", what, expr)
		}
		samples = true
		for _, metric := range metrics {
			base := metric
			if base == quotas {
				continue
			}
			if _, ok := documents[base]; !ok {
				base = suffix.ReplaceAllString(metric, "")
			}
			if _, ok := documents[base]; !ok {
				t.Errorf("%s: docs/metrics.md has no %s", what, metric)
			}
			samples = samples && families[base] != nil
		}
		return samples
	}
	for _, group := range alerts.Groups {
		for _, rule := range group.Rules {
			if rule.Health != "ok" {
				t.Errorf("alert %s: %s %s", rule.Name, rule.Health, rule.LastError)
			}
			about(rule.Name, rule.Query)
		}
	}
	if len(alerts.Groups) != 1 || len(alerts.Groups[0].Rules) < 9 {
		t.Errorf("the alerts are %+v", alerts)
	}
	expressions := 0
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				expressions++
				expr := inPrometheus.Replace(target.Expr)
				samples := about(p.Title, expr)
				// Of rates above 0 and of refusals there may be none.
				filtered := regexp.MustCompile(`> 0|rejected="true"|decision="deny"|topk`).MatchString(expr) &&
					!strings.Contains(expr, quotas)
				// There is none either while the last scrape has failed, as on a busy machine.
				servertest.Retry(t, fmt.Sprintf("%s: panel %q: %s", file, p.Title, expr), func() error {
					found, err := server.query(t, expr)
					if err == nil && samples && !filtered && len(found.Result) == 0 {
						err = fmt.Errorf("no results")
					}
					return err
				})
			}
		}
		for _, v := range d.Templating.List {
			if query, ok := v.Query.(map[string]any); ok {
				about("variable "+v.Name, strings.ReplaceAll(fmt.Sprint(query["query"]), "label_values", ""))
			}
		}
	}
	if expressions < 20 {
		t.Errorf("%d expressions", expressions)
	}
}
