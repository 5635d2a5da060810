// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package plugins

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"gatehouse.dev/plugin"
)

func TestNamesAreUniqueAndSummariesOneLine(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range List {
		if seen[d.Name] {
			t.Errorf("%s is there twice", d.Name)
		}
		seen[d.Name] = true
		if d.Summary == "" || strings.ContainsAny(d.Summary, "\n") || strings.HasSuffix(d.Summary, ".") {
			t.Errorf("%s: the summary should be one line, not a sentence: %q", d.Name, d.Summary)
		}
		if d.Phases == 0 || d.New == nil {
			t.Errorf("%s has no phase or no New", d.Name)
		}
	}
}

// The run order of the plugins that exist, as the project's plugin table has it.
func TestOrder(t *testing.T) {
	var names []string
	for _, d := range List {
		names = append(names, d.Name)
	}
	want := "AlwaysAdmit NamespaceAutoProvision NamespaceLifecycle NamespaceExists " +
		"LimitPodHardAntiAffinityTopology LimitRanger ServiceAccount " +
		"NodeRestriction TaintNodesByCondition AlwaysPullImages ImagePolicyWebhook PodSecurity " +
		"PodNodeSelector Priority DefaultTolerationSeconds PodTolerationRestriction " +
		"EventRateLimit ExtendedResourceToleration DefaultStorageClass " +
		"StorageObjectInUseProtection PodGroupProtection OwnerReferencesPermissionEnforcement " +
		"PersistentVolumeClaimResize RuntimeClass CertificateApproval CertificateSigning ClusterTrustBundleAttest " +
		"CertificateSubjectRestriction DefaultIngressClass DenyServiceExternalIPs PodTopologyLabels " +
		"PodGroupWorkloadExists NodeDeclaredFeatureValidator JobValidation PodResizeValidator " +
		"MutatingAdmissionPolicy MutatingAdmissionWebhook ValidatingAdmissionPolicy " +
		"ValidatingAdmissionWebhook ResourceQuota AlwaysDeny"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// Plugins that read from a cache and live say what they aren't given; neither do they take a
// configuration.
func TestWhatIsMissingIsNamed(t *testing.T) {
	client := fake.NewClientset()
	reading := []string{
		"LimitRanger", "NamespaceAutoProvision", "NamespaceExists", "NamespaceLifecycle", "PersistentVolumeClaimResize",
		"PodGroupWorkloadExists", "Priority", "RuntimeClass", "ServiceAccount",
	}
	for _, d := range List {
		if !slices.Contains(reading, d.Name) {
			continue
		}
		reading = slices.DeleteFunc(reading, func(name string) bool { return name == d.Name })
		for want, given := range map[string]struct {
			config io.Reader
			env    plugin.Env
		}{
			" needs a client": {env: plugin.Env{Informers: informers.NewSharedInformerFactory(
				client, 0)}},
			" needs informers":                          {env: plugin.Env{Client: client}},
			" takes no configuration, but is given one": {config: strings.NewReader("a: b")},
		} {
			if _, err := d.New(given.config, &given.env); err == nil || err.Error() != d.Name+want {
				t.Errorf("got %v, want %s%s", err, d.Name, want)
			}
		}
	}
	if len(reading) > 0 {
		t.Errorf("not on the list: %q", reading)
	}
}

func TestEveryFolderIsAListedPluginAndDocumented(t *testing.T) {
	listed := map[string]string{}
	for _, d := range List {
		listed[strings.ToLower(d.Name)] = d.Name
		if !strings.HasPrefix(d.Manual, "# "+d.Name+"\n") {
			t.Errorf("%s: its Manual is not its README.md", d.Name)
		}
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		folder := entry.Name()
		if !entry.IsDir() || folder == "internal" {
			continue
		}
		name, ok := listed[folder]
		if !ok {
			t.Errorf("no plugin of the list is named like the folder %s", folder)
			continue
		}
		delete(listed, folder)
		for _, file := range []string{folder + ".go", folder + "_test.go"} {
			if _, err := os.Stat(filepath.Join(folder, file)); err != nil {
				t.Error(err)
			}
		}
		checkManual(t, folder, name)
	}
	for folder, name := range listed {
		t.Errorf("%s has no folder %s", name, folder)
	}
}

// checkManual wants every manual page to have the same sections in the same order.
func checkManual(t *testing.T, folder, name string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Error(err)
		return
	}
	var headings []string
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "## ") {
			headings = append(headings, strings.TrimSpace(line))
		}
	}
	want := []string{
		"# " + name, "## Name", "## Description", "## Configuration", "## Refusals",
		"## Metrics", "## Bugs",
	}
	if got := strings.Join(headings, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("%s/README.md has the headings\n%s\nand should have\n%s", folder, got, strings.Join(want, "\n"))
	}
	if !strings.Contains(string(content), "\n*"+name+"* - ") {
		t.Errorf("%s/README.md: Name should say: *%s* - what it does", folder, name)
	}
}

// A plugin that may refuse says what would have to change, unless it is for those to say who
// configure what it asks.
func TestRemedies(t *testing.T) {
	asking := map[string]bool{"AlwaysAdmit": true, "ValidatingAdmissionPolicy": true,
		"ValidatingAdmissionWebhook": true}
	for _, d := range List {
		if d.Phases.Has(plugin.Validating) && (d.Remedy == "") != asking[d.Name] {
			t.Errorf("%s: the remedy is %q", d.Name, d.Remedy)
		}
	}
}
