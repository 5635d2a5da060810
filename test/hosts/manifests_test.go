// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
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

// brew stands in for Homebrew: it prints what the formula says for each platform, and what it installs.
const brew = `
class Place
  def initialize(name) @name = name end
  def /(other) "#{@name}/#{other}" end
  def install(what) puts "#{@name}: #{what.is_a?(Hash) ? what.map { |k, v| "#{k} as #{v}" }.join : what}" end
  def install_symlink(what) what.each { |to, name| puts "#{@name}: #{name} -> #{to}" } end
end
class Formula
  class << self
    %w[desc homepage license].each { |name| define_method(name) { |value| raise "no #{name}" if value.empty? } }
    def version(value) puts "version #{value}" end
    def url(value) puts "url #{value}" end
    def sha256(value) puts "sha256 #{value}" end
    def on_macos() yield end
    alias on_linux on_macos
    alias on_intel on_macos
    alias on_arm on_macos
    def test() end
  end
  def bin() Place.new("bin") end
  def bash_completion() Place.new("bash") end
  def zsh_completion() Place.new("zsh") end
  def fish_completion() Place.new("fish") end
end
load ARGV[0]
Gatehouse.new.install
`

// TestHomebrew runs the formula with a stand-in for Homebrew.
func TestHomebrew(t *testing.T) {
	needs.Programs(t, "ruby")
	dir := makeManifests(t)
	formula := filepath.Join(dir, "gatehouse.rb")
	out, err := exec.CommandContext(t.Context(), "ruby", "-w", "-e", brew, formula).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"version 1.2.3"}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if strings.HasPrefix(name, "gatehouse_") && !strings.Contains(name, "windows") {
			want = append(want, "url https://github.com/gatehouse/gatehouse/releases/download/v1.2.3/"+name, "sha256 "+sum)
		}
	}
	want = append(want, "bin: gatehouse", "bin: kubectl-gatehouse -> bin/gatehouse",
		"bash: completions/gatehouse.bash as gatehouse", "zsh: completions/_gatehouse", "fish: completions/gatehouse.fish")
	if got := strings.Split(strings.TrimSpace(string(out)), "\n"); !slices.Equal(got, want) {
		t.Errorf("the formula says\n%s\nwant\n%s", out, strings.Join(want, "\n"))
	}
}
