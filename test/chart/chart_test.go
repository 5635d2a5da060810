// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart tests the Helm chart in deploy/chart: with Helm itself, and against package
// manifests, which says the same in Go.
package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/plugin"
	"gatehouse.dev/remote/manifests"
	"gatehouse.dev/test/charts"
	"gatehouse.dev/test/needs"
)

var update = flag.Bool("update", false, "write the chart's files that are made from others")

const (
	dir    = "../../deploy/chart/"
	schema = dir + "values.schema.json"
)

// helm is the program, once built.
var helm string

func TestMain(m *testing.M) {
	needs.NotShort()
	os.Exit(func() int {
		bin, err := os.MkdirTemp("", "chart")
		if err == nil {
			defer os.RemoveAll(bin)
			helm, err = filepath.Join(bin, "helm"), charts.BuildHelm(context.Background(), bin)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// run runs helm on the chart.
func run(t *testing.T, args ...string) (stdout, stderr string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), helm, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	return out.String(), errs.String(), err == nil
}

// outside are the plugins that can run outside the API server.
func outside() (list []plugin.Descriptor) {
	for _, d := range compiled.Plugins {
		if d.Server.Only == "" {
			list = append(list, d)
		}
	}
	return list
}

func named(t *testing.T, names ...string) (list []plugin.Descriptor) {
	t.Helper()
	for _, name := range names {
		i := slices.IndexFunc(compiled.Plugins, func(d plugin.Descriptor) bool { return d.Name == name })
		if i < 0 {
			t.Fatalf("there is no plugin %s", name)
		}
		list = append(list, compiled.Plugins[i])
	}
	return list
}

// What a chart can't take from elsewhere in the tree, it has of its own, and no different.
func TestFilesAreCurrent(t *testing.T) {
	access, names := map[string][]rbacv1.PolicyRule{}, []string{}
	for _, d := range outside() {
		names, access[d.Name] = append(names, d.Name), d.Access
		if d.Access == nil {
			access[d.Name] = []rbacv1.PolicyRule{}
		}
	}
	rights, err := yaml.Marshal(access)
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	values := regexp.MustCompile(`"enum": \["A.*\]|"enum": \[\]`).ReplaceAllLiteral(read(t, schema),
		[]byte(`"enum": `+strings.ReplaceAll(string(quoted), ",", ", ")))
	for file, want := range map[string][]byte{
		dir + "files/access.yaml": append([]byte("# What each plugin needs of the API: its Descriptor's Access.\n"),
			rights...),
		dir + "files/podpresets.yaml": read(t, "../../removed/apis/settings/v1alpha1/podpresets.yaml"),
		dir + "files/dashboard.json":  read(t, "../../deploy/grafana/gatehouse-admission.json"),
		dir + "files/rules.yaml":      read(t, "../../deploy/prometheus/gatehouse.rules.yaml"),
		schema:                        values,
	} {
		if *update {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s isn't what it is made from: run go test ./test/chart -run=TestFilesAreCurrent -update", file)
		}
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Helm has nothing to say of the chart.
func TestLint(t *testing.T) {
	for _, values := range []string{"{}", everything} {
		if _, stderr, ok := run(t, "lint", dir, "--namespace=gatehouse-system", "-f", file(t, values)); !ok {
			t.Errorf("with %s:\n%s", values, stderr)
		}
	}
}

// everything are all values, and every plugin that an example of a configuration is of.
const everything = `
plugins: [PodPreset, AlwaysPullImages, PodNodeSelector, ResourceQuota]
configuration: {PodNodeSelector: {podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: zone=a}}}
failurePolicy: {AlwaysPullImages: Ignore, PodNodeSelector: Fail}
mode: {AlwaysPullImages: warn}
flags: [--v=2]
image: {repository: registry.example.com/g, tag: v1, pullPolicy: Always, pullSecrets: [s]}
replicas: 3
resources: {requests: {cpu: 10m}}
nodeSelector: {a: b}
tolerations: [{operator: Exists}]
priorityClassName: high
volumes: [{name: k, secret: {secretName: k}}]
volumeMounts: [{name: k, mountPath: /k, readOnly: true}]
callers: {clientCA: authority, tokenIssuer: "https://issuer.example.com", tokenKeys: keys}
networkPolicy: {egress: [{ports: [{port: 443}]}], apiServers: [192.0.2.0/28], peers: [{podSelector: {}}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: rules}}
dashboard: {enabled: true}
`

func file(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// rendered are the chart's objects, without its hooks.
func rendered(t *testing.T, values string, args ...string) []*unstructured.Unstructured {
	t.Helper()
	stdout, stderr, ok := run(t, append([]string{"template", "gatehouse", dir, "--namespace=gatehouse-system",
		"-f", file(t, values)}, args...)...)
	if !ok {
		t.Fatalf("helm template: %s", stderr)
	}
	var objects []*unstructured.Unstructured
	for _, document := range strings.Split(stdout, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(u.Object) > 0 {
			objects = append(objects, u)
		}
	}
	return objects
}

// The chart and `gatehouse webhook manifests` are the same installation, but for what only one of
// them has.
func TestSameAsManifests(t *testing.T) {
	const configuration = `{"podNodeSelectorPluginConfig":{"clusterDefaultNodeSelector":"zone=a"}}`
	all := outside()
	for name, test := range map[string]struct {
		values  string
		options manifests.Options
	}{
		"as it comes": {"{}", manifests.Options{Plugins: named(t, "AlwaysPullImages")}},
		"configured": {"plugins: [PodNodeSelector, PodPreset]\nconfiguration: {PodNodeSelector: " + configuration + "}",
			manifests.Options{Plugins: named(t, "PodNodeSelector", "PodPreset"),
				Configuration: `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AdmissionConfiguration",` +
					`"plugins":[{"name":"PodNodeSelector","configuration":` + configuration + `}]}`}},
		"from API servers": {"networkPolicy: {apiServers: [192.0.2.0/28, '2001:db8::/64']}",
			manifests.Options{Plugins: named(t, "AlwaysPullImages"),
				APIServers: []string{"192.0.2.0/28", "2001:db8::/64"}}},
		"every plugin": {"plugins: [" + strings.Join(namesOf(all), ",") + "]", manifests.Options{Plugins: all}},
		"other values": {"replicas: 5\nimage: {repository: r, tag: t}\nfailurePolicy: {DenyEscalatingExec: Ignore, " +
			"ResourceQuota: Ignore}\nmode: {ResourceQuota: audit}\nflags: [--per-plugin]\n" +
			"plugins: [ResourceQuota, DenyEscalatingExec]",
			manifests.Options{Plugins: named(t, "ResourceQuota", "DenyEscalatingExec"), Replicas: 5, Image: "r:t",
				Flags: []string{"--failure-policy=DenyEscalatingExec=Ignore,ResourceQuota=Ignore",
					"--mode=ResourceQuota=audit", "--per-plugin"}}},
	} {
		t.Run(name, func(t *testing.T) {
			o := test.options
			o.Name, o.Namespace = "gatehouse", "gatehouse-system"
			if o.Replicas == 0 {
				o.Replicas, o.Image = 2, "ghcr.io/gatehouse/gatehouse-webhook:0.2.0"
			}
			objects, err := manifests.Objects(&o)
			if err != nil {
				t.Fatal(err)
			}
			chart := rendered(t, test.values, "--no-hooks")
			if diff := cmp.Diff(comparable(t, objects), comparable(t, chart)); diff != "" {
				t.Errorf("-manifests +chart\n%s", diff)
			}
		})
	}
}

func namesOf(list []plugin.Descriptor) (names []string) {
	for i := range list {
		names = append(names, list[i].Name)
	}
	return names
}

// comparable are objects by kind and name, without Helm's labels, the namespace that Helm makes
// itself, and how a configuration is written down.
func comparable(t *testing.T, objects []*unstructured.Unstructured) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, u := range objects {
		if u.GetKind() == "Namespace" {
			continue
		}
		// as JSON has it, so that numbers are of one type
		data, err := json.Marshal(u.Object)
		if err != nil {
			t.Fatal(err)
		}
		var object any
		if err := json.Unmarshal(data, &object); err != nil {
			t.Fatal(err)
		}
		withoutHelms(object)
		if u.GetKind() == "ConfigMap" {
			text, _, _ := unstructured.NestedString(u.Object, "data", "admission.yaml")
			var configuration any
			if err := yaml.Unmarshal([]byte(text), &configuration); err != nil {
				t.Fatal(err)
			}
			object.(map[string]any)["data"] = configuration
		}
		key := u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
		if all[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		all[key] = object
	}
	return all
}

func withoutHelms(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, field := range []string{"labels", "annotations"} {
			if set, ok := value[field].(map[string]any); ok {
				for _, key := range []string{"app.kubernetes.io/version", "app.kubernetes.io/managed-by",
					"helm.sh/chart", "helm.sh/resource-policy"} {
					delete(set, key)
				}
				if set["gatehouse.dev/configuration"] != nil {
					set["gatehouse.dev/configuration"] = "its digest"
				}
			}
		}
		for _, inner := range value {
			withoutHelms(inner)
		}
	case []any:
		for _, inner := range value {
			withoutHelms(inner)
		}
	}
}

// What the values add to that.
func TestValues(t *testing.T) {
	objects := map[string]*unstructured.Unstructured{}
	for _, u := range rendered(t, everything) {
		objects[u.GetKind()+" "+u.GetName()] = u
	}
	for where, want := range map[string]string{
		"Deployment gatehouse spec.template.spec.nodeSelector":      `{"a":"b"}`,
		"Deployment gatehouse spec.template.spec.tolerations":       `[{"operator":"Exists"}]`,
		"Deployment gatehouse spec.template.spec.priorityClassName": `"high"`,
		"Deployment gatehouse spec.template.spec.imagePullSecrets":  `[{"name":"s"}]`,
		"Deployment gatehouse spec.template.spec.volumes": `[{"configMap":{"name":"gatehouse"},` +
			`"name":"configuration"},{"configMap":{"name":"gatehouse-callers"},"name":"callers"},` +
			`{"name":"k","secret":{"secretName":"k"}}]`,
		"ConfigMap gatehouse-callers data":         `{"ca.crt":"authority","keys":"keys"}`,
		"NetworkPolicy gatehouse spec.policyTypes": `["Ingress","Egress"]`,
		"NetworkPolicy gatehouse spec.egress":      `[{"ports":[{"port":443}]}]`,
		"NetworkPolicy gatehouse spec.ingress": `[{"from":[{"ipBlock":{"cidr":"192.0.2.0/28"}},` +
			`{"podSelector":{}}],"ports":[{"port":"https","protocol":"TCP"}]}]`,
		"ServiceMonitor gatehouse metadata.labels.release":                    `"prometheus"`,
		"PrometheusRule gatehouse metadata.labels.release":                    `"rules"`,
		"ConfigMap gatehouse-dashboard metadata.labels.grafana_dashboard":     `"1"`,
		"Job gatehouse-uninstall metadata.annotations.helm$sh/hook":           `"pre-delete"`,
		"Job gatehouse-uninstall spec.template.spec.serviceAccountName":       `"gatehouse"`,
		"CustomResourceDefinition podpresets.settings.k8s.io spec.names.kind": `"PodPreset"`,
	} {
		key, path := where[:strings.LastIndex(where, " ")], where[strings.LastIndex(where, " ")+1:]
		u := objects[key]
		if u == nil {
			t.Errorf("there is no %s", key)
			continue
		}
		fields := strings.Split(path, ".")
		for i := range fields {
			fields[i] = strings.ReplaceAll(fields[i], "$", ".")
		}
		value, _, err := unstructured.NestedFieldNoCopy(u.Object, fields...)
		got, _ := json.Marshal(value)
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", where, got, err, want)
		}
	}
	var rules any
	if err := yaml.Unmarshal(read(t, "../../deploy/prometheus/gatehouse.rules.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rules, objects["PrometheusRule gatehouse"].Object["spec"]); diff != "" {
		t.Errorf("-deploy/prometheus +PrometheusRule\n%s", diff)
	}
	dashboard, _, _ := unstructured.NestedString(objects["ConfigMap gatehouse-dashboard"].Object, "data",
		"gatehouse-admission.json")
	if !json.Valid([]byte(dashboard)) {
		t.Errorf("the dashboard isn't JSON:\n%.200s", dashboard)
	}
	notes, stderr, ok := run(t, "template", "gatehouse", dir, "--namespace=gatehouse-system", "--notes")
	if !ok || !strings.Contains(notes, "AlwaysPullImages: asked about every request that it acts on") ||
		!strings.Contains(notes, "have them show certificates, and set callers.clientCA") {
		t.Errorf("notes: %s%s", notes, stderr)
	}
}

// Wrong values are refused, in a sentence that says which.
func TestWrongValues(t *testing.T) {
	for values, want := range map[string]string{
		"plugins: []":                              "plugins",
		"plugins: [NamespaceLifecycle]":            "plugins",
		"plugins: [alwaysPullImages]":              "plugins",
		"plugins: AlwaysPullImages":                "plugins",
		"plugins: [AlwaysAdmit, AlwaysAdmit]":      "plugins",
		"failurePolicy: {AlwaysPullImages: Maybe}": "failurePolicy",
		"mode: {AlwaysPullImages: maybe}":          "mode",
		"mode: {AlwaysAdmit: warn}":                `mode: "AlwaysAdmit" is not among the plugins`,
		"failurePolicy: {AlwaysAdmit: Ignore}":     `failurePolicy: "AlwaysAdmit" is not among the plugins`,
		"configuration: {AlwaysAdmit: {}}":         `configuration: "AlwaysAdmit" is not among the plugins`,
		"configuration: {Other: {}}":               "'Other'",
		"replicas: 0":                              "replicas",
		"replica: 2":                               "replica",
		"flags: [v]":                               "flags",
		"image: {tag: 1}":                          "tag",
		"networkPolicy: {apiServers: [here]}":      "apiServers",
		"networkPolicy: {peers: [{}]}":             "networkPolicy.peers: without networkPolicy.apiServers",
	} {
		_, stderr, ok := run(t, "template", "gatehouse", dir, "-f", file(t, values))
		if ok || !strings.Contains(stderr, want) {
			t.Errorf("%s: refused %t, with %s", values, !ok, stderr)
		}
	}
}
