// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package gatehousetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gatehouse.dev/gatehousetest"
	"gatehouse.dev/test/needs"
)

// ofMain is the server of somebody else's package, in the processes that TestOfAPackage runs.
var ofMain *gatehousetest.Server

func TestMain(m *testing.M) {
	needs.NotShort()
	end := os.Getenv("GATEHOUSETEST_MAIN")
	if end == "" {
		os.Exit(m.Run())
	}
	os.Exit(gatehousetest.Main(m, func(s *gatehousetest.Server) error {
		if end == "can't be set up" {
			return errors.New("this is why")
		}
		ofMain = s
		return s.CRDs(context.Background(), "testdata/crds")
	}))
}

// TestMainChild is a test of that package.
func TestMainChild(t *testing.T) {
	if ofMain == nil {
		return
	}
	// A package that shares the server may have made it.
	if err := connect(t, ofMain.Config).Create(t.Context(), shop("main", true)); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		t.Error(err)
	}
	config, err := ofMain.User("nobody")
	if err != nil {
		t.Fatal(err)
	}
	if err := connect(t, config).Create(t.Context(), shop("nobodys", true)); !apierrors.IsForbidden(err) {
		t.Errorf("nobody may create shops: %v", err)
	}
	klog.Error("this is what was logged")
	if os.Getenv("GATEHOUSETEST_MAIN") == "fails" {
		t.Fail()
	}
}

// One server for a package: its tests' end is the process's, and the log is shown where they fail.
func TestOfAPackage(t *testing.T) {
	for end, want := range map[string]string{
		"passes":          "",
		"fails":           "this is what was logged",
		"can't be set up": "this is why",
	} {
		out, err := runPackage(t, "GATEHOUSETEST_MAIN="+end)
		switch {
		case want == "" && (err != nil || out != "PASS\n"):
			t.Errorf("a package that passes: %v\n%s", err, out)
		case want != "" && (err == nil || !strings.Contains(out, want)):
			t.Errorf("a package that %s: %v\n%s", end, err, out)
		}
	}
}

// Packages share a server that runs already.
func TestOfPackages(t *testing.T) {
	srv := gatehousetest.Start(t)
	for range 2 {
		out, err := runPackage(t, "GATEHOUSETEST_MAIN=passes", "GATEHOUSETEST_KUBECONFIG="+srv.Kubeconfig)
		if err != nil {
			t.Errorf("a package that shares the server: %v\n%s", err, out)
		}
	}
	if err := connect(t, srv.Config).Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "main"},
		shop("main", true)); err != nil {
		t.Errorf("what they made is not there: %v", err)
	}
}

func runPackage(t *testing.T, environment ...string) (string, error) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMainChild$")
	child.Env = append(os.Environ(), environment...)
	out, err := child.CombinedOutput()
	return string(out), err
}
