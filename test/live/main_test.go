// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package live tests reviews of what a running cluster has, against a running server.
package live

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"gatehouse.dev/cli"
	"gatehouse.dev/cmd/gatehouse/compiled"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/test/servertest"
)

var suite servertest.Suite

func TestMain(m *testing.M) { suite.Main(m) }

// cluster is the server that all tests read, with what is in state.yaml.
var cluster = sync.OnceValue(func() *servertest.Cluster {
	c := servertest.Start(&suite)
	for _, name := range []string{"state.yaml", "objects.yaml"} {
		documents, errs := input.Read([]string{filepath.Join("testdata", name)}, nil)
		if errs != nil {
			suite.Fatal(errs)
		}
		for _, d := range documents {
			resource, _ := meta.UnsafeGuessKindToResource(d.Object.GroupVersionKind())
			client := c.Dynamic.Resource(resource).Namespace(d.Object.GetNamespace())
			// What it needs may be known to the server a moment later.
			servertest.Retry(&suite, d.Source.String(), func() error {
				_, err := client.Create(context.Background(), d.Object, metav1.CreateOptions{})
				if apierrors.IsAlreadyExists(err) {
					return nil
				}
				return err
			})
		}
	}
	return c
})

// run is what the command says, and its exit code.
func run(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(t.Context(), compiled.Plugins, args, &out, &errs)
	return out.String(), errs.String(), code
}

// written is a file of a test's.
func written(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// kubeconfig is a file by which somebody else reaches the server.
func kubeconfig(t *testing.T, user string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(cluster().Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	for _, auth := range config.AuthInfos {
		auth.Impersonate = user
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// generated are names of pods of a Deployment.
var generated = regexp.MustCompile(`"big-[a-z0-9]+-[a-z0-9]{5}"`)

func settled(text string) string { return generated.ReplaceAllString(text, `"big-…"`) }
