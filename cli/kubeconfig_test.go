// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// kubeconfig is one that serve leaves in a data directory, of a server at a port.
const kubeconfig = `apiVersion: v1
kind: Config
current-context: gatehouse
clusters: [{name: gatehouse, cluster: {server: "https://127.0.0.1:%d", certificate-authority-data: QUJD}}]
users: [{name: kubernetes-admin, user: {client-certificate-data: QUJD, client-key-data: REVG}}]
contexts: [{name: gatehouse, context: {cluster: gatehouse, user: kubernetes-admin}}]
`

const others = `apiVersion: v1
kind: Config
current-context: prod
preferences: {extensions: [{name: kept, extension: {by: us}}]}
clusters: [{name: prod, cluster: {server: "https://prod.example", certificate-authority: relative.crt}}]
users: [{name: prod, user: {token: secret}}]
contexts:
- {name: prod, context: {cluster: prod, user: prod, namespace: shop}}
- {name: mixed, context: {cluster: prod, user: prod}}
`

func writeTo(t *testing.T, content string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestKubeconfigMerge(t *testing.T) {
	dir := t.TempDir()
	for port, name := range []string{"one", "two"} {
		writeTo(t, fmt.Sprintf(kubeconfig, port), dir, name, "admin.kubeconfig")
	}
	first, second := filepath.Join(dir, "sub", "first"), writeTo(t, others, dir, "second")
	t.Setenv("KUBECONFIG", first)
	merge := func(name, data string, want string) {
		t.Helper()
		stdout, stderr, code := runCommand(t, "kubeconfig", "--merge", "--name="+name,
			"--data-dir="+filepath.Join(dir, data))
		if got := stdout + stderr; !strings.HasPrefix(got, want) || (code == 0) != (stderr == "") {
			t.Errorf("%s: got %q, exit code %d, want %q", name, got, code, want)
		}
	}
	// Into a file that isn't there, in a directory that isn't there.
	merge("one", "one", "context one is the current one of "+first)
	if info, err := os.Stat(first); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	// Beside what others have, which stays as it is.
	t.Setenv("KUBECONFIG", second)
	merge("one", "one", "context one is the current one of "+second)
	merge("two", "two", "context two is the current one of "+second)
	merge("one", "two", "context one is the current one of "+second) // another server by that name
	for _, name := range []string{"prod", "mixed"} {
		merge(name, "one", "gatehouse: kubeconfig "+second+": there is a ")
	}
	merge("--", "one", `gatehouse: --name "--" must begin with a letter`)
	merge("x", "none", "gatehouse: data directory "+filepath.Join(dir, "none")+" has no admin.kubeconfig")
	config, err := clientcmd.LoadFromFile(second)
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(config.Contexts))
	if want := []string{"mixed", "one", "prod", "two"}; !slices.Equal(names, want) || config.CurrentContext != "one" {
		t.Errorf("contexts %q, %s is the current one", names, config.CurrentContext)
	}
	if prod := config.Clusters["prod"]; prod.Server != "https://prod.example" ||
		prod.CertificateAuthority != "relative.crt" || config.AuthInfos["prod"].Token != "secret" ||
		config.Contexts["prod"].Namespace != "shop" {
		t.Errorf("the others' are changed: %+v", prod)
	}
	if config.Preferences.Extensions["kept"] == nil {
		t.Errorf("the preferences are gone: %+v", config.Preferences)
	}
	if one := config.Clusters["one"]; one.Server != "https://127.0.0.1:1" || len(config.Clusters) != 3 {
		t.Errorf("the server is %+v", one)
	}
	if _, err := os.Stat(second + ".lock"); !os.IsNotExist(err) {
		t.Errorf("the lock is left: %v", err)
	}
}

// Several at once don't lose each other's.
func TestKubeconfigMergeAtOnce(t *testing.T) {
	dir := t.TempDir()
	writeTo(t, fmt.Sprintf(kubeconfig, 1), dir, "data", "admin.kubeconfig")
	file := filepath.Join(dir, "config")
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			args := []string{"kubeconfig", "--merge", "--kubeconfig=" + file,
				"--data-dir=" + filepath.Join(dir, "data")}
			for {
				// As with kubectl, who finds the file locked is told so.
				_, stderr, code := runCommand(t, append(args, fmt.Sprint("--name=n", i))...)
				if code == 0 {
					return
				}
				if !strings.Contains(stderr, ".lock: file exists") {
					t.Error(stderr)
					return
				}
			}
		})
	}
	all.Wait()
	config, err := clientcmd.LoadFromFile(file)
	if err != nil || len(config.Contexts) != 4 || len(config.Clusters) != 4 || len(config.AuthInfos) != 4 {
		t.Errorf("%d contexts, %v", len(config.Contexts), err)
	}
}

