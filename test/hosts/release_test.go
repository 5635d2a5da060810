// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package hosts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"gatehouse.dev/test/needs"
)

// cosign stands in for the real one. It demands the arguments of a release's signature, the commit of the
// release if one is given, and a bundle that holds the checksum of the signed file.
const cosign = `#!/bin/sh
arguments=$*
for file; do :; done
commit=" --certificate-github-workflow-sha COMMIT"
case $arguments in *"$commit "*) ;; *) commit= ;; esac
[ "$arguments" = "verify-blob --bundle $3 --certificate-identity https://github.com/gatehouse/gatehouse/.github/workflows/` +
	`release.yml@refs/tags/v1.2.3 --certificate-oidc-issuer https://token.actions.githubusercontent.com$commit $file" ] || exit 3
[ "$(cat "$3")" = "$(sha256sum <"$file")" ] || { echo invalid signature; exit 1; }
echo Verified OK $commit
`

// releases is a host with one release and with the repository's tags.
type releases struct {
	t       *testing.T
	server  *httptest.Server
	mu      sync.Mutex
	files   map[string]string // contents by path
	cut     string            // the path of a file that breaks off
	fetched []string          // paths of requested files of the release
	commit  string            // that of the release
	env     []string          // for programs that ask the host
}

// The files of the release.
const (
	download  = "/releases/download/v1.2.3/"
	sumsFile  = download + "SHA256SUMS"
	signature = sumsFile + ".sigstore.json"
)

func archiveName() string {
	return "gatehouse_1.2.3_linux_" + runtime.GOARCH + ".tar.gz"
}

