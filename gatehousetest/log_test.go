// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package gatehousetest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"gatehouse.dev/gatehousetest"
)

// A test that passes says nothing; one that fails shows what its server logged. Each is run by a
// process of its own.
func TestLogOfATest(t *testing.T) {
	for _, end := range []string{"passes", "fails"} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$")
		child.Env = append(os.Environ(), "GATEHOUSETEST_CHILD="+end)
		out, err := child.CombinedOutput()
		switch {
		case end == "passes" && (err != nil || string(out) != "PASS\n"):
			t.Errorf("a test that passes: %v\n%s", err, out)
		case end == "fails":
			said := strings.Index(string(out), "this is the error")
			logged := strings.Index(string(out), "this is what was logged")
			if err == nil || said < 0 || logged < said {
				t.Errorf("a test that fails: %v\n%s", err, out)
			}
			// It has stopped two servers, which was of no interest.
			if lines := strings.Count(string(out), "\n"); lines > 20 || strings.Contains(string(out), "hutdown") ||
				strings.Count(string(out), "this is what was logged") != 1 {
				t.Errorf("a test that fails prints %d lines:\n%s", lines, out)
			}
		}
	}
}

// TestChild is a test of somebody else's, in the processes that TestLogOfATest runs.
func TestChild(t *testing.T) {
	end := os.Getenv("GATEHOUSETEST_CHILD")
	if end == "" {
		return
	}
	srv := gatehousetest.Start(t)
	client := kubernetes.NewForConfigOrDie(srv.Config)
	if _, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	srv.Stop()
	again := gatehousetest.StartIn(t, srv.DataDir)
	if _, err := kubernetes.NewForConfigOrDie(again.Config).CoreV1().Namespaces().Get(t.Context(), "shop",
		metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	klog.Error("this is what was logged")
	if end == "fails" {
		t.Error("this is the error")
	}
}
