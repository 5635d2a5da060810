package docs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds what a document shows; it is for a busy machine, on which the README's server is
// built first.
const patience = 10 * time.Minute

// A Reader does what a document's reader does.
type Reader struct {
	T testing.TB
	// Dir is where the reader is, Bin where the programs are that a document speaks of.
	Dir, Bin string
	// Kubeconfig is where the reader's kubectl looks; if it is empty, the document says where.
	Kubeconfig string
	// Home is where programs keep what they like to; where it is empty that is Dir.
	Home string

	prelude string      // what earlier sh blocks have set
	running []*exec.Cmd // servers, and webhooks beside them
}

// Read does all that a document shows for readers of a kind, see the package comment.
func (r *Reader) Read(path, kind string) {
	r.T.Helper()
	todo, err := steps(path, kind)
	if err != nil {
		r.T.Fatal(err)
	}
	if kind != "" && len(todo) == 0 {
		r.T.Fatalf("%s has nothing for readers of the kind %s", path, kind)
	}
	defer r.stop()
	for _, s := range todo {
		r.do(s)
	}
}

func (r *Reader) do(s step) {
	switch {
	case strings.HasPrefix(s.shell, "go test"):
		// This is what runs us.
	case s.expect == nil && strings.Contains(s.shell, " serve"):
		r.stop()
		r.start(s, "Use it:")
	case s.expect == nil && webhook.MatchString(s.shell):
		r.start(s, "is ready on port")
	case s.expect == nil:
		r.prelude += s.shell
		if out, err := r.command(r.T.Context(), r.prelude).CombinedOutput(); err != nil {
			r.T.Fatalf("line %d: %s%v\n%s", s.line, s.shell, err, out)
		}
	default:
		ctx, cancel := context.WithTimeout(r.T.Context(), patience)
		defer cancel()
		// what it prints says whether it failed
		out, _ := r.command(ctx, r.prelude+s.shell).CombinedOutput()
		if !matches(s.expect, string(out)) {
			r.T.Errorf("line %d: $ %s\nprints\n%s\nthe document says\n%s", s.line, s.shell, out,
				strings.Join(s.expect, "\n"))
		}
	}
}

func (r *Reader) command(ctx context.Context, shell string) *exec.Cmd {
	command := exec.CommandContext(ctx, "bash", "-euc", shell)
	command.Dir = r.Dir
	caches, err := goCaches()
	if err != nil {
		r.T.Fatal(err)
	}
	command.Env = append(append(os.Environ(), caches...), "PATH="+r.Bin+":"+os.Getenv("PATH"),
		"HOME="+cmp.Or(r.Home, r.Dir),
		"KUBECONFIG="+r.Kubeconfig)
	return command
}

// goCaches is what has go use the caches of who runs the tests, wherever its home is.
var goCaches = sync.OnceValues(func() (variables []string, err error) {
	names := []string{"GOCACHE", "GOMODCACHE"}
	out, err := exec.Command("go", append([]string{"env"}, names...)...).Output()
	for i, directory := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		variables = append(variables, names[i]+"="+directory)
	}
	return variables, err
})

// webhook is a command that runs beside a server.
var webhook = regexp.MustCompile(`webhook --plugins=`)

// start starts what runs until the next server or the document's end, and waits until it says
// ready.
func (r *Reader) start(s step, ready string) {
	server := r.command(context.Background(), r.prelude+s.shell)
	// A group of its own: go run starts the server as its child, and ctrl-c in a terminal reaches
	// both.
	server.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := server.StdoutPipe()
	if err != nil {
		r.T.Fatal(err)
	}
	var log bytes.Buffer
	server.Stderr = &log
	r.T.Cleanup(func() {
		if r.T.Failed() {
			r.T.Logf("%slogs\n%s", s.shell, log.String())
		}
	})
	if err := server.Start(); err != nil {
		r.T.Fatal(err)
	}
	r.running = append(r.running, server)
	timeout := time.AfterFunc(patience, func() { syscall.Kill(-server.Process.Pid, syscall.SIGKILL) })
	defer timeout.Stop()
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if strings.Contains(lines.Text(), ready) {
			go io.Copy(io.Discard, stdout)
			return
		}
	}
	r.T.Fatalf("line %d: %sended before it was ready", s.line, s.shell)
}

// stop stops what runs, what was started last at first.
func (r *Reader) stop() {
	for _, server := range slices.Backward(r.running) {
		syscall.Kill(-server.Process.Pid, syscall.SIGINT)
		server.Wait() // go run passes on a status of its own when it is interrupted
	}
	r.running = nil
}
