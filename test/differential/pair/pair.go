// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pair starts Gatehouse and kube-apiserver with the same plugins and flags, and makes their
// answers and audit logs comparable.
package pair

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"gatehouse.dev/chain/config"
	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/test/peers"
)

// ProgramsVariable is an environment variable with a directory that has the programs. If it is
// empty, tests build them.
const ProgramsVariable = "DIFFERENTIAL_BIN"

// Programs returns a directory with programs, which it builds if there is none yet.
func Programs(ctx context.Context, t *testing.T, programs ...string) string {
	t.Helper()
	bin := os.Getenv(ProgramsVariable)
	if bin == "" {
		bin = t.TempDir()
		if err := peers.Build(ctx, bin, programs...); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// Words returns the words of a document, with one space between them.
func Words(t *testing.T, document string) string {
	t.Helper()
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(content)), " ")
}

// OptionalPlugins are off by default, and need no configuration.
var OptionalPlugins = []string{"NamespaceExists", "NodeRestriction", "DenyServiceExternalIPs",
	"OwnerReferencesPermissionEnforcement", "ExtendedResourceToleration", "PodNodeSelector",
	"PodTolerationRestriction", "LimitPodHardAntiAffinityTopology", "AlwaysPullImages"}

// A Server is one of the two servers, with a client of its administrator's.
type Server struct {
	URL      string
	Client   *http.Client
	AuditLog string // the file
}

// Start starts both servers with the plugins that are on by default and those in enable. The test's
// end stops them.
func Start(ctx context.Context, t *testing.T, bin string, enable []string, flags ...string) (ours, theirs Server) {
	t.Helper()
	policy := filepath.Join(t.TempDir(), "audit.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	// A test reads one file: a log that grew to 100 MB would go on in another.
	flags = append(flags, "--audit-policy-file="+policy, "--audit-log-path="+AuditLogFile, "--audit-log-maxsize=10000")
	// kube-apiserver calls a webhook again and again that doesn't answer.
	gatehouse := append([]string{"--controllers=", "--webhook-breaker=false",
		"--enable-admission-plugins=" + strings.Join(enable, ",")}, flags...)
	names := PluginNames(t, enable)
	ours = Connect(t, StartProcesses(ctx, t, bin, func(ctx context.Context, s *peers.Server) error {
		return s.RunGatehouse(ctx, gatehouse...)
	}))
	theirs = Connect(t, StartProcesses(ctx, t, bin, func(ctx context.Context, s *peers.Server) error {
		return s.RunKubeAPIServer(ctx, names, flags...)
	}))
	return ours, theirs
}

// PluginNames returns the names of the plugins that are on by default and of those in enable, in the
// order in which they run.
func PluginNames(t *testing.T, enable []string) []string {
	t.Helper()
	options := config.Options{Enable: enable}
	selected, err := options.Select(compiled.Plugins)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range selected {
		names = append(names, d.Name)
	}
	return names
}

// StartProcesses starts a server on a new directory. The test's end stops it.
func StartProcesses(ctx context.Context, t *testing.T, bin string,
	run func(context.Context, *peers.Server) error) *peers.Server {
	t.Helper()
	// Not t.TempDir: a socket's path must be short.
	dir, err := os.MkdirTemp("", "differential-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	running, err := peers.Start(ctx, bin, dir, run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(running.Stop)
	return running
}

// Connect returns the server with a client for it.
func Connect(t *testing.T, running *peers.Server) Server {
	t.Helper()
	client, err := rest.HTTPClientFor(running.Config)
	if err != nil {
		t.Fatal(err)
	}
	return Server{running.Config.Host, client, filepath.Join(running.Dir, AuditLogFile)}
}
