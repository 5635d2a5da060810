// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gatehouse.dev/test/needs"
)

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
	var want []string
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if strings.HasPrefix(name, "gatehouse_") && !strings.Contains(name, "windows") {
			want = append(want, "url https://github.com/gatehouse/gatehouse/releases/download/v1.2.3/"+name, "sha256 "+sum)
		}
	}
	want = append(want, "bin: gatehouse", "bin: kubectl-gatehouse -> bin/gatehouse",
		"bin: kubectl_complete-gatehouse -> bin/gatehouse",
		"bash: completions/gatehouse.bash as gatehouse", "zsh: completions/_gatehouse", "fish: completions/gatehouse.fish")
	if got := strings.Split(strings.TrimSpace(string(out)), "\n"); !slices.Equal(got, want) {
		t.Errorf("the formula says\n%s\nwant\n%s", out, strings.Join(want, "\n"))
	}
}

// brewStyle is what brew style asks of formulae of RuboCop's own rules. Source: Library/.rubocop.yml of Homebrew/brew.
const brewStyle = `
AllCops: {NewCops: enable, SuggestExtensions: false}
Layout/LineLength: {Max: 118, AllowedPatterns: [' url "']}
Layout/SpaceAroundOperators: {Enabled: false}
Metrics: {Enabled: false}
Style/Documentation: {Enabled: false}
Style/FrozenStringLiteralComment: {Enabled: false}
Style/StringLiterals: {EnforcedStyle: double_quotes}
Style/StringLiteralsInInterpolation: {EnforcedStyle: double_quotes}
`

// TestHomebrewStyle has RuboCop check the formula as brew style does. Homebrew's own rules are in TestHomebrewAudit.
func TestHomebrewStyle(t *testing.T) {
	needs.Programs(t, "rubocop")
	dir := makeManifests(t)
	config := filepath.Join(dir, "rubocop.yml")
	write(t, config, brewStyle)
	check := func() (string, error) {
		out, err := exec.CommandContext(t.Context(), "rubocop", "--config="+config, "--cache=false",
			filepath.Join(dir, "gatehouse.rb")).CombinedOutput()
		return string(out), err
	}
	if out, err := check(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	formula, err := os.ReadFile(filepath.Join(dir, "gatehouse.rb"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "gatehouse.rb"), strings.Replace(string(formula), `"Apache-2.0"`, `'Apache-2.0'`, 1))
	if out, err := check(); err == nil || !strings.Contains(out, "Style/StringLiterals") {
		t.Errorf("single quotes pass: %v\n%s", err, out)
	}
}

// formulaRules are rules of brew style and brew audit for a formula. Its parts are in order.
// Sources: Library/Homebrew/rubocops and resource_auditor.rb of Homebrew/brew, https://docs.brew.sh/Formula-Cookbook.
var formulaRules = []struct {
	rule, pattern string
	forbidden     bool
}{
	{rule: "a class of the formula's name, with the parts in order",
		pattern: `(?s)\Aclass Gatehouse < Formula\n  desc ".*?"\n  homepage "https://[^"]+"\n  license "Apache-2\.0"\n\n` +
			`  on_macos do\n.*\n  on_linux do\n.*\n  def install\n.*\n  test do\n.*\n  end\nend\n\z`},
	{rule: "a description of at most 80 characters that begins with a capital letter", pattern: `\n  desc "[A-Z][^"]{0,79}"\n`},
	{rule: "no article or name of the formula before a description, no full stop or space after it",
		pattern: `(?i)\n  desc "(?:(?:the|an?) |gatehouse|[^"\n]*[. ]")`, forbidden: true},
	{rule: "no version, which Homebrew reads from the URLs", pattern: `\n *version `, forbidden: true},
	{rule: "the tag of the release in each URL", pattern: `url "https://github\.com/gatehouse/gatehouse/releases/download/[^v]`,
		forbidden: true},
	{rule: "a checksum after each URL", pattern: `\n *url "[^"]*"\n *(?:[^s ]|sha256 "(?:[0-9a-f]{0,63}"|[0-9a-f]*[^0-9a-f"]))`,
		forbidden: true},
	{rule: "no comments of a template and nothing that is left to fill in", pattern: `#(?:[^{]|$)|@`, forbidden: true},
	{rule: "a test that runs the program of the keg", pattern: `(?s)test do\n.*#\{bin\}/gatehouse`},
	{rule: "no absolute path of a prefix", pattern: `"/(?:usr|opt)/`, forbidden: true},
}

// brokenRules returns the rules that a formula doesn't follow.
func brokenRules(formula string) (broken []string) {
	for _, r := range formulaRules {
		if regexp.MustCompile(r.pattern).MatchString(formula) == r.forbidden {
			broken = append(broken, r.rule)
		}
	}
	return broken
}

// TestHomebrewAudit checks the formula by Homebrew's own rules, as far as they are about such a formula. Homebrew
// isn't among Debian's packages.
func TestHomebrewAudit(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(makeManifests(t), "gatehouse.rb"))
	if err != nil {
		t.Fatal(err)
	}
	formula := string(data)
	if broken := brokenRules(formula); len(broken) > 0 {
		t.Errorf("the formula breaks the rules %q:\n%s", broken, formula)
	}
	for _, change := range [][2]string{
		{`desc "K`, `desc "k`}, {`desc "`, `desc "A `}, {`desc "`, `desc "Gatehouse: `}, {`own"`, `own."`},
		{"  license", "  version \"1.2.3\"\n  license"}, {"download/v", "download/"}, {"      sha256", "      foo"},
		{"def install", "# TODO\n  def install"}, {"#{bin}/", ""}, {`"completions/_`, `"/usr/completions/_`},
		{"Apache-2.0", "Apache"},
	} {
		if len(brokenRules(strings.Replace(formula, change[0], change[1], 1))) == 0 {
			t.Errorf("%q in place of %q breaks no rule", change[1], change[0])
		}
	}
}