// newReleases starts a host whose release has a program that prints its arguments.
func newReleases(t *testing.T) *releases {
	t.Helper()
	needs.Programs(t, "bash", "curl", "git", "tar", "sha256sum")
	if runtime.GOOS != "linux" {
		t.Skip("the test's archive is for Linux")
	}
	r := &releases{t: t, files: map[string]string{}}
	r.files[download+archiveName()] = archive(t, "#!/bin/sh\necho released \"$@\"\n")
	r.sums(archiveName())
	r.sign()

	// The repository has what pre-commit runs, an annotated tag for the release, and a later commit.
	repository := filepath.Join(t.TempDir(), "gatehouse.git")
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", repository, "-c", "user.name=t",
			"-c", "user.email=t@example.com"}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	if err := os.Mkdir(repository, 0o700); err != nil {
		t.Fatal(err)
	}
	git("init", "--quiet")
	for _, name := range []string{"action/hook", "action/release", ".pre-commit-hooks.yaml"} {
		content, err := os.ReadFile(filepath.Join(root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(repository, name), string(content))
		if err := os.Chmod(filepath.Join(repository, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	git("add", ".")
	git("commit", "--quiet", "--message=one")
	r.commit = git("rev-parse", "HEAD")
	git("tag", "--annotate", "--message=release", "v1.2.3")
	git("tag", "v1") // some projects move such a tag along
	git("commit", "--quiet", "--allow-empty", "--message=two")
	git("update-server-info")

	objects := http.FileServer(http.Dir(filepath.Join(repository, ".git")))
	r.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		path := request.URL.Path
		if !strings.HasPrefix(path, download) {
			objects.ServeHTTP(w, request)
			return
		}
		r.fetched = append(r.fetched, strings.TrimPrefix(path, download))
		content, ok := r.files[path]
		if !ok {
			http.NotFound(w, request)
			return
		}
		if path == r.cut {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			content = content[:len(content)/2]
		}
		w.Write([]byte(content))
	}))
	t.Cleanup(r.server.Close)
	authority, tools := filepath.Join(t.TempDir(), "authority.pem"), t.TempDir()
	write(t, authority, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})))
	write(t, filepath.Join(tools, "cosign"), strings.Replace(cosign, "COMMIT", r.commit, 1))
	if err := os.Chmod(filepath.Join(tools, "cosign"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.env = []string{"GATEHOUSE_URL=" + r.server.URL, "CURL_CA_BUNDLE=" + authority, "GIT_SSL_CAINFO=" + authority,
		"PATH=" + tools + ":" + os.Getenv("PATH")}
	return r
}

// archive returns a release's archive with this program.
func archive(t *testing.T, program string) string {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	files := tar.NewWriter(compressed)
	for name, content := range map[string]string{"gatehouse": program, "LICENSE": "a licence\n",
		"THIRD-PARTY-LICENSES.txt": "others\n"} {
		if err := files.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := compressed.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// sums writes SHA256SUMS with these files of the release.
func (r *releases) sums(names ...string) {
	r.files[sumsFile] = fmt.Sprintf("%064d  gatehouse_1.2.3_plan9_%s.tar.gz\n", 7, runtime.GOARCH)
	for _, name := range names {
		r.files[sumsFile] += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(r.files[download+name])), name)
	}
}

// sign makes the bundle that the stand-in for cosign accepts.
func (r *releases) sign() {
	r.files[signature] = fmt.Sprintf("%x  -\n", sha256.Sum256([]byte(r.files[sumsFile])))
}

// at returns the path at which GitHub puts the action of a repository at a ref. Its scripts are ours.
func at(t *testing.T, repository, ref string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "_actions", repository, ref)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root(t), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestActionVersion checks which release the action uses, by where it is used.
func TestActionVersion(t *testing.T) {
	r := newReleases(t)
	const ours = "gatehouse/gatehouse"
	for _, c := range []struct {
		path, input, want string
		fails             bool
	}{
		{path: at(t, ours, "v1.2.3"), want: "1.2.3"},
		{path: at(t, ours, "v1.2.3-rc.1"), want: "1.2.3-rc.1"},
		{path: `D:\a\_actions\gatehouse\gatehouse\v1.2.3`, want: "1.2.3"},
		{path: at(t, ours, r.commit), want: "1.2.3 " + r.commit},
		{path: at(t, ours, strings.Repeat("a", 40))},
		{path: at(t, ours, "main")},
		{path: at(t, ours, "v1")},
		{path: at(t, "somebody/gatehouse", "v1.2.3")},
		{path: root(t)},
		{path: root(t), input: "v1.2.3", want: "1.2.3"},
		{path: at(t, ours, "main"), input: "2.0.0", want: "2.0.0"},
		{path: root(t), input: "latest", fails: true},
		{path: root(t), input: "v1.2.3/../../x", fails: true},
	} {
		cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(root(t), "action/release"), "version", c.path, c.input)
		cmd.Env = append(os.Environ(), r.env...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if got := strings.TrimSpace(string(out)); got != c.want || (err != nil) != c.fails {
			t.Errorf("at %s with version %q: %q, %v, want %q\n%s", c.path, c.input, got, err, c.want, &stderr)
		}
	}
	r.server.Close()
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(root(t), "action/release"), "version", at(t, ours, r.commit))
	cmd.Env = append(os.Environ(), r.env...)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "can't be read") {
		t.Errorf("without the repository: %v\n%s", err, out)
	}
}

