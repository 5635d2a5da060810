// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// tracked returns the files that git has, or would have with the next commit.
func tracked(t *testing.T) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// TestNoBinaries checks that no file is a program, a library or a package: nobody can review those.
// Source: OpenSSF Scorecard, check Binary-Artifacts.
func TestNoBinaries(t *testing.T) {
	starts := [][]byte{[]byte("\x7fELF"), []byte("MZ"), []byte("\xcf\xfa\xed\xfe"), []byte("\xca\xfe\xba\xbe"),
		[]byte("\x00asm"), []byte("PK\x03\x04"), []byte("!<arch>")}
	files := tracked(t)
	if len(files) < 500 {
		t.Fatalf("%d files", len(files))
	}
	for _, file := range files {
		content, err := os.ReadFile(root + file)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(starts, func(start []byte) bool { return bytes.HasPrefix(content, start) }) {
			t.Errorf("%s is a program, a library or a package", file)
		}
	}
}

var (
	// imageLine matches a line that names an image: in a Dockerfile with FROM or --from=, in YAML with image:.
	imageLine = regexp.MustCompile(`(?m)^FROM (?:--\S+ )*(\S+)|^COPY .*--from=(\S+)|^[- ]*image: *["']?([^\s"'#]+)`)
	// stageName matches the name of a stage in a Dockerfile.
	stageName = regexp.MustCompile(`(?m)^FROM .* AS (\S+)$`)
	// pinnedImage matches an image with a digest, one of Gatehouse's, and a parameter.
	pinnedImage = regexp.MustCompile(`@sha256:[0-9a-f]{64}$|^ghcr\.io/gatehouse/|^\$\(params\.`)
)

// unpinnedImages returns the images that a Dockerfile or a file for a CI system names without a digest. Gatehouse's own
// have none: it isn't known before the release.
func unpinnedImages(text string) []string {
	own := []string{"scratch"}
	for _, stage := range stageName.FindAllStringSubmatch(text, -1) {
		own = append(own, stage[1])
	}
	var unpinned []string
	for _, line := range imageLine.FindAllStringSubmatch(text, -1) {
		image := line[1] + line[2] + line[3]
		if !slices.Contains(own, image) && !pinnedImage.MatchString(image) {
			unpinned = append(unpinned, image)
		}
	}
	return unpinned
}

// TestImages checks that Dockerfiles and the examples for CI systems name images by their digests.
// Source: OpenSSF Scorecard, check Pinned-Dependencies.
func TestImages(t *testing.T) {
	var read []string
	for _, file := range tracked(t) {
		dockerfile := strings.HasPrefix(path.Base(file), "Dockerfile")
		// The application is what Gatehouse judges. Nobody runs it in CI.
		application := file == "examples/ci/argocd/presync/deployment.yaml"
		if !dockerfile && !strings.HasPrefix(file, "examples/ci/") || application {
			continue
		}
		text, err := os.ReadFile(root + file)
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, file)
		for _, image := range unpinnedImages(string(text)) {
			t.Errorf("%s: name the digest of the image %s, as in NAME:TAG@sha256:…", file, image)
		}
	}
	for _, file := range []string{"deploy/image/Dockerfile", "examples/ci/argocd/plugin/Dockerfile", "examples/ci/gitlab-ci.yml"} {
		if !slices.Contains(read, file) {
			t.Errorf("%s was not read", file)
		}
	}
}

// TestUnpinnedImages checks that the rule finds each way to name an image.
func TestUnpinnedImages(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	text := "FROM --platform=$BUILDPLATFORM golang:1" + digest + " AS build\nFROM scratch AS one\nCOPY --from=build /a /b\n" +
		"FROM ghcr.io/gatehouse/gatehouse:1 AS gatehouse\n  image: busybox" + digest + " # a comment\n    image: $(params.image)\n"
	if unpinned := unpinnedImages(text); len(unpinned) > 0 {
		t.Errorf("images with digests: %q", unpinned)
	}
	bad := "FROM --platform=a golang:1 AS build\nFROM a\nCOPY --chown=0:0 --from=b:1 /a /b\n  image: c:1\n  - image: 'd@sha256:0a'\n" +
		"image: ghcr.io/gatehouse-other/a:1\n"
	want := []string{"golang:1", "a", "b:1", "c:1", "d@sha256:0a", "ghcr.io/gatehouse-other/a:1"}
	if unpinned := unpinnedImages(bad); !slices.Equal(unpinned, want) {
		t.Errorf("images without digests: %q, want %q", unpinned, want)
	}
}

// dependabot has the fields of dependabot.yml that ours uses. Any other field is an error.
// Source: docs.github.com, "Dependabot options reference".
type dependabot struct {
	Version int `json:"version"`
	Updates []struct {
		Ecosystem   string   `json:"package-ecosystem"`
		Directory   string   `json:"directory"`
		Directories []string `json:"directories"`
		Schedule    struct {
			Interval string `json:"interval"`
		} `json:"schedule"`
		Groups map[string]struct {
			Patterns []string `json:"patterns"`
		} `json:"groups"`
		Ignore []struct {
			Name string `json:"dependency-name"`
		} `json:"ignore"`
	} `json:"updates"`
}

// TestDependabot checks that Dependabot looks at every module and every Dockerfile.
func TestDependabot(t *testing.T) {
	text, err := os.ReadFile(root + ".github/dependabot.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file dependabot
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	looked := map[string]bool{} // by ecosystem and directory
	for _, update := range file.Updates {
		if update.Schedule.Interval != "weekly" {
			t.Errorf("%s: interval %q", update.Ecosystem, update.Schedule.Interval)
		}
		for _, dir := range append(update.Directories, update.Directory) {
			looked[update.Ecosystem+" "+dir] = true
		}
	}
	want := []string{"github-actions /"}
	for _, name := range tracked(t) {
		switch dir := path.Join("/", path.Dir(name)); {
		case path.Base(name) == "go.mod" && dir != "/test/kubectl":
			want = append(want, "gomod "+dir)
		case path.Base(name) == "Dockerfile":
			want = append(want, "docker "+dir)
		}
	}
	for _, one := range want {
		if !looked[one] {
			t.Errorf("Dependabot doesn't look at %s", one)
		}
	}
}
