package docs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	// what is tested is built apart; this way a change to it is one to the test
	_ "gatehouse.dev/cli"
	_ "gatehouse.dev/plugins"
	"gatehouse.dev/test/charts"
	"gatehouse.dev/test/needs"
)

// serverStart bounds the start of a server; the README's builds it first.
const serverStart = 5 * time.Minute

// TestDocuments runs every document with something to run. One after the other: they use the
// default port, as their readers do.
func TestDocuments(t *testing.T) {
	needs.Programs(t, "bash", "git", "xargs")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	build(t, root, filepath.Join(bin, "gatehouse"), "./cmd/gatehouse")
	build(t, root, filepath.Join(bin, "kubectl"), "k8s.io/kubernetes/cmd/kubectl")
	var documents []string
	for _, pattern := range []string{"README.md", "docs/*.md", "plugins/*/README.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, found...)
	}
	for _, document := range documents {
		name, _ := filepath.Rel(root, document)
		t.Run(name, func(t *testing.T) {
			todo, err := steps(document)
			if err != nil {
				t.Fatal(err)
			}
			r := &reader{t: t, dir: t.TempDir(), bin: bin}
			defer r.stopServer()
			if strings.HasPrefix(name, "examples/") {
				// Its reader is in its folder.
				if err := os.CopyFS(r.dir, os.DirFS(filepath.Dir(document))); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(filepath.Join(r.dir, "go.mod")); err == nil {
					// Its replace is for its place in the tree.
					replace := r.command(t.Context(), "go mod edit -replace=gatehouse.dev="+root)
					if out, err := replace.CombinedOutput(); err != nil {
						t.Fatalf("%v: %v\n%s", replace, err, out)
					}
				}
			}
			if name == "docs/review.md" {
				// Its reader has fetched charts.
				if err := errors.Join(charts.Put(t.Context(), filepath.Join(r.dir, "charts")),
					charts.BuildHelm(t.Context(), bin)); err != nil {
					t.Fatal(err)
				}
			}
			if name == "README.md" {
				// Its reader is in a clone.
				if out, err := exec.Command("sh", "-c",
					`cd "$0" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$1"`,
					root, r.dir).CombinedOutput(); err != nil {
					t.Fatalf("copying the repository: %v\n%s", err, out)
				}
			}
			for _, s := range todo {
				r.do(s)
			}
		})
	}
}

func build(t *testing.T, root, out, pkg string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "build", "-o", out, pkg)
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, output)
	}
}

// reader does what a document's reader does, in a directory of its own.
type reader struct {
	t       *testing.T
	dir     string
	bin     string
	prelude string // what earlier sh blocks have set
	server  *exec.Cmd
}

func (r *reader) do(s step) {
	switch {
	case strings.HasPrefix(s.shell, "go test"):
		// This is what runs us.
	case s.expect == nil && strings.Contains(s.shell, " serve"):
		r.startServer(s)
	case s.expect == nil:
		r.prelude += s.shell
		if out, err := r.command(r.t.Context(), r.prelude).CombinedOutput(); err != nil {
			r.t.Fatalf("line %d: %s%v\n%s", s.line, s.shell, err, out)
		}
	default:
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
		defer cancel()
		// what it prints says whether it failed
		out, _ := r.command(ctx, r.prelude+s.shell).CombinedOutput()
		if !matches(s.expect, string(out)) {
			r.t.Errorf("line %d: $ %s\nprints\n%s\nthe document says\n%s", s.line, s.shell, out,
				strings.Join(s.expect, "\n"))
		}
	}
}

func (r *reader) command(ctx context.Context, shell string) *exec.Cmd {
	command := exec.CommandContext(ctx, "bash", "-euc", shell)
	command.Dir = r.dir
	command.Env = append(os.Environ(), "PATH="+r.bin+":"+os.Getenv("PATH"), "HOME="+r.dir,
		"GOCACHE="+goEnv(r.t, "GOCACHE"), "GOMODCACHE="+goEnv(r.t, "GOMODCACHE"),
		"KUBECONFIG="+filepath.Join(r.dir, "gatehouse-data", "admin.kubeconfig"))
	return command
}

func goEnv(t *testing.T, name string) string {
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func (r *reader) startServer(s step) {
	r.stopServer()
	server := r.command(context.Background(), r.prelude+s.shell)
	// A group of its own: go run starts the server as its child, and ctrl-c in a terminal reaches
	// both.
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := server.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	var log bytes.Buffer
	server.Stderr = &log
	r.t.Cleanup(func() {
		if r.t.Failed() {
			r.t.Logf("%slogs\n%s", s.shell, log.String())
		}
	})
	if err := server.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.server = server
	timeout := time.AfterFunc(serverStart, r.kill)
	defer timeout.Stop()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "Use it:") {
			go io.Copy(io.Discard, stdout)
			return
		}
	}
	r.t.Fatalf("line %d: %sended before the server was ready", s.line, s.shell)
}

func (r *reader) stopServer() {
	if r.server == nil {
		return
	}
	syscall.Kill(-r.server.Process.Pid, syscall.SIGINT)
	r.server.Wait() // go run passes on a status of its own when it is interrupted
	r.server = nil
}

func (r *reader) kill() { syscall.Kill(-r.server.Process.Pid, syscall.SIGKILL) }

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		expect []string
		output string
		want   bool
	}{
		{[]string{}, "", true},
		{[]string{}, "x\n", false},
		{[]string{"a b"}, "a b\n", true},
		{[]string{"a b"}, "a b", true},
		{[]string{"a …"}, "a anything at all\n", true},
		{[]string{"a …"}, "b\n", false},
		{[]string{"a"}, "a\nb\n", false},
		{[]string{"…", "b"}, "x\ny\nb\n", true},
		{[]string{"a.c"}, "abc\n", false},
	} {
		if got := matches(c.expect, c.output); got != c.want {
			t.Errorf("matches(%q, %q) = %t, want %t", c.expect, c.output, got, c.want)
		}
	}
}