// TestActionDownloads runs the action at a release whose host has good, forged, missing or broken files. It
// reviews with the released program, or it fails: it never builds.
func TestActionDownloads(t *testing.T) {
	a := readAction(t)
	const checksum, ended = "has the checksum", "can't be downloaded"
	for _, c := range []struct {
		name   string
		change func(r *releases, dir string)
		fails  string
		// fetched are the files of the release that are asked for; nil is all three.
		fetched []string
	}{
		{name: "good", change: func(*releases, string) {}},
		{name: "cached", change: func(r *releases, dir string) {
			write(r.t, filepath.Join(dir, archiveName()), r.files[download+archiveName()])
			delete(r.files, download+archiveName())
		}, fetched: []string{"SHA256SUMS", "SHA256SUMS.sigstore.json"}},
		{name: "forged in the cache", change: func(r *releases, dir string) {
			write(r.t, filepath.Join(dir, archiveName()), archive(r.t, "#!/bin/sh\necho evil\n"))
		}, fails: checksum, fetched: []string{"SHA256SUMS", "SHA256SUMS.sigstore.json"}},
		{name: "forged archive", change: func(r *releases, _ string) {
			r.files[download+archiveName()] = archive(r.t, "#!/bin/sh\necho evil\n")
		}, fails: checksum},
		{name: "forged archive and checksums", change: func(r *releases, _ string) {
			r.files[download+archiveName()] = archive(r.t, "#!/bin/sh\necho evil\n")
			r.sums(archiveName())
		}, fails: "signature of the release's SHA256SUMS is wrong", fetched: []string{"SHA256SUMS", "SHA256SUMS.sigstore.json"}},
		{name: "no archive", change: func(r *releases, _ string) {
			delete(r.files, download+archiveName())
		}, fails: ended},
		{name: "no checksums", change: func(r *releases, _ string) {
			delete(r.files, sumsFile)
		}, fails: ended, fetched: []string{"SHA256SUMS"}},
		{name: "no signature", change: func(r *releases, _ string) {
			delete(r.files, signature)
		}, fails: ended, fetched: []string{"SHA256SUMS", "SHA256SUMS.sigstore.json"}},
		{name: "archive that breaks off", change: func(r *releases, _ string) {
			r.cut = download + archiveName()
		}, fails: ended},
		{name: "shorter archive", change: func(r *releases, _ string) {
			r.files[download+archiveName()] = r.files[download+archiveName()][:100]
		}, fails: checksum},
		{name: "checksums of other platforms only", change: func(r *releases, _ string) {
			r.sums()
			r.sign()
		}, fails: "has no checksum of", fetched: []string{"SHA256SUMS", "SHA256SUMS.sigstore.json"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newReleases(t)
			temp := t.TempDir()
			dir := filepath.Join(temp, "gatehouse")
			c.change(r, dir)
			run := &actionRun{path: at(t, "gatehouse/gatehouse", r.commit), work: t.TempDir(), temp: temp, env: r.env}
			output, code := run.run(t, a, map[string]string{"files": "pod.yaml"})
			if c.fails == "" {
				if code != 0 || !strings.Contains(output, r.commit) || !strings.HasSuffix(output, "released review --filename=pod.yaml --output=github\n") {
					t.Errorf("exit code %d, output\n%s", code, output)
				}
				if !slices.Equal(run.used, []string{"sigstore/cosign-installer", "actions/cache"}) {
					t.Errorf("the action used %v", run.used)
				}
			} else {
				if code == 0 || !strings.Contains(output, c.fails) {
					t.Errorf("exit code %d, want a failure with %q, output\n%s", code, c.fails, output)
				}
				if _, err := os.Stat(filepath.Join(dir, "gatehouse")); err == nil {
					t.Error("the program was unpacked")
				}
			}
			if slices.Contains(run.ran, "Build Gatehouse") {
				t.Error("the action built Gatehouse")
			}
			if c.fetched == nil {
				c.fetched = []string{"SHA256SUMS", "SHA256SUMS.sigstore.json", archiveName()}
			}
			if !slices.Equal(r.fetched, c.fetched) {
				t.Errorf("the action asked for %v, want %v", r.fetched, c.fetched)
			}
		})
	}
}

// TestReleaseNeedsCosign checks that the checksums aren't used where nothing can verify their signature.
func TestReleaseNeedsCosign(t *testing.T) {
	r := newReleases(t)
	tools := t.TempDir()
	for _, name := range []string{"bash", "curl", "mkdir", "mv", "uname", "awk", "tr"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(tools, name)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(root(t), "action/release"), "sums", "1.2.3", t.TempDir())
	cmd.Env = append(os.Environ(), append(r.env, "PATH="+tools)...)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "cosign is needed") {
		t.Errorf("without cosign: %v\n%s", err, out)
	}
}