func TestKubeconfigPrint(t *testing.T) {
	dir := t.TempDir()
	writeTo(t, fmt.Sprintf(kubeconfig, 7), dir, "admin.kubeconfig")
	stdout, stderr, code := runCommand(t, "kubeconfig", "--data-dir="+dir, "--name=mine")
	config, err := clientcmd.Load([]byte(stdout))
	if code != 0 || err != nil || config.CurrentContext != "mine" ||
		config.Clusters["mine"].Server != "https://127.0.0.1:7" {
		t.Errorf("%s%s, exit code %d, %v", stdout, stderr, code, err)
	}
}

// A server's own kubeconfig, which serve says to export, is not the user's.
func TestKubeconfigMergeIntoServers(t *testing.T) {
	dir := t.TempDir()
	one := writeTo(t, fmt.Sprintf(kubeconfig, 1), dir, "one", "admin.kubeconfig")
	two := writeTo(t, fmt.Sprintf(kubeconfig, 2), dir, "two", "admin.kubeconfig")
	writeTo(t, "", dir, "two", "pki", "ca.crt")
	mine := writeTo(t, others, dir, "mine")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(one, link); err != nil {
		t.Fatal(err)
	}
	for env, named := range map[string]string{one: one, two: two, link: link, mine + ":" + one: one} {
		t.Setenv("KUBECONFIG", env)
		stdout, stderr, code := runCommand(t, "kubeconfig", "--merge", "--data-dir="+filepath.Join(dir, "one"))
		want := "gatehouse: kubeconfig " + named + " is a server's own, which each start writes anew: unset " +
			"KUBECONFIG to merge into ~/.kube/config, or name a file with --kubeconfig\n"
		if stdout != "" || stderr != want || code != ExitUsage {
			t.Errorf("%s: got %q, %q, exit code %d, want %q", env, stdout, stderr, code, want)
		}
	}
	if got, err := os.ReadFile(one); err != nil || string(got) != fmt.Sprintf(kubeconfig, 1) {
		t.Errorf("the server's own is now %s (%v)", got, err)
	}
	if stdout, stderr, code := runCommand(t, "kubeconfig", "--merge", "--data-dir="+filepath.Join(dir, "one"),
		"--kubeconfig="+mine); code != 0 {
		t.Errorf("into a file that is named: %s%s, exit code %d", stdout, stderr, code)
	}
}

// An administrator's key goes into no file that others may read.
func TestKubeconfigMergeIntoReadable(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes")
	}
	dir := t.TempDir()
	writeTo(t, fmt.Sprintf(kubeconfig, 1), dir, "data", "admin.kubeconfig")
	first, second := writeTo(t, others, dir, "first"), writeTo(t, others, dir, "second")
	if err := os.Chmod(second, 0o644); err != nil {
		t.Fatal(err)
	}
	merge := func(files ...string) (stderr string, code int) {
		t.Setenv("KUBECONFIG", strings.Join(files, string(filepath.ListSeparator)))
		_, stderr, code = runCommand(t, "kubeconfig", "--merge", "--data-dir="+filepath.Join(dir, "data"))
		return stderr, code
	}
	stderr, code := merge(second)
	want := "gatehouse: kubeconfig " + second + ": an administrator's key would be in it, and " + second +
		" can be read by others (mode 0644): chmod go= " + second + "\n"
	if stderr != want || code == 0 {
		t.Errorf("got  %q, exit code %d\nwant %q", stderr, code, want)
	}
	if got, err := os.ReadFile(second); err != nil || string(got) != others {
		t.Errorf("the file is now %s (%v)", got, err)
	}
	// It goes into the first file, whoever may read another.
	if stderr, code := merge(first, second); code != 0 {
		t.Errorf("got %q, exit code %d", stderr, code)
	}
}
