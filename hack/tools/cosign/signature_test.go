// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cosign tests the signature of a release with the real cosign: the workflow's command signs, and
// the command of docs/trust.md verifies. A key of the test's own stands in for GitHub's identity, which only
// a workflow there has. It tests, too, that the chart's metadata gets where Artifact Hub looks for it. The package
// is a module of its own, as cosign needs many others.
package cosign

import (
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/registry"
)

var (
	uploading = regexp.MustCompile(`(?m)^ *(cosign upload .*)$`)
	signing   = regexp.MustCompile(`(?m)^ *(cosign sign-blob .*)$`)
	verifying = regexp.MustCompile("(?m)^```sh signature\n((?:.*\n)*?)```$")
	// identity matches the flags that say who must have signed.
	identity = regexp.MustCompile(`--certificate-[a-z-]+[= ]\S+`)
)

func TestSignature(t *testing.T) {
	sign := find(t, "../../../.github/workflows/release.yml", signing)
	verify := find(t, "../../../docs/trust.md", verifying)
	if got := len(identity.FindAllString(verify, -1)); got != 2 {
		t.Fatalf("docs/trust.md doesn't say by two flags who must have signed: %s", verify)
	}
	dir := withCosign(t)
	run := func(shell string) error { return run(t, dir, shell) }
	// Without a log of signatures, which the test can't reach, neither command asks for one.
	sign = strings.Replace(sign, "--yes", "--yes --key=cosign.key --use-signing-config=false --tlog-upload=false", 1)
	verify = identity.ReplaceAllString(verify, "")
	verify = strings.Replace(verify, "verify-blob", "verify-blob --key=cosign.pub --insecure-ignore-tlog", 1)
	for _, step := range []string{
		"cosign generate-key-pair",
		"mkdir release signatures && echo text >release/file && (cd release && sha256sum file >SHA256SUMS)",
		sign,
		"mv release/* signatures/* .",
		verify,
	} {
		if err := run(step); err != nil {
			t.Fatal(err)
		}
	}
	for _, tampered := range []string{
		"sed -i s/./0/ SHA256SUMS",
		"sha256sum file >SHA256SUMS && rm cosign.key cosign.pub && cosign generate-key-pair",
	} {
		if err := run(tampered); err != nil {
			t.Fatal(err)
		}
		if err := run(verify); err == nil {
			t.Errorf("the signature is still good after %s", tampered)
		}
	}
}

// A release puts what Artifact Hub knows of the chart's repository where Artifact Hub looks for it.
// Source: github.com/artifacthub/hub, docs/helm_charts_repositories.md, "OCI support".
func TestArtifactHub(t *testing.T) {
	upload := find(t, "../../../.github/workflows/release.yml", uploading)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	dir := withCosign(t)
	text, err := os.ReadFile("../../../deploy/artifacthub/artifacthub-repo.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "more"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "more/artifacthub-repo.yml"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the next release replaces it
		if err := run(t, dir, strings.Replace(upload, "ghcr.io", host, 1)); err != nil {
			t.Fatal(err)
		}
	}
	image, err := crane.Pull(host + "/gatehouse/charts/gatehouse:artifacthub.io")
	if err != nil {
		t.Fatal(err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers: %v", len(layers), err)
	}
	if kind, err := layers[0].MediaType(); kind != "application/vnd.cncf.artifacthub.repository-metadata.layer.v1.yaml" {
		t.Errorf("the layer is of type %s (%v)", kind, err)
	}
	content, err := layers[0].Compressed() // as the registry has it
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(content); string(got) != string(text) {
		t.Errorf("the layer is %q (%v), want the file", got, err)
	}
}

// withCosign returns a directory that has the program.
func withCosign(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "tool", "-n", "cosign").Output()
	if err != nil {
		t.Fatalf("building cosign: %v", err)
	}
	dir := t.TempDir()
	if err := os.Symlink(strings.TrimSpace(string(out)), filepath.Join(dir, "cosign")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// run runs commands in a directory of withCosign.
func run(t *testing.T, dir, shell string) error {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-ec", shell)
	command.Dir = dir
	command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "COSIGN_PASSWORD=", "VERSION=1.2.3")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", shell, err, out)
	}
	return nil
}

// find returns the one place of a file that the pattern matches.
func find(t *testing.T, file string, pattern *regexp.Regexp) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := pattern.FindAllStringSubmatch(string(text), -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d places that match %s, want 1", file, len(found), pattern)
	}
	return found[0][1]
}
