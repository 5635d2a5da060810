// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatehouse.dev/internal/commandline"
	"gatehouse.dev/plugins"
	"gatehouse.dev/remote/command"
)

// What is wrong with flags ends the start, with the flag, its value, and what it has to be.
func TestWrongFlags(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	garbage := file("garbage", "{")
	// It names a server, which nobody gets to.
	kubeconfig := file("kubeconfig", `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context:
{cluster: c}}], clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]}`)
	const both, url = "--plugins=AlwaysPullImages --url=https://a:1", "--plugins=AlwaysPullImages "
	for _, test := range []struct{ args, want string }{
		{"", `--plugins is required: the names of the plugins to run` + "\n" +
			`gatehouse-webhook: --url or --service is required: where API servers call`},
		{"a " + both, `gatehouse-webhook takes no arguments, got ["a"]`},
		{both + " --plugins=NoSuch",
			`--plugins: there is no plugin "NoSuch": gatehouse plugins lists those that there are`},
		{both + " --plugins=NamespaceLifecycle",
			`--plugins: NamespaceLifecycle can't run outside the API server: every ` +
				`API server runs it itself, before it asks webhooks: leave it out`},
		{"--plugins=AlwaysPullImages", `--url or --service is required: where API servers call`},
		{both + " --service=a/b", `--url and --service are mutually exclusive: remove one of them`},
		{url + "--url=http://a",
			`--url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: ` +
				`https://host[/path]`},
		{url + "--url=https://a/b?c", `--url: Invalid value: "c": query parameters are not permitted in the URL`},
		{url + "--service=a", `--service: "a" must be namespace/name or namespace/name:port`},
		{url + "--service=a/", `--service: "a/" must be namespace/name or namespace/name:port: a DNS-1035 label must`},
		{url + "--service=A/b", `--service: "A/b" must be namespace/name or namespace/name:port: a lowercase RFC 1123`},
		{url + "--service=a/b:0", `--service: "a/b:0" must be namespace/name or namespace/name:port`},
		{url + "--service=a/b:65536", `--service: "a/b:65536" must be namespace/name or namespace/name:port`},
		{both + " --name=A_b", `--name: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of`},
		{both + " --namespace=a.b", `--namespace: Invalid value: "a.b": must not contain dots`},
		{both + " --exempt-namespaces=a,B",
			`--exempt-namespaces[1]: Invalid value: "B": a lowercase RFC 1123 label must`},
		{both + " --timeout=31s",
			`--timeout: Invalid value: "31s": the timeout value must be between 1 and 30 seconds`},
		{both + " --timeout=abc", `invalid argument "abc" for "--timeout" flag: time: invalid duration "abc"`},
		{both + " --failure-policy=Maybe", `--failure-policy: "Maybe" must be Fail or Ignore`},
		{both + " --failure-policy=AlwaysPullImages=No", `--failure-policy: "No" must be Fail or Ignore`},
		{both + " --failure-policy=Priority=Fail", `--failure-policy: "Priority" is not among --plugins`},
		{both + " --mode=maybe", `--mode: "maybe" must be warn, audit or enforce`},
		{both + " --mode=AlwaysPulImages", `or PLUGIN= and one of them, did you mean "AlwaysPullImages"?`},
		{both + " --mode=AlwaysPulImages=warn", `"AlwaysPulImages" is not among --plugins, did you mean "AlwaysPullImages"?`},
		{both + " --mode=AlwaysPullImages=", `--mode: "" must be warn, audit or enforce`},
		{both + " --mode=Priority=warn", `--mode: "Priority" is not among --plugins`},
		{both + " --mode=warn --failure-policy=AlwaysPullImages=Fail", `--failure-policy: AlwaysPullImages=Fail: ` +
			`with --mode=AlwaysPullImages=warn nothing is refused: leave one of them out`},
		{"--plugins=AlwaysPullImages --service=a/b --keep", `--keep is for --url`},
		{both + " --per-plugin=maybe", `invalid argument "maybe" for "--per-plugin" flag`},
		{both + " --admission-control-config-file=gone", `--admission-control-config-file gone: `},
		{both + " --admission-control-config-file=" + garbage, `--admission-control-config-file ` + garbage + `: `},
		{both + " --bind-address=a", `invalid argument "a" for "--bind-address" flag: failed to parse IP: "a"`},
		{both + " --secure-port=0", `--secure-port: 0 must be between 1 and 65535`},
		{both + " --secure-port=65536", `--secure-port: 65536 must be between 1 and 65535`},
		{both + " --tls-cert-file=c", `--tls-cert-file and --tls-private-key-file are needed together`},
		{both + " --tls-private-key-file=k", `--tls-cert-file and --tls-private-key-file are needed together`},
		{both + " --tls-ca-file=c", `--tls-ca-file needs --tls-cert-file`},
		{both + " --tls-cert-file=gone --tls-private-key-file=k", `--tls-cert-file: open gone: no such file`},
		{both + " --tls-cert-file=" + garbage + " --tls-private-key-file=" + garbage, `--tls-cert-file: ` + garbage +
			` with ` + garbage + `: tls: failed to find any PEM data in certificate input`},
		{both + " --service-account-issuer=i", `--service-account-issuer and --service-account-key-file are needed together`},
		{both + " --service-account-key-file=gone",
			`--service-account-issuer and --service-account-key-file are needed together`},
		{both + " --service-account-issuer=i --service-account-key-file=gone",
			`--service-account-key-file: webhook tokens: KeyFiles[0]: open gone: no such file or directory`},
		{both + " --service-account-issuer=i --service-account-key-file=" + garbage,
			`--service-account-key-file: webhook tokens: KeyFiles[0] ` + garbage + `: no JSON Web Key Set`},
		{both + " --client-ca-file=gone", `--client-ca-file gone: open gone: no such file or directory`},
		{both + " --client-ca-file=" + garbage, `--client-ca-file ` + garbage + `: error creating pool from ` +
			garbage + `: data does not contain any valid RSA or ECDSA certificates`},
		{both + " --shutdown-delay-duration=-1s", `--shutdown-delay-duration: -1s must not be negative`},
		{both + " --kubeconfig=gone", `kubeconfig: stat gone: no such file or directory`},
		{both + " --tracing-config-file=gone", `--tracing-config-file gone: open gone: no such file or directory`},
		{both + " --tracing-config-file=" + kubeconfig,
			`kind "Config": must be kind TracingConfiguration in one of the ` +
				`apiVersions`},
		{both + " --decision-log-path=" + garbage + "/log", garbage + `: not a directory`},
		{both + " --decision-log-maxsize=-1", `--decision-log-maxsize`},
		{both + " --unheard-of", `unknown flag: --unheard-of (see 'gatehouse-webhook --help')`},
	} {
		root := command.New(plugins.List)
		root.Use = "gatehouse-webhook"
		commandline.Prepare(root)
		var out, errs bytes.Buffer
		args := append([]string{"--kubeconfig=" + kubeconfig}, strings.Fields(test.args)...)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // one that isn't refused starts
		code := commandline.Run(ctx, root, args, &out, &errs)
		cancel()
		if code == 0 || out.Len() > 0 || !strings.Contains(errs.String(), test.want) ||
			!allBeginWith(errs.String(), "gatehouse-webhook: ") {
			t.Errorf("%s: exit code %d, %s%s, want %s", test.args, code, &out, &errs, test.want)
		}
	}
}

// allBeginWith reports whether each line, of which there is one at least, begins with a prefix.
func allBeginWith(text, prefix string) bool {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, prefix) {
			return false
		}
	}
	return strings.HasSuffix(text, "\n")
}
