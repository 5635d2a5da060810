// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gatehouse.dev/test/needs"
)

// kubectlTimeout bounds one command of kubectl's, waits included.
const kubectlTimeout = 2 * time.Minute

// kubectl is the real one, with a server's kubeconfig and a home directory of its own.
type kubectl struct {
	t                           testing.TB
	kubeconfig, home, namespace string
	stdin                       string
	env                         []string
}

// newKubectl is kubectl for a server's administrator in a namespace that it makes.
func newKubectl(t testing.TB, g *gatehouse, namespace string) kubectl {
	t.Helper()
	k := kubectl{t: t, kubeconfig: g.kubeconfig, home: t.TempDir(), namespace: namespace}
	if namespace != "default" {
		k.says("create namespace "+namespace, "namespace/"+namespace+" created")
	}
	return k
}

// onShared is kubectl on the server that most of kubectl's tests share, which has been started with
// nothing but a directory and a port.
func onShared(t testing.TB, namespace string) kubectl {
	t.Helper()
	g, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return newKubectl(t, g, namespace)
}

var shared = sync.OnceValues(func() (*gatehouse, error) {
	dir, err := os.MkdirTemp("", "gh-")
	if err != nil {
		return nil, err
	}
	sharedDir = dir
	p, err := start(exec.Command(binaries.gatehouse, "serve", "--data-dir="+dir, "--secure-port=0"))
	if err != nil {
		return nil, err
	}
	sharedProcess = p
	return awaitReady(p)
})

var (
	sharedDir     string
	sharedProcess *process
)

// stopShared ends the shared server where a test has started it.
func stopShared() error {
	defer os.RemoveAll(sharedDir)
	if sharedProcess == nil {
		return nil
	}
	sharedProcess.signal(syscall.SIGTERM)
	code, err := sharedProcess.wait(stopTimeout)
	if err != nil {
		sharedProcess.kill()
		return err
	}
	if code != 0 {
		return fmt.Errorf("the shared server ended with %d and said:\n%s", code, sharedProcess.stderr)
	}
	return nil
}

// with is k for one command with something on its standard input.
func (k kubectl) with(stdin string) kubectl {
	k.stdin = stdin
	return k
}

// withEnv is k with something in its environment.
func (k kubectl) withEnv(env ...string) kubectl {
	k.env = append(k.env, env...)
	return k
}

// command is kubectl with the words of line as arguments, and more, which may have spaces.
func (k kubectl) command(line string, more ...string) *exec.Cmd {
	cmd := exec.Command(binaries.kubectl, append(strings.Fields(line), more...)...)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + k.home, "KUBECONFIG=" + k.kubeconfig, "POD_NAMESPACE=" + k.namespace,
	}, k.env...)
	cmd.Stdin = strings.NewReader(k.stdin)
	return cmd
}

// run runs kubectl to its end.
func (k kubectl) run(line string, more ...string) (stdout, stderr string, code int) {
	k.t.Helper()
	if k.namespace != "" && !strings.Contains(line+" ", " -n ") && !strings.Contains(line, "--raw") {
		line = "--namespace=" + k.namespace + " " + line
	}
	p, err := start(k.command(line, more...))
	if err != nil {
		k.t.Fatal(err)
	}
	code, err = p.wait(kubectlTimeout)
	if err != nil {
		p.kill()
		k.t.Fatalf("kubectl %s: %v; it wrote:\n%s%s", line, err, p.stdout, p.stderr)
	}
	return p.stdout.String(), p.stderr.String(), code
}

// ok runs kubectl, which must succeed, and returns what it writes.
func (k kubectl) ok(line string, more ...string) string {
	k.t.Helper()
	stdout, stderr, code := k.run(line, more...)
	if code != 0 {
		k.t.Fatalf("kubectl %s %q: exit code %d\n%s%s", line, more, code, stdout, stderr)
	}
	return stdout
}

// says runs kubectl, which must succeed and write all of the words.
func (k kubectl) says(line string, words ...string) {
	k.t.Helper()
	k.contains(line, k.ok(line), words)
}

// contains compares without regard to how columns are aligned.
func (k kubectl) contains(line, got string, words []string) {
	k.t.Helper()
	spaces := regexp.MustCompile(`[ \t]+`)
	aligned := func(text string) string { return spaces.ReplaceAllString(text, " ") }
	for _, word := range words {
		if !strings.Contains(aligned(got), aligned(word)) {
			k.t.Errorf("kubectl %s: %q is missing in:\n%s", line, word, got)
		}
	}
}

// fails runs kubectl, which must end with exit code 1 and write all of the words.
func (k kubectl) fails(line string, words ...string) {
	k.t.Helper()
	stdout, stderr, code := k.run(line)
	if code != 1 {
		k.t.Errorf("kubectl %s: exit code %d, want 1", line, code)
	}
	k.contains(line, stdout+stderr, words)
}

// get is what jsonpath finds in an object ("kind name" or "kind/name").
func (k kubectl) get(object, jsonpath string) string {
	k.t.Helper()
	return k.ok("get "+object+" -o", "jsonpath="+jsonpath)
}

// has fails the test where jsonpath finds something else in an object than want.
func (k kubectl) has(object, jsonpath, want string) {
	k.t.Helper()
	if got := k.get(object, jsonpath); got != want {
		k.t.Errorf("%s of %s is %q, want %q", jsonpath, object, got, want)
	}
}

// begin starts a command that goes on until the test ends, or until it ends by itself.
func (k kubectl) begin(line string) *process {
	k.t.Helper()
	return startFor(k.t, k.command(line+" --namespace="+k.namespace))
}

// waitsWhile starts a command, which must not end before change has been made and must succeed
// then.
func (k kubectl) waitsWhile(line string, change func()) {
	k.t.Helper()
	p := k.begin(line)
	// The command must have begun to wait; the change may then come before its first look or after,
	// and both are right.
	if code, err := p.wait(100 * time.Millisecond); err == nil {
		k.t.Fatalf("kubectl %s ended with %d before anything changed:\n%s%s", line, code, p.stdout, p.stderr)
	}
	change()
	if code, err := p.wait(kubectlTimeout); err != nil || code != 0 {
		k.t.Errorf("kubectl %s: exit code %d, %v\n%s%s", line, code, err, p.stdout, p.stderr)
	}
}

// editor writes an editor that replaces, as sed does.
func (k kubectl) editor(expression string) kubectl {
	k.t.Helper()
	needs.Programs(k.t, "/bin/sh", "mv", "sed")
	script := filepath.Join(k.t.TempDir(), "editor")
	text := "#!/bin/sh\nsed '" + expression + "' \"$1\" >\"$1.new\" && mv \"$1.new\" \"$1\"\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		k.t.Fatal(err)
	}
	return k.withEnv("KUBE_EDITOR=" + script)
}

// as is kubectl with a token in place of the administrator's certificate.
func (k kubectl) as(token string) kubectl {
	k.t.Helper()
	config, err := clientcmd.LoadFromFile(k.kubeconfig)
	if err != nil {
		k.t.Fatal(err)
	}
	user := config.Contexts[config.CurrentContext].AuthInfo
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	k.kubeconfig = filepath.Join(k.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, k.kubeconfig); err != nil {
		k.t.Fatal(err)
	}
	return k
}

// gone waits until there is no such object.
func (k kubectl) gone(object string) {
	k.t.Helper()
	eventually(k.t, kubectlTimeout, func(context.Context) error {
		stdout, _, _ := k.run("get --ignore-not-found -o name " + object)
		if stdout != "" {
			return errors.New(object + " is still there")
		}
		return nil
	})
}
