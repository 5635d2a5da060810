// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// readStrictly reads YAML of a file, or of an annotation if there is a text. An unknown field is an error.
func readStrictly(t *testing.T, name, text string, into any) {
	t.Helper()
	if text == "" {
		content, err := os.ReadFile(root + name)
		if err != nil {
			t.Fatal(err)
		}
		text = string(content)
	}
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// hubLink is a link as Artifact Hub has it.
type hubLink struct{ Name, URL string }

// TestChartAnnotations checks that Artifact Hub can read the annotations of the chart, and that they are true.
// Source: github.com/artifacthub/hub, docs/helm_annotations.md, and what `ah lint` checks:
// internal/tracker/source/helm/helm.go and internal/pkg/manager.go.
func TestChartAnnotations(t *testing.T) {
	var chart struct {
		AppVersion, Icon string
		Annotations      map[string]string
	}
	content, err := os.ReadFile(root + "deploy/chart/Chart.yaml")
	if err == nil {
		err = yaml.Unmarshal(content, &chart)
	}
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	annotation := func(name string, into any) string {
		t.Helper()
		name = "artifacthub.io/" + name
		read[name] = true
		text := chart.Annotations[name]
		if text == "" {
			t.Fatalf("deploy/chart/Chart.yaml has no annotation %s", name)
		}
		if into != nil {
			readStrictly(t, name, text, into)
		}
		return text
	}

	if category := annotation("category", nil); !slices.Contains([]string{"ai-machine-learning", "database",
		"integration-delivery", "monitoring-logging", "networking", "security", "storage", "streaming-messaging"}, category) {
		t.Errorf("there is no category %q", category)
	}
	var insights struct {
		Repository struct{ License struct{ Expression string } }
	}
	if content, err = os.ReadFile(root + "SECURITY-INSIGHTS.yml"); err == nil {
		err = yaml.Unmarshal(content, &insights)
	}
	if license := annotation("license", nil); err != nil || license != insights.Repository.License.Expression {
		t.Errorf("the licence is %q, SECURITY-INSIGHTS.yml has %q (%v)", license, insights.Repository.License.Expression, err)
	}

	var changes []struct {
		Kind, Description string
		Links             []hubLink
	}
	annotation("changes", &changes)
	for _, c := range changes {
		if !slices.Contains([]string{"added", "changed", "deprecated", "removed", "fixed", "security"}, c.Kind) ||
			c.Description == "" {
			t.Errorf("a change needs a kind that Artifact Hub knows, and a description: %+v", c)
		}
	}

	var images []struct {
		Name, Image string
		Platforms   []string
	}
	annotation("images", &images)
	var values struct{ Image struct{ Repository string } }
	if content, err = os.ReadFile(root + "deploy/chart/values.yaml"); err == nil {
		err = yaml.Unmarshal(content, &values)
	}
	if want := values.Image.Repository + ":" + chart.AppVersion; err != nil || len(images) != 1 || images[0].Image != want {
		t.Errorf("the images are %+v, the chart runs %s (%v)", images, want, err)
	}

	var crds []struct{ Kind, Version, Name, DisplayName, Description string }
	annotation("crds", &crds)
	var preset struct {
		Metadata struct{ Name string }
		Spec     struct {
			Names    struct{ Kind string }
			Versions []struct{ Name string }
		}
	}
	if content, err = os.ReadFile(root + "deploy/chart/files/podpresets.yaml"); err == nil {
		err = yaml.Unmarshal(content, &preset)
	}
	if err != nil || len(crds) != 1 || len(preset.Spec.Versions) != 1 || crds[0].Name != preset.Metadata.Name ||
		crds[0].Kind != preset.Spec.Names.Kind || crds[0].Version != preset.Spec.Versions[0].Name ||
		crds[0].DisplayName == "" || crds[0].Description == "" {
		t.Errorf("the kinds are %+v, the chart has %+v (%v)", crds, preset, err)
	}

	var links []hubLink
	annotation("links", &links)
	for _, link := range append(links, hubLink{"icon", chart.Icon}) {
		if u, err := url.Parse(link.URL); err != nil || u.Scheme != "https" || link.Name == "" {
			t.Errorf("a link needs a name and a URL: %+v", link)
		}
		page, ok := strings.CutPrefix(link.URL, "https://gatehouse.dev/docs/")
		if !ok {
			continue
		}
		if _, err := os.Stat(root + "docs/" + strings.TrimSuffix(page, ".html") + ".md"); err != nil {
			t.Errorf("the link to %s: %v", link.URL, err)
		}
	}
	for name := range chart.Annotations {
		if strings.HasPrefix(name, "artifacthub.io/") && !read[name] {
			t.Errorf("no test checks %s", name)
		}
	}
}

// TestHubRepository checks that Artifact Hub can read the metadata of the chart's repository.
// Source: github.com/artifacthub/hub, docs/metadata/artifacthub-repo.yml.
func TestHubRepository(t *testing.T) {
	var repository struct {
		RepositoryID string
		Owners       []struct{ Name, Email string }
		Ignore       []struct{ Name, Version string }
	}
	readStrictly(t, "deploy/artifacthub/artifacthub-repo.yml", "", &repository)
	id := regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	if repository.RepositoryID != "" && !id.MatchString(repository.RepositoryID) {
		t.Errorf("the repositoryID %q isn't one that Artifact Hub gives", repository.RepositoryID)
	}
	for _, owner := range repository.Owners {
		if owner.Name == "" || !strings.Contains(owner.Email, "@") {
			t.Errorf("an owner needs a name and an email: %+v", owner)
		}
	}
	for _, ignored := range repository.Ignore {
		if _, err := regexp.Compile(ignored.Version); ignored.Name == "" || err != nil {
			t.Errorf("what is ignored needs a name, and a regular expression for versions: %+v (%v)", ignored, err)
		}
	}
}
