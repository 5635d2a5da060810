// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"gatehouse.dev/test/needs"
	"gatehouse.dev/test/program"
)

// The version of krew, as a module, that reads the manifest.
const krew = "sigs.k8s.io/krew/cmd/%s@v0.4.3"

// makeManifests runs hack/manifests for a release, and returns its directory. The archive of this
// platform is there.
func makeManifests(t *testing.T) string {
	t.Helper()
	needs.Programs(t, "bash")
	dir := t.TempDir()
	var sums strings.Builder
	for _, name := range platforms {
		content := name
		if name == strings.TrimSuffix(strings.TrimPrefix(archiveName(), "gatehouse_1.2.3_"), ".tar.gz") {
			content = archive(t, "#!/bin/sh\necho $(basename $0) \"$@\"\n")
			write(t, filepath.Join(dir, archiveName()), content)
		}
		ending := ".tar.gz"
		if strings.HasPrefix(name, "windows") {
			ending = ".zip"
		}
		fmt.Fprintf(&sums, "%x  gatehouse_1.2.3_%s%s\n", sha256.Sum256([]byte(content)), name, ending)
		fmt.Fprintf(&sums, "%064d  gatehouse-webhook_1.2.3_%s%s\n", 7, name, ending)
	}
	write(t, filepath.Join(dir, "SHA256SUMS"), sums.String())
	if out, err := exec.CommandContext(t.Context(), "../../hack/manifests", dir, "1.2.3", dir).CombinedOutput(); err != nil {
		t.Fatalf("hack/manifests: %v\n%s", err, out)
	}
	return dir
}

// platforms are the platforms of a release.
var platforms = []string{"darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64", "windows_amd64", "windows_arm64"}

// TestManifestsNeedAll checks that a checksum that is missing is an error.
func TestManifestsNeedAll(t *testing.T) {
	dir := makeManifests(t)
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "SHA256SUMS"), strings.ReplaceAll(string(sums), "gatehouse_1.2.3_linux_arm64", "other"))
	out, err := exec.CommandContext(t.Context(), "../../hack/manifests", dir, "1.2.3", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no checksum of gatehouse_1.2.3_linux_arm64.tar.gz") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestKrew has krew validate its manifest and install the plugin, and calls the plugin by kubectl.
func TestKrew(t *testing.T) {
	needs.Programs(t, "git")
	dir := makeManifests(t)
	manifest := filepath.Join(dir, "gatehouse.yaml")
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"run"}, args...)...)
		cmd.Env = append(os.Environ(), "KREW_ROOT="+dir, "KREW_NO_UPGRADE_CHECK=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	run(fmt.Sprintf(krew, "validate-krew-manifest"), "-manifest="+manifest, "-skip-install")
	if runtime.GOOS != "linux" {
		t.Skip("the test's archive is for Linux")
	}
	run(fmt.Sprintf(krew, "krew"), "install", "--manifest="+manifest, "--archive="+filepath.Join(dir, archiveName()))
	if _, err := os.Stat(filepath.Join(dir, "store/gatehouse/v1.2.3/LICENSE")); err != nil {
		t.Error(err)
	}
	kubectl, err := program.Kubectl(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), kubectl, "gatehouse", "review", "--filename=x.yaml")
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "kubectl-gatehouse review --filename=x.yaml\n" {
		t.Errorf("kubectl gatehouse: %v\n%s", err, out)
	}
}

// TestKrewIndex checks the manifest by the rules of krew's index that its linter doesn't check.
// Source: https://krew.sigs.k8s.io/docs/developer-guide/release/new-plugin/ and the guides that it names.
func TestKrewIndex(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(makeManifests(t), "gatehouse.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := string(data)
	short := regexp.MustCompile(`\n  shortDescription: (.*)\n`).FindStringSubmatch(manifest)
	if len(short) == 0 || len(short[1]) > 50 || strings.HasSuffix(short[1], ".") || strings.Contains(strings.ToLower(short[1]), "kubectl") {
		t.Errorf("shortDescription %q must be a few words, without kubectl and without a full stop", short)
	}
	if licenses := strings.Count(manifest, "{from: LICENSE, to: .}"); licenses != len(platforms) {
		t.Errorf("%d of %d platforms have the license", licenses, len(platforms))
	}
	if strings.Contains(manifest, "@") {
		t.Errorf("something isn't filled in:\n%s", manifest)
	}
}
