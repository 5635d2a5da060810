// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gatehouse.dev/test/charts"
	"gatehouse.dev/test/needs"
	programtest "gatehouse.dev/test/program"
)

// TestRelease makes the files of a release for this machine, and checks what users do with them.
func TestRelease(t *testing.T) {
	needs.Nightly(t)
	needs.Programs(t, "git")
	t.Chdir("../..")
	if git, err := os.Stat(".git"); err != nil || !git.IsDir() {
		needs.Missing(t, "a clone: the go command doesn't tell programs their commit in a worktree")
	}
	programs := build(t)
	release, again := t.TempDir(), t.TempDir()
	for _, dir := range []string{release, again} {
		if err := pack(programs, dir); err != nil {
			t.Fatal(err)
		}
	}
	version := programs[0].version
	t.Run("reproducible", func(t *testing.T) { testReproducible(t, release, again) })
	t.Run("checksums", func(t *testing.T) {
		runShell(t, release, "sha256sum --check --strict SHA256SUMS && test $(wc --lines <SHA256SUMS) = $(($(ls | wc --lines) - 1))")
	})
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			testArchive(t, p, release)
			testSBOM(t, p, release)
		})
	}
	t.Run("document", func(t *testing.T) { testDocument(t, version, release) })
	t.Run("chart", func(t *testing.T) { testChart(t, version, release) })
	t.Run("deb", func(t *testing.T) {
		testDebian(t, filepath.Join(release, "gatehouse_"+version+"_"+runtime.GOARCH+".deb"))
	})
	t.Run("rpm", func(t *testing.T) {
		testRPM(t, filepath.Join(release, "gatehouse-"+version+"."+rpmArchitectures[runtime.GOARCH]+".rpm"))
	})
}

// build builds the programs for this machine, with the flags that other tests use, and with the commit.
// hack/release's flags would have Kubernetes compiled once more.
func build(t *testing.T) []program {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("GOFLAGS", os.Getenv("GOFLAGS")+" -buildvcs=true -ldflags=-s")
	platform := "-" + runtime.GOOS + "-" + runtime.GOARCH
	runShell(t, ".", `go build -o "$1" gatehouse.dev/cmd/gatehouse`, filepath.Join(dir, "gatehouse"+platform))
	file, err := programtest.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file, file+platform); err != nil {
		t.Fatal(err)
	}
	programs, err := findPrograms(dir)
	if err != nil {
		t.Fatal(err)
	}
	return programs
}

func runShell(t *testing.T, dir, shell string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", append([]string{"-ec", shell, "sh"}, args...)...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", shell, err, out)
	}
	return string(out)
}

func testReproducible(t *testing.T, release, again string) {
	first, second := contents(t, release), contents(t, again)
	if names, others := slices.Sorted(maps.Keys(first)), slices.Sorted(maps.Keys(second)); !slices.Equal(names, others) {
		t.Fatalf("there are %q, and then %q", names, others)
	}
	for name, content := range first {
		if !bytes.Equal(content, second[name]) {
			t.Errorf("%s has other bytes the second time", name)
		}
	}
}

// contents returns the files of a directory by name.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	contents := map[string][]byte{}
	for _, file := range files {
		if contents[file.Name()], err = os.ReadFile(filepath.Join(dir, file.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return contents
}

// testArchive checks that an archive has the program, its licences, and the completions.
func testArchive(t *testing.T, p program, release string) {
	packed, err := os.ReadFile(filepath.Join(release, p.base()+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	var names []string
	for _, file := range untar(t, packed) {
		names = append(names, file.name)
		texts[file.name] = file.content
		if file.time != p.time.Unix() {
			t.Errorf("%s is of another time than the commit", file.name)
		}
	}
	want := []string{p.name, "LICENSE", "THIRD-PARTY-LICENSES.txt"}
	if p.name == gatehouse {
		want = append(want, "completions/gatehouse.bash", "completions/_gatehouse", "completions/gatehouse.fish", "completions/gatehouse.ps1")
	}
	if !slices.Equal(names, want) {
		t.Errorf("the archive has %q, want %q", names, want)
	}
	if built, err := os.ReadFile(p.file); err != nil || texts[p.name] != string(built) {
		t.Errorf("the archive has another program (%v)", err)
	}
	info, err := buildinfo.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		if !strings.Contains(texts["THIRD-PARTY-LICENSES.txt"], "\n"+m.Path+" "+m.Version+": ") {
			t.Errorf("there is no licence of %s %s", m.Path, m.Version)
		}
	}
	if !strings.Contains(texts["THIRD-PARTY-LICENSES.txt"], "\nGo's standard library "+runtime.Version()+": LICENSE\n") {
		t.Error("there is no licence of Go")
	}
}

// testSBOM checks that the list of what a program is made of is the program's own.
func testSBOM(t *testing.T, p program, release string) {
	content, err := os.ReadFile(filepath.Join(release, p.base()+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var sbom struct {
		BOMFormat string
		Metadata  struct {
			Timestamp time.Time
			Component struct{ Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(content, &sbom); err != nil {
		t.Fatal(err)
	}
	if sbom.BOMFormat != "CycloneDX" || sbom.Metadata.Component.Version != "v"+p.version {
		t.Errorf("it is %s of version %s", sbom.BOMFormat, sbom.Metadata.Component.Version)
	}
	if !sbom.Metadata.Timestamp.Equal(p.time) {
		t.Errorf("it is of %s, the commit of %s", sbom.Metadata.Timestamp, p.time)
	}
	info, err := buildinfo.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"std " + runtime.Version()}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		want = append(want, m.Path+" "+m.Version)
	}
	var got []string
	for _, c := range sbom.Components {
		got = append(got, c.Name+" "+c.Version)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the SBOM has %q, the program %q", got, want)
	}
}

// testDocument runs the commands of docs/trust.md that verify files without asking anybody.
func testDocument(t *testing.T, version, release string) {
	needs.Programs(t, "bash", "jq")
	page, err := os.ReadFile("docs/trust.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?m)^```sh release\n((?:.*\n)*?)```$").FindAllSubmatch(page, -1)
	if len(blocks) != 2 {
		t.Fatalf("docs/trust.md has %d blocks, want that of the checksums and that of the SBOM", len(blocks))
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(release)); err != nil {
		t.Fatal(err)
	}
	verify := func(commands []byte) (string, error) {
		command := exec.CommandContext(t.Context(), "bash", "-ec", strings.ReplaceAll(string(commands), "amd64", runtime.GOARCH))
		command.Dir, command.Env = dir, append(os.Environ(), "VERSION="+version)
		out, err := command.CombinedOutput()
		return string(out), err
	}
	for _, block := range blocks {
		if out, err := verify(block[1]); err != nil {
			t.Errorf("%s%v\n%s", block[1], err, out)
		}
	}
	// They find what is wrong.
	sbom := filepath.Join(dir, gatehouse+"_"+version+"_linux_"+runtime.GOARCH+".cdx.json")
	content, err := os.ReadFile(sbom)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(sbom, bytes.ReplaceAll(content, []byte("k8s.io/api"), []byte("k8s.io/apx")), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, block := range blocks {
		if out, err := verify(block[1]); err == nil {
			t.Errorf("%sfinds nothing wrong with another SBOM:\n%s", block[1], out)
		}
	}
}

// testChart renders the packed chart, whose pods have the image of the same version, which it names for Artifact Hub.
func testChart(t *testing.T, version, release string) {
	bin := t.TempDir()
	if err := charts.BuildHelm(t.Context(), bin); err != nil {
		t.Fatal(err)
	}
	rendered := runShell(t, release, `"$1" template gatehouse "$2"`, filepath.Join(bin, "helm"), "gatehouse-"+version+".tgz")
	if want := "image: ghcr.io/gatehouse/gatehouse-webhook:" + version + "\n"; !strings.Contains(rendered, want) {
		t.Errorf("it has no %q:\n%s", want, rendered)
	}
	described := runShell(t, release, `tar --extract --to-stdout --file="$1" gatehouse/Chart.yaml`, "gatehouse-"+version+".tgz")
	for _, want := range []string{"\nversion: " + version + "\n", "\nappVersion: " + version + "\n",
		" image: ghcr.io/gatehouse/gatehouse-webhook:" + version + "\n"} {
		if !strings.Contains(described, want) {
			t.Errorf("Chart.yaml has no %q:\n%s", want, described)
		}
	}
}

// inCopy runs commands in a copy of this machine's file system, with a network that has nothing but this
// machine. The copy ends with them. $1 is the package.
func inCopy(t *testing.T, file, shell string) string {
	t.Helper()
	needs.Programs(t, "unshare", "mount", "chroot")
	if os.Geteuid() != 0 {
		needs.Missing(t, "root, to install packages")
	}
	kubectl, err := programtest.Kubectl(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := programtest.EnterNamespaces(); err != nil {
		t.Fatal(err)
	}
	return runShell(t, dir, `exec unshare --mount --pid --fork sh -ec '
mount -t tmpfs tmpfs .
mkdir upper work root
mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work root
mount -t proc proc root/proc
mount --rbind /dev root/dev
mkdir -p root/packages
cp "$1" root/packages/
cp "$2" root/usr/local/bin/kubectl
exec chroot root env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root sh -ec "$3" sh "/packages/${1##*/}"
' sh "$1" "$2" "$3"`, file, kubectl, shell)
}

// installed are commands that work once a package is installed.
const installed = `
version=$(gatehouse version)
test "$(kubectl-gatehouse version)" = "$version"
test "$(kubectl gatehouse version)" = "$version"
kubectl __complete gatehouse revi | grep -q ^review
gatehouse-webhook --help >/dev/null
bash -ec '. /usr/share/bash-completion/completions/gatehouse; complete -p gatehouse'
cat >/packages/pod.yaml <<END
{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: web, image: nginx}]}}
END
gatehouse review -f /packages/pod.yaml
for text in /usr/share/doc/gatehouse/THIRD-PARTY-LICENSES-gatehouse*.txt; do grep -q "^k8s.io/api v" $text; done
systemd-analyze verify gatehouse.service
`

// testDebian installs the package for Debian, takes the tour, and removes the package.
func testDebian(t *testing.T, file string) {
	needs.Programs(t, "dpkg", "systemd-analyze")
	out := inCopy(t, file, `
dpkg --install "$1"
dpkg --verify gatehouse
`+installed+`
timeout 300 gatehouse demo </dev/null
grep -q Apache /usr/share/doc/gatehouse/copyright
test -f /usr/share/zsh/vendor-completions/_gatehouse
echo "bind-address: 127.0.0.1" >/etc/gatehouse/gatehouse.yaml
dpkg --install "$1"
grep bind-address: /etc/gatehouse/gatehouse.yaml
dpkg --remove gatehouse
for name in gatehouse kubectl-gatehouse kubectl_complete-gatehouse gatehouse-webhook; do test ! -L /usr/bin/$name -a ! -e /usr/bin/$name; done
grep bind-address: /etc/gatehouse/gatehouse.yaml
dpkg --purge gatehouse
test ! -e /etc/gatehouse
`)
	t.Log(out)
}

// testRPM installs the package for RPM, and removes it.
func testRPM(t *testing.T, file string) {
	needs.Programs(t, "rpm", "systemd-analyze")
	out := inCopy(t, file, fmt.Sprintf(`
rpm --install --nodeps "$1"
rpm --verify --nodeps gatehouse
%s
grep -q Apache /usr/share/licenses/gatehouse/LICENSE
test -f /usr/share/zsh/site-functions/_gatehouse
rpm --erase gatehouse
for name in gatehouse kubectl-gatehouse kubectl_complete-gatehouse gatehouse-webhook; do test ! -L /usr/bin/$name -a ! -e /usr/bin/$name; done
`, installed))
	t.Log(out)
}
